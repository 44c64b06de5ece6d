//! A harness folder read into memory, once. Links may point anywhere inside the folder, as a mounted ConfigMap's do, and
//! nowhere else; what cannot be read is a problem of its own, and the rest is read all the same.

use std::fs::{self, File};
use std::io::{self, Read as _};
use std::path::{Path, PathBuf};

use super::{Problem, Source};

/// Largest file, in bytes.
const FILE: u64 = 1 << 20;
/// Largest harness, in bytes.
const WHOLE: u64 = 64 << 20;
/// Most files.
const COUNT: usize = 20_000;
/// Deepest folder below the harness.
const DEPTH: usize = 12;

/// Reads every file below `dir`, except what editors and systems leave behind.
///
/// # Errors
/// Everything that cannot be read or may not be, by its path.
pub fn read(dir: &Path) -> Result<Source, Vec<Problem>> {
    let root = match fs::canonicalize(dir) {
        Ok(root) => root,
        Err(error) => {
            return Err(vec![Problem::of(
                dir.display().to_string(),
                error.to_string(),
            )]);
        }
    };
    let mut walk = Walk {
        root: &root,
        source: Source::default(),
        problems: Vec::new(),
        bytes: 0,
    };
    walk.folder(&root, "", &mut Vec::new());
    if walk.problems.is_empty() && walk.source.is_empty() {
        walk.problems
            .push(Problem::of(dir.display().to_string(), "holds no file"));
    }
    if walk.problems.is_empty() {
        Ok(walk.source)
    } else {
        Err(walk.problems)
    }
}

/// Whether a file is left behind by an editor, a system or a mount, and is no part of the harness.
#[must_use]
pub fn is_ignored(name: &str) -> bool {
    const WHOLE: [&str; 5] = ["4913", "Thumbs.db", "desktop.ini", "__MACOSX", "lost+found"];
    const ENDS: [&str; 8] = ["~", ".swp", ".swo", ".swx", ".tmp", ".bak", ".orig", ".rej"];
    name.starts_with('.')
        || WHOLE.contains(&name)
        || ENDS.iter().any(|end| name.ends_with(end))
        || (name.starts_with('#') && name.ends_with('#'))
        || name.contains("___jb_")
}

/// Every folder of a harness, links followed, that can be listed: what has to be watched.
pub(super) fn folders(dir: &Path) -> Vec<PathBuf> {
    let Ok(root) = fs::canonicalize(dir) else {
        return Vec::new();
    };
    let mut found = vec![root.clone()];
    let mut next = 0;
    while let Some(folder) = found.get(next).cloned() {
        next += 1;
        let Ok(entries) = fs::read_dir(&folder) else {
            continue;
        };
        for entry in entries.flatten() {
            // Hidden ones too: a mount swaps `..data` beside them.
            let Ok(path) = fs::canonicalize(entry.path()) else {
                continue;
            };
            if path.is_dir()
                && path.starts_with(&root)
                && !found.contains(&path)
                && found.len() < COUNT
            {
                found.push(path);
            }
        }
    }
    found
}

struct Walk<'a> {
    root: &'a Path,
    source: Source,
    problems: Vec<Problem>,
    bytes: u64,
}

