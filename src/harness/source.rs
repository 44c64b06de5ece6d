//! The bytes of one harness, read once: loading is a pure function of this, so it needs no disk and has no races.

use std::collections::BTreeMap;
use std::sync::Arc;

/// Begins the bytes of a whole source, so that another layout gives other versions.
const LAYOUT: &[u8] = b"compere-harness-1\0";

/// Every file of a harness folder by its relative path (`/` between parts), in canonical order.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Source {
    files: BTreeMap<String, Arc<[u8]>>,
}

impl Source {
    /// Adds a file, or replaces it.
    pub fn insert(&mut self, path: impl Into<String>, bytes: impl Into<Arc<[u8]>>) {
        self.files.insert(path.into(), bytes.into());
    }

    /// The bytes of one file.
    #[must_use]
    pub fn get(&self, path: &str) -> Option<&[u8]> {
        self.files.get(path).map(AsRef::as_ref)
    }

    /// Path and bytes of every file below `folder` (`skills/size-help`), in order.
    pub fn under<'a>(&'a self, folder: &'a str) -> impl Iterator<Item = (&'a str, &'a [u8])> {
        self.files
            .range(folder.to_owned()..)
            .take_while(move |(path, _)| path.starts_with(folder))
            .filter(move |(path, _)| path.as_bytes().get(folder.len()) == Some(&b'/'))
            .map(|(path, bytes)| (path.as_str(), bytes.as_ref()))
    }

    /// How many files there are.
    #[must_use]
    pub fn len(&self) -> usize {
        self.files.len()
    }

    /// Whether there is no file.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.files.is_empty()
    }

    /// All of it as one run of bytes: what versions are hashed over and snapshots are kept as.
    #[must_use]
    pub fn to_bytes(&self) -> Vec<u8> {
        let mut whole = LAYOUT.to_vec();
        for (path, bytes) in self.iter() {
            for part in [path.as_bytes(), bytes] {
                // Lengths keep (`ab`, `c`) apart from (`a`, `bc`).
                whole.extend_from_slice(&(part.len() as u64).to_le_bytes());
                whole.extend_from_slice(part);
            }
        }
        whole
    }

    /// What [`Source::to_bytes`] wrote; `None` for anything else.
    #[must_use]
    pub fn from_bytes(whole: &[u8]) -> Option<Self> {
        let mut rest = whole.strip_prefix(LAYOUT)?;
        let mut source = Self::default();
        while !rest.is_empty() {
            let (path, after) = part(rest)?;
            let (bytes, after) = part(after)?;
            source.insert(std::str::from_utf8(path).ok()?, bytes);
            rest = after;
        }
        Some(source)
    }

    /// Every file, in order.
    pub fn iter(&self) -> impl Iterator<Item = (&str, &[u8])> {
        self.files
            .iter()
            .map(|(path, bytes)| (path.as_str(), bytes.as_ref()))
    }
}

/// A part that its length precedes, and what follows it.
fn part(bytes: &[u8]) -> Option<(&[u8], &[u8])> {
    let (length, rest) = bytes.split_first_chunk::<8>()?;
    let length = usize::try_from(u64::from_le_bytes(*length)).ok()?;
    rest.split_at_checked(length)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_source_is_read_back_as_it_was_written_and_from_nothing_shorter() {
        let mut source = Source::default();
        source.insert("a/b", b"one".as_slice());
        source.insert("\u{4e2d}", b"".as_slice());
        let whole = source.to_bytes();
        assert_eq!(Source::from_bytes(&whole), Some(source));
        let cuts = (0..whole.len()).filter(|cut| Source::from_bytes(&whole[..*cut]).is_some());
        // A cut between two files leaves a source, which its version then tells from the whole.
        assert_eq!(cuts.count(), 2);
    }

    #[test]
    fn a_folder_holds_its_own_files_and_no_namesake() {
        let mut source = Source::default();
        for path in ["skills/a/SKILL.md", "skills/a-b/SKILL.md", "skills/a.txt"] {
            source.insert(path, b"x".as_slice());
        }
        let found: Vec<_> = source.under("skills/a").map(|(path, _)| path).collect();
        assert_eq!(found, ["skills/a/SKILL.md"]);
    }
}
