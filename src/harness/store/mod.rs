//! What outlives the process: snapshots by their content, labels as files that hold a version, and the audit log.
//!
//! Whatever moment the program is killed at, every label points to a whole snapshot: a snapshot is written before a
//! label names it, each by writing beside and renaming, and the log is last. What the log then lacks is added at the next
//! opening.

mod audit;
mod disk;
#[cfg(test)]
mod tests;

use std::io;
use std::path::{Path, PathBuf};

use chrono::{SecondsFormat, Utc};

pub use audit::{Action, Entry};
pub use disk::{Disk, RealDisk};

use super::{Source, Version};

/// The label of what is live.
pub const PRODUCTION: &str = "production";
/// The label of what was read last and is valid.
pub const LATEST: &str = "latest";
/// Points to the version of the folder that a rollback turned away from.
const HELD: &str = ".held";
/// Ends the name of a file that is being written.
const UNFINISHED: &str = ".new";
/// Longest label.
const LABEL: usize = 64;
/// The audit log.
const AUDIT: &str = "audit.jsonl";

/// Why the store cannot do something.
#[derive(Debug, thiserror::Error)]
pub enum StoreError {
    /// The file system refuses.
    #[error("{}: {source}", path.display())]
    Io {
        /// Which file or folder.
        path: PathBuf,
        /// Why.
        source: io::Error,
    },
    /// There is no such snapshot.
    #[error("version {0} is not kept")]
    Unknown(Version),
    /// A snapshot's bytes are not those it was kept as.
    #[error("{}: does not hold version {version}: it was changed or damaged", path.display())]
    Damaged {
        /// The file.
        path: PathBuf,
        /// What it should hold.
        version: Version,
    },
    /// A label's file holds no version.
    #[error("{}: does not hold a version", .0.display())]
    BadLabel(PathBuf),
    /// A text that is no label.
    #[error(
        "{0:?} is no label: 1 to 64 lower-case letters, digits, `.`, `_` and `-`, not beginning with `.`"
    )]
    NotALabel(String),
    /// There is nothing to go back to.
    #[error("there is no earlier version to go back to")]
    NoEarlier,
}

/// The kept states of one harness.
pub struct Store {
    dir: PathBuf,
    disk: Box<dyn Disk>,
}

impl std::fmt::Debug for Store {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Store")
            .field("dir", &self.dir)
            .finish_non_exhaustive()
    }
}

impl Store {
    /// Opens the folder, making it where it is missing, and brings the log up to the labels.
    ///
    /// # Errors
    /// [`StoreError::Io`].
    pub fn open(dir: impl Into<PathBuf>) -> Result<Self, StoreError> {
        Self::with(dir, Box::new(RealDisk))
    }

    /// As [`Store::open`], on another disk.
    ///
    /// # Errors
    /// As [`Store::open`].
    pub fn with(dir: impl Into<PathBuf>, disk: Box<dyn Disk>) -> Result<Self, StoreError> {
        let store = Self {
            dir: dir.into(),
            disk,
        };
        for folder in ["snapshots", "labels"] {
            store.run(&store.dir.join(folder), |path| store.disk.create_dir(path))?;
        }
        store.recover()?;
        Ok(store)
    }

    /// Where it lies.
    #[must_use]
    pub fn dir(&self) -> &Path {
        &self.dir
    }

    fn run<T>(
        &self,
        path: &Path,
        action: impl FnOnce(&Path) -> io::Result<T>,
    ) -> Result<T, StoreError> {
        action(path).map_err(|source| StoreError::Io {
            path: path.to_owned(),
            source,
        })
    }

    /// Adds what the log lacks about `production`.
    fn recover(&self) -> Result<(), StoreError> {
        let Some(now) = self.label(PRODUCTION)? else {
            return Ok(());
        };
        let logged = self.live_in_log()?;
        if logged == Some(now) {
            return Ok(());
        }
        self.log(&self.entry("start", Action::Recover, PRODUCTION, logged, Some(now)))
    }

    /// Where the log says that `production` points.
    fn live_in_log(&self) -> Result<Option<Version>, StoreError> {
        let entries = self.history()?;
        let last = entries
            .iter()
            .rev()
            .find(|entry| entry.label == PRODUCTION && entry.result == "ok");
        Ok(last.and_then(|entry| entry.to))
    }

    fn snapshot_path(&self, version: Version) -> PathBuf {
        self.dir
            .join("snapshots")
            .join(format!("{version}.snapshot"))
    }