impl Walk<'_> {
    fn complain(&mut self, path: &str, reason: impl Into<String>) {
        let path = if path.is_empty() { "." } else { path };
        self.problems.push(Problem::of(path, reason));
    }

    /// `above` holds the real paths of the folders that this one is in.
    fn folder(&mut self, real: &Path, path: &str, above: &mut Vec<PathBuf>) {
        if above.len() > DEPTH {
            self.complain(path, format!("lies deeper than {DEPTH} folders"));
            return;
        }
        let names = match names(real) {
            Ok(names) => names,
            Err(error) => {
                self.complain(path, format!("cannot be listed: {error}"));
                return;
            }
        };
        above.push(real.to_owned());
        for name in names {
            let shown = name.to_string_lossy();
            if is_ignored(&shown) {
                continue;
            }
            let inner = if path.is_empty() {
                shown.to_string()
            } else {
                format!("{path}/{shown}")
            };
            if name.to_str().is_none() {
                self.complain(&inner, "the name is not UTF-8");
                continue;
            }
            self.entry(&real.join(&name), &inner, above);
        }
        above.pop();
    }

    fn entry(&mut self, at: &Path, path: &str, above: &mut Vec<PathBuf>) {
        let real = match fs::canonicalize(at) {
            Ok(real) => real,
            Err(error) => {
                self.complain(path, format!("cannot be followed: {error}"));
                return;
            }
        };
        if !real.starts_with(self.root) {
            self.complain(path, "links out of the harness folder");
            return;
        }
        match fs::metadata(&real) {
            Ok(data) if data.is_dir() && above.contains(&real) => {
                self.complain(path, "links to a folder that it is in");
            }
            Ok(data) if data.is_dir() => self.folder(&real, path, above),
            // Opening a pipe would wait for its other end.
            Ok(data) if !data.is_file() => self.complain(path, "is neither a file nor a folder"),
            Ok(_) => match self.file(&real) {
                Ok(bytes) => self.add(path, bytes),
                Err(error) => self.complain(path, format!("cannot be read: {error}")),
            },
            Err(error) => self.complain(path, format!("cannot be read: {error}")),
        }
    }

    fn file(&self, real: &Path) -> io::Result<Vec<u8>> {
        let mut bytes = Vec::new();
        File::open(real)?.take(FILE + 1).read_to_end(&mut bytes)?;
        Ok(bytes)
    }

    fn add(&mut self, path: &str, bytes: Vec<u8>) {
        let length = bytes.len() as u64;
        self.bytes += length;
        if length > FILE {
            self.complain(path, format!("has more than {FILE} bytes"));
        } else if self.bytes > WHOLE || self.source.len() >= COUNT {
            if self.bytes.saturating_sub(length) <= WHOLE && self.source.len() <= COUNT {
                self.complain(
                    path,
                    format!("the harness has more than {WHOLE} bytes or {COUNT} files"),
                );
            }
        } else {
            self.source.insert(path, bytes);
        }
    }
}

/// Names in a folder, in order, so that problems are told in one.
fn names(dir: &Path) -> io::Result<Vec<std::ffi::OsString>> {
    let mut names = fs::read_dir(dir)?
        .map(|entry| entry.map(|entry| entry.file_name()))
        .collect::<io::Result<Vec<_>>>()?;
    names.sort();
    Ok(names)
}

/// Whether `table` (/proc/self/mountinfo) shows a file or folder below `dir` that Kubernetes mounted by `subPath`: such a
/// mount never sees an update.
#[must_use]
pub fn is_frozen(table: &str, dir: &Path) -> bool {
    table.lines().any(|line| {
        let fields: Vec<&str> = line.split(' ').collect();
        let (Some(from), Some(to)) = (fields.get(3), fields.get(4)) else {
            return false;
        };
        from.contains("/volume-subpaths/")
            && (Path::new(to).starts_with(dir) || dir.starts_with(to))
    })
}

#[cfg(all(test, unix))]
mod tests {
    use std::os::unix::fs::symlink;

    use super::*;

    fn dir() -> tempfile::TempDir {
        let dir = tempfile::tempdir().expect("temp dir");
        write(dir.path(), "harness.toml", "x");
        write(dir.path(), "skills/alpha/SKILL.md", "y");
        dir
    }

    fn write(dir: &Path, path: &str, text: &str) {
        let path = dir.join(path);
        fs::create_dir_all(path.parent().expect("a parent")).expect("folder");
        fs::write(path, text).expect("file");
    }

    fn paths(dir: &Path) -> Vec<String> {
        read(dir)
            .expect("readable")
            .iter()
            .map(|(path, _)| path.to_owned())
            .collect()
    }

    fn problems(dir: &Path) -> Vec<String> {
        read(dir)
            .expect_err("problems")
            .iter()
            .map(ToString::to_string)
            .collect()
    }

