//! Files of a Hugging Face repository, or of a server that has the same addresses. Only public ones: no token is sent.

use std::io::Read;
use std::time::Duration;

use hf_hub::api::sync::ApiBuilder;
use hf_hub::{Cache, Repo, RepoType};

use super::slot::Workspace;
use super::transfer::Transfer;
use super::{FetchError, Progress};
use crate::model::spec::Artifact;

/// How often a body that breaks off is taken up again, in one fetch.
const ATTEMPTS: u32 = 3;
/// Longest wait for a connection.
const CONNECT: Duration = Duration::from_secs(20);
/// Longest silence of a server.
const SILENCE: Duration = Duration::from_secs(60);

/// A file of a repository.
#[derive(Debug)]
pub(super) struct HubFile<'a> {
    pub(super) endpoint: &'a str,
    pub(super) repository: &'a str,
    pub(super) revision: &'a str,
    pub(super) file: &'a Artifact,
}

impl HubFile<'_> {
    /// Downloads it to the workspace's file.
    pub(super) fn fetch(
        &self,
        work: &Workspace,
        progress: &mut dyn FnMut(Progress<'_>),
    ) -> Result<(), FetchError> {
        let url = self.url(work)?;
        progress(Progress::Fetching { from: &url });
        let agent = agent(&url);
        let mut transfer = Transfer::create(&work.file(), self.file.size)?;
        for _ in 0..ATTEMPTS {
            let mut body = request(&agent, &url, &mut transfer)?;
            if let Some(error) = transfer.copy(&mut body, progress)? {
                tracing::warn!(url, %error, done = transfer.done(), "a download broke off");
            }
            if transfer.done() == transfer.size() {
                let more = body.read(&mut [0]).is_ok_and(|read| read > 0);
                return transfer.finish(&url, more);
            }
        }
        let (done, size) = (transfer.done(), transfer.size());
        let reason = format!(
            "the download broke off {ATTEMPTS} times, at last after {done} of {size} bytes"
        );
        Err(FetchError::Http { url, reason })
    }

    fn url(&self, work: &Workspace) -> Result<String, FetchError> {
        let endpoint = self.endpoint.trim_end_matches('/');
        // The crate looks for a token beside its cache, so it gets an empty one instead of the user's.
        let cache = Cache::new(work.folder("hub")?);
        let api = ApiBuilder::from_cache(cache)
            .with_endpoint(endpoint.to_owned())
            .with_token(None)
            .with_progress(false)
            .build();
        let api = api.map_err(|error| FetchError::Http {
            url: endpoint.to_owned(),
            reason: error.to_string(),
        })?;
        let (repository, revision) = (self.repository.to_owned(), self.revision.to_owned());
        Ok(api
            .repo(Repo::with_revision(repository, RepoType::Model, revision))
            .url(&self.file.path))
    }
}

/// Obeys the usual proxy variables, except towards this machine itself.
fn agent(url: &str) -> ureq::Agent {
    let host = url.split_once("://").map_or("", |(_, rest)| rest);
    let local = ["127.", "localhost", "[::1]"]
        .iter()
        .any(|prefix| host.starts_with(prefix));
    ureq::AgentBuilder::new()
        .timeout_connect(CONNECT)
        .timeout_read(SILENCE)
        .try_proxy_from_env(!local)
        .build()
}

/// Asks for what `transfer` still lacks; starts it over where the server sends everything again.
fn request(
    agent: &ureq::Agent,
    url: &str,
    transfer: &mut Transfer,
) -> Result<Box<dyn Read + Send + Sync>, FetchError> {
    let failed = |reason: String| FetchError::Http {
        url: url.to_owned(),
        reason,
    };
    let start = transfer.done();
    // A compressed body could neither be resumed nor compared with the size.
    let mut request = agent.get(url).set("Accept-Encoding", "identity");
    if start > 0 {
        request = request.set("Range", &format!("bytes={start}-"));
    }
    let response = request.call().map_err(|error| match error {
        ureq::Error::Status(status, response) => failed(refusal(status, response.status_text())),
        ureq::Error::Transport(error) => failed(error.to_string()),
    })?;
    let range = response.header("Content-Range").unwrap_or_default();
    let resumed = response.status() == 206 && range.starts_with(&format!("bytes {start}-"));
    if start > 0 && !resumed {
        transfer.restart()?;
    }
    let left = transfer.size() - transfer.done();
    let length = response
        .header("Content-Length")
        .and_then(|length| length.parse::<u64>().ok());
    if let Some(length) = length.filter(|length| *length != left) {
        return Err(FetchError::WrongSize {
            what: url.to_owned(),
            expected: transfer.size(),
            actual: transfer.done().saturating_add(length),
        });
    }
    Ok(response.into_reader())
}

fn refusal(status: u16, text: &str) -> String {
    let remedy = match status {
        401 | 403 => {
            "; private and gated repositories are not supported: get the file by other means and give its path"
        }
        404 => "; check repository, revision and file in the manifest",
        _ => "",
    };
    format!("the server answers {status} {text}{remedy}")
}