    /// Writes a file whole or not at all.
    fn replace(&self, path: &Path, bytes: &[u8]) -> Result<(), StoreError> {
        let mut beside = path.as_os_str().to_owned();
        beside.push(UNFINISHED);
        let beside = PathBuf::from(beside);
        self.run(&beside, |beside| self.disk.write(beside, bytes))?;
        self.run(path, |path| self.disk.rename(&beside, path))
    }

    fn read(&self, path: &Path) -> Result<Option<Vec<u8>>, StoreError> {
        match self.disk.read(path) {
            Ok(bytes) => Ok(Some(bytes)),
            Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(None),
            Err(source) => Err(StoreError::Io {
                path: path.to_owned(),
                source,
            }),
        }
    }

    /// Keeps a source. One that is kept already costs nothing.
    ///
    /// # Errors
    /// [`StoreError::Io`].
    pub fn put(&self, source: &Source) -> Result<Version, StoreError> {
        let bytes = source.to_bytes();
        let version = Version::of_bytes(&bytes);
        let path = self.snapshot_path(version);
        // One that was damaged is written again.
        if self.read(&path)?.is_none_or(|kept| kept != bytes) {
            self.replace(&path, &bytes)?;
        }
        Ok(version)
    }

    /// A kept source, checked against its version.
    ///
    /// # Errors
    /// [`StoreError::Unknown`], [`StoreError::Damaged`], [`StoreError::Io`].
    pub fn get(&self, version: Version) -> Result<Source, StoreError> {
        let path = self.snapshot_path(version);
        let bytes = self.read(&path)?.ok_or(StoreError::Unknown(version))?;
        let source = Source::from_bytes(&bytes).filter(|_| Version::of_bytes(&bytes) == version);
        source.ok_or(StoreError::Damaged { path, version })
    }

    /// Every version that is kept, in order of their digits.
    ///
    /// # Errors
    /// [`StoreError::Io`].
    pub fn versions(&self) -> Result<Vec<Version>, StoreError> {
        let names = self.run(&self.dir.join("snapshots"), |dir| self.disk.list(dir))?;
        let versions = names
            .iter()
            .filter_map(|name| name.strip_suffix(".snapshot")?.parse().ok());
        let mut versions: Vec<Version> = versions.collect();
        versions.sort();
        Ok(versions)
    }

    fn label_path(&self, label: &str) -> PathBuf {
        self.dir.join("labels").join(label)
    }

    /// Where a label points; `None` where there is no such label.
    ///
    /// # Errors
    /// [`StoreError::NotALabel`], [`StoreError::BadLabel`], [`StoreError::Io`].
    pub fn label(&self, label: &str) -> Result<Option<Version>, StoreError> {
        check_label(label)?;
        self.pointer(label)
    }

    fn pointer(&self, label: &str) -> Result<Option<Version>, StoreError> {
        let path = self.label_path(label);
        let Some(bytes) = self.read(&path)? else {
            return Ok(None);
        };
        let text = String::from_utf8_lossy(&bytes);
        text.trim_end()
            .parse()
            .map(Some)
            .map_err(|_| StoreError::BadLabel(path))
    }

    fn point(&self, label: &str, version: Version) -> Result<(), StoreError> {
        self.replace(&self.label_path(label), format!("{version}\n").as_bytes())
    }

    /// Every label and where it points, in order.
    ///
    /// # Errors
    /// [`StoreError::BadLabel`], [`StoreError::Io`].
    pub fn labels(&self) -> Result<Vec<(String, Version)>, StoreError> {
        let mut names = self.run(&self.dir.join("labels"), |dir| self.disk.list(dir))?;
        names.retain(|name| check_label(name).is_ok());
        names.sort();
        let mut labels = Vec::new();
        for name in names {
            if let Some(version) = self.pointer(&name)? {
                labels.push((name, version));
            }
        }
        Ok(labels)
    }

    /// Points `production` to a kept version.
    ///
    /// # Errors
    /// As [`Store::get`]; then nothing has moved.
    pub fn promote(&self, version: Version, who: &str) -> Result<(), StoreError> {
        self.set(PRODUCTION, version, who, Action::Promote)?;
        self.release()
    }

    /// Points `production` back to `to`, or to what was live before. `folder` is the version that the folder holds now: it
    /// is not promoted again by itself.
    ///
    /// # Errors
    /// [`StoreError::NoEarlier`], and as [`Store::promote`].
    pub fn rollback(
        &self,
        to: Option<Version>,
        folder: Option<Version>,
        who: &str,
    ) -> Result<Version, StoreError> {
        let to = match to {
            Some(version) => version,
            None => self.earlier()?.ok_or(StoreError::NoEarlier)?,
        };
        self.get(to)?;
        if let Some(folder) = folder {
            self.point(HELD, folder)?;
        }
        self.set(PRODUCTION, to, who, Action::Rollback)?;
        Ok(to)
    }