    #[test]
    fn what_editors_leave_behind_is_no_part() {
        let dir = dir();
        for name in [
            ".SKILL.md.swp",
            "SKILL.md~",
            "#SKILL.md#",
            ".#SKILL.md",
            "4913",
            ".DS_Store",
            "SKILL.md.tmp",
            "SKILL.md___jb_tmp___",
            ".git/config",
            "__MACOSX/x",
        ] {
            write(dir.path(), &format!("skills/alpha/{name}"), "junk");
        }
        assert_eq!(paths(dir.path()), ["harness.toml", "skills/alpha/SKILL.md"]);
    }

    #[test]
    fn a_mounted_map_is_read_through_its_links() {
        let dir = tempfile::tempdir().expect("temp dir");
        write(dir.path(), "..2026_01/skills/alpha/SKILL.md", "y");
        write(dir.path(), "..2026_01/harness.toml", "x");
        symlink("..2026_01", dir.path().join("..data")).expect("link");
        symlink("..data/skills", dir.path().join("skills")).expect("link");
        symlink("..data/harness.toml", dir.path().join("harness.toml")).expect("link");
        assert_eq!(paths(dir.path()), ["harness.toml", "skills/alpha/SKILL.md"]);
        // The same files give the same version, however they are mounted.
        assert_eq!(
            read(dir.path()).ok().map(|source| source.to_bytes()),
            read(self::dir().path())
                .ok()
                .map(|source| source.to_bytes())
        );
        assert!(
            folders(dir.path())
                .iter()
                .any(|folder| folder.ends_with("..2026_01/skills/alpha"))
        );
    }

    #[test]
    fn links_out_of_the_folder_are_refused_and_never_read() {
        let outside = tempfile::tempdir().expect("temp dir");
        write(outside.path(), "secret.md", "secret");
        let dir = dir();
        symlink(
            outside.path().join("secret.md"),
            dir.path().join("skills/alpha/leak.md"),
        )
        .expect("link");
        symlink(outside.path(), dir.path().join("skills/beta")).expect("link");
        symlink("nowhere", dir.path().join("skills/gamma")).expect("link");
        symlink("..", dir.path().join("skills/loop")).expect("link");
        let problems = problems(dir.path());
        assert_eq!(problems.len(), 4, "{problems:?}");
        assert_eq!(
            problems[0],
            "skills/alpha/leak.md: links out of the harness folder"
        );
        assert_eq!(problems[1], "skills/beta: links out of the harness folder");
        assert!(problems[2].starts_with("skills/gamma: cannot be followed"));
        assert_eq!(problems[3], "skills/loop: links to a folder that it is in");
    }

    #[test]
    fn what_is_too_large_or_no_file_is_named() {
        let dir = dir();
        write(dir.path(), "skills/alpha/big", &"x".repeat((1 << 20) + 1));
        let _socket =
            std::os::unix::net::UnixListener::bind(dir.path().join("socket")).expect("a socket");
        let problems = problems(dir.path());
        assert_eq!(
            problems,
            [
                "skills/alpha/big: has more than 1048576 bytes",
                "socket: is neither a file nor a folder"
            ]
        );
    }

    #[test]
    fn a_missing_or_empty_folder_is_a_problem() {
        let dir = tempfile::tempdir().expect("temp dir");
        assert!(problems(dir.path())[0].contains("holds no file"));
        assert_eq!(problems(&dir.path().join("none")).len(), 1);
    }

    #[test]
    fn a_mount_that_never_changes_is_known_by_its_source() {
        let table = "36 35 98:0 / / rw - ext4 /dev/root rw\n\
                     40 36 98:0 /var/lib/kubelet/pods/1/volume-subpaths/h/c/0 /etc/harness/live-room rw - ext4 /dev/sda rw\n";
        assert!(is_frozen(table, Path::new("/etc/harness/live-room")));
        assert!(is_frozen(table, Path::new("/etc/harness")));
        assert!(!is_frozen(table, Path::new("/srv/harness")));
    }
}
