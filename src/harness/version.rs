//! What a harness is called by: the hash of its files. Order of listing, timestamps and mounts do not change it.

use std::fmt;
use std::str::FromStr;

use serde::de::Error as _;
use serde::{Deserialize, Deserializer, Serialize, Serializer};
use sha2::{Digest as _, Sha256};

use super::Source;

/// Hex digits of a short version: enough to tell apart what one room ever runs.
const SHORT: usize = 12;

/// The sha256 over every path and its bytes, in order of the paths.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Version([u8; 32]);

impl Version {
    /// The version of these files.
    #[must_use]
    pub fn of(source: &Source) -> Self {
        Self::of_bytes(&source.to_bytes())
    }

    /// The version of the source that these are the bytes of.
    #[must_use]
    pub(super) fn of_bytes(whole: &[u8]) -> Self {
        Self(Sha256::digest(whole).into())
    }

    /// The first twelve hex digits, for people and metrics.
    #[must_use]
    pub fn short(&self) -> String {
        let mut text = self.to_string();
        text.truncate(SHORT);
        text
    }
}

impl fmt::Display for Version {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.iter().try_for_each(|byte| write!(f, "{byte:02x}"))
    }
}

impl fmt::Debug for Version {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Version({self})")
    }
}

/// A text that is no version.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{0:?} is no version: it must be 64 lower-case hex digits")]
pub struct NotAVersion(String);

impl FromStr for Version {
    type Err = NotAVersion;

    fn from_str(text: &str) -> Result<Self, NotAVersion> {
        let digit = |byte: u8| match byte {
            b'0'..=b'9' => Some(byte - b'0'),
            b'a'..=b'f' => Some(byte - b'a' + 10),
            _ => None,
        };
        let complain = || NotAVersion(text.chars().take(80).collect());
        let mut bytes = [0; 32];
        if text.len() != 64 {
            return Err(complain());
        }
        for (byte, pair) in bytes.iter_mut().zip(text.as_bytes().chunks_exact(2)) {
            let (high, low) = (digit(pair[0]), digit(pair[1]));
            *byte = high
                .zip(low)
                .map(|(high, low)| high << 4 | low)
                .ok_or_else(complain)?;
        }
        Ok(Self(bytes))
    }
}

impl Serialize for Version {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(self)
    }
}

impl<'de> Deserialize<'de> for Version {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        String::deserialize(deserializer)?
            .parse()
            .map_err(D::Error::custom)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn source(files: &[(&str, &str)]) -> Source {
        let mut source = Source::default();
        for (path, text) in files {
            source.insert(*path, text.as_bytes());
        }
        source
    }

    #[test]
    fn only_paths_and_bytes_make_a_version() {
        let one = Version::of(&source(&[("a", "1"), ("b/c", "2")]));
        assert_eq!(one, Version::of(&source(&[("b/c", "2"), ("a", "1")])));
        for other in [
            source(&[("a", "1"), ("b/c", "3")]),
            source(&[("a", "1"), ("b/d", "2")]),
            source(&[("a", "1")]),
            source(&[("a", ""), ("1b/c", "2")]),
            Source::default(),
        ] {
            assert_ne!(one, Version::of(&other));
        }
    }

    #[test]
    fn a_version_is_read_back_as_it_was_written_and_nothing_else_is_one() {
        let version = Version::of(&Source::default());
        assert_eq!(version.to_string().parse(), Ok(version));
        let text = version.to_string();
        for wrong in [
            "",
            "production",
            &text[1..],
            &text.to_uppercase(),
            &format!("{text}0"),
            &"é".repeat(32),
        ] {
            wrong.parse::<Version>().expect_err(wrong);
        }
    }
}
