//! The bytes of one harness, read once: loading is a pure function of this, so it needs no disk and has no races.

use std::collections::BTreeMap;
use std::sync::Arc;

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

    /// Every file, in order.
    pub fn iter(&self) -> impl Iterator<Item = (&str, &[u8])> {
        self.files
            .iter()
            .map(|(path, bytes)| (path.as_str(), bytes.as_ref()))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

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