    /// Points any other label to a kept version.
    ///
    /// # Errors
    /// As [`Store::promote`].
    pub fn tag(&self, label: &str, version: Version, who: &str) -> Result<(), StoreError> {
        check_label(label)?;
        self.set(label, version, who, Action::Label)
    }

    /// Notes what was read last; not logged, since it moves with every edit.
    ///
    /// # Errors
    /// [`StoreError::Io`].
    pub fn note_latest(&self, version: Version) -> Result<(), StoreError> {
        if self.label(LATEST)? == Some(version) {
            Ok(())
        } else {
            self.point(LATEST, version)
        }
    }

    fn set(
        &self,
        label: &str,
        version: Version,
        who: &str,
        action: Action,
    ) -> Result<(), StoreError> {
        self.get(version)?;
        let from = self.label(label)?;
        if from == Some(version) {
            return Ok(());
        }
        self.point(label, version)?;
        self.log(&self.entry(who, action, label, from, Some(version)))
    }

    /// The version that a rollback turned away from, while it is held back.
    ///
    /// # Errors
    /// [`StoreError::BadLabel`], [`StoreError::Io`].
    pub fn held(&self) -> Result<Option<Version>, StoreError> {
        self.pointer(HELD)
    }

    /// Holds nothing back any more.
    ///
    /// # Errors
    /// [`StoreError::Io`].
    pub fn release(&self) -> Result<(), StoreError> {
        match self.pointer(HELD)? {
            Some(_) => self.run(&self.label_path(HELD), |path| self.disk.remove(path)),
            None => Ok(()),
        }
    }

    /// What was live before the live one: rolling back twice goes back two versions.
    ///
    /// # Errors
    /// [`StoreError::Io`].
    pub fn earlier(&self) -> Result<Option<Version>, StoreError> {
        let mut stack: Vec<Version> = Vec::new();
        for entry in self.history()? {
            let Some(to) = entry
                .to
                .filter(|_| entry.label == PRODUCTION && entry.result == "ok")
            else {
                continue;
            };
            match stack.iter().rposition(|version| *version == to) {
                Some(at) if entry.action == Action::Rollback => stack.truncate(at + 1),
                _ => stack.push(to),
            }
        }
        stack.pop();
        Ok(stack.pop())
    }

    /// Every change, oldest first.
    ///
    /// # Errors
    /// [`StoreError::Io`].
    pub fn history(&self) -> Result<Vec<Entry>, StoreError> {
        Ok(audit::entries(
            &self.read(&self.dir.join(AUDIT))?.unwrap_or_default(),
        ))
    }

    /// Logs what was tried and did not work.
    ///
    /// # Errors
    /// [`StoreError::Io`].
    pub fn log_failure(
        &self,
        who: &str,
        to: Option<Version>,
        reason: &str,
    ) -> Result<(), StoreError> {
        let from = self.label(PRODUCTION)?;
        let entry = Entry {
            result: reason.to_owned(),
            ..self.entry(who, Action::Promote, PRODUCTION, from, to)
        };
        self.log(&entry)
    }

    fn entry(
        &self,
        who: &str,
        action: Action,
        label: &str,
        from: Option<Version>,
        to: Option<Version>,
    ) -> Entry {
        let (who, label) = (who.to_owned(), label.to_owned());
        let at = Utc::now().to_rfc3339_opts(SecondsFormat::Millis, true);
        Entry {
            at,
            who,
            action,
            label,
            from,
            to,
            result: "ok".to_owned(),
        }
    }

    fn log(&self, entry: &Entry) -> Result<(), StoreError> {
        let path = self.dir.join(AUDIT);
        let torn = self
            .read(&path)?
            .is_some_and(|bytes| bytes.last().is_some_and(|byte| *byte != b'\n'));
        let line = format!("{}{}", if torn { "\n" } else { "" }, audit::line(entry));
        self.run(&path, |path| self.disk.append(path, line.as_bytes()))
    }
}

/// Whether a text may be a label: it becomes the name of a file.
fn check_label(label: &str) -> Result<(), StoreError> {
    let fits =
        |byte: u8| byte.is_ascii_lowercase() || byte.is_ascii_digit() || b"._-".contains(&byte);
    let ok = (1..=LABEL).contains(&label.len())
        && label.bytes().all(fits)
        && !label.starts_with('.')
        && !label.ends_with(UNFINISHED);
    if ok {
        Ok(())
    } else {
        Err(StoreError::NotALabel(label.chars().take(80).collect()))
    }
}
