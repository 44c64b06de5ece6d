//! The store on a disk that fails: whatever step the program is killed at, what is kept is whole and found again.

use std::collections::BTreeMap;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex};

use super::*;

/// Files in memory; after some steps it is dead, and the step it died in is half done.
#[derive(Clone, Default)]
struct Dying(Arc<Mutex<Files>>);

#[derive(Default)]
struct Files {
    files: BTreeMap<PathBuf, Vec<u8>>,
    /// Changes until the end; `None` lives for ever.
    left: Option<usize>,
    /// Bytes that the last write still writes.
    torn: usize,
    steps: usize,
}

impl Dying {
    /// The same files after a restart, to die after `left` changes.
    fn restart(&self, left: Option<usize>, torn: usize) {
        let mut files = self.0.lock().expect("not poisoned");
        (files.left, files.torn, files.steps) = (left, torn, 0);
    }

    fn change(
        &self,
        whole: impl FnOnce(&mut Files),
        half: impl FnOnce(&mut Files, usize),
    ) -> io::Result<()> {
        let mut files = self.0.lock().expect("not poisoned");
        files.steps += 1;
        match files.left {
            Some(0) => return Err(io::Error::other("dead")),
            Some(1) => {
                let torn = files.torn;
                half(&mut files, torn);
                files.left = Some(0);
                return Err(io::Error::other("killed"));
            }
            Some(left) => files.left = Some(left - 1),
            None => {}
        }
        whole(&mut files);
        Ok(())
    }
}

impl Disk for Dying {
    fn read(&self, path: &Path) -> io::Result<Vec<u8>> {
        let files = self.0.lock().expect("not poisoned");
        files
            .files
            .get(path)
            .cloned()
            .ok_or_else(|| io::ErrorKind::NotFound.into())
    }

    fn list(&self, dir: &Path) -> io::Result<Vec<String>> {
        let files = self.0.lock().expect("not poisoned");
        let inside = files
            .files
            .keys()
            .filter_map(|path| path.strip_prefix(dir).ok());
        Ok(inside.map(|path| path.display().to_string()).collect())
    }

    fn create_dir(&self, _: &Path) -> io::Result<()> {
        Ok(())
    }

    fn write(&self, path: &Path, bytes: &[u8]) -> io::Result<()> {
        let put = |files: &mut Files, length: usize| {
            files
                .files
                .insert(path.to_owned(), bytes[..length.min(bytes.len())].to_vec());
        };
        self.change(|files| put(files, bytes.len()), put)
    }

    fn rename(&self, from: &Path, to: &Path) -> io::Result<()> {
        let rename = |files: &mut Files| {
            let bytes = files.files.remove(from).expect("what is renamed exists");
            files.files.insert(to.to_owned(), bytes);
        };
        // Killed before or after it, never in between.
        self.change(rename, |files, torn| {
            if torn > 0 {
                rename(files);
            }
        })
    }

    fn append(&self, path: &Path, bytes: &[u8]) -> io::Result<()> {
        let add = |files: &mut Files, length: usize| {
            let file = files.files.entry(path.to_owned()).or_default();
            file.extend_from_slice(&bytes[..length.min(bytes.len())]);
        };
        self.change(|files| add(files, bytes.len()), add)
    }

    fn remove(&self, path: &Path) -> io::Result<()> {
        let remove = |files: &mut Files| {
            files.files.remove(path);
        };
        self.change(remove, |files, torn| {
            if torn > 0 {
                remove(files);
            }
        })
    }
}

fn source(text: &str) -> Source {
    let mut source = Source::default();
    source.insert("harness.toml", text.as_bytes());
    source
}

fn open(disk: &Dying) -> Store {
    Store::with("state", Box::new(disk.clone())).expect("opens")
}

/// A life with a promotion of each of two versions, a rollback and a third.
fn live(store: &Store) -> Result<(), StoreError> {
    let one = store.put(&source("1"))?;
    store.promote(one, "a")?;
    let two = store.put(&source("2"))?;
    store.note_latest(two)?;
    store.promote(two, "b")?;
    store.rollback(None, Some(two), "c")?;
    let three = store.put(&source("3"))?;
    store.tag("trial", three, "d")?;
    store.promote(three, "e")
}

/// What must hold at every opening.
fn check(store: &Store) {
    for (label, version) in store.labels().expect("labels are whole") {
        store
            .get(version)
            .unwrap_or_else(|error| panic!("{label}: {error}"));
    }
    let history = store.history().expect("readable");
    let production = store.label(PRODUCTION).expect("readable");
    let logged = history
        .iter()
        .rev()
        .find(|entry| entry.label == PRODUCTION && entry.result == "ok");
    assert_eq!(
        logged.and_then(|entry| entry.to),
        production,
        "the log ends where production is"
    );
    for pair in history
        .windows(2)
        .filter(|pair| pair.iter().all(|entry| entry.label == PRODUCTION))
    {
        assert_eq!(pair[1].from, pair[0].to, "no move is missing from the log");
    }
}

#[test]
fn killed_at_any_step_every_label_is_whole_and_the_log_catches_up() {
    let whole = Dying::default();
    live(&open(&whole)).expect("lives");
    let steps = whole.0.lock().expect("not poisoned").steps;
    assert!(steps > 15, "{steps}");
    for left in 1..=steps {
        for torn in [0, 1, 7, 60, usize::MAX] {
            let disk = Dying::default();
            let store = open(&disk);
            disk.restart(Some(left), torn);
            live(&store).expect_err("it is killed");
            disk.restart(None, 0);
            let store = open(&disk);
            check(&store);
            live(&store).expect("it goes on");
            check(&store);
            assert_eq!(
                store.label(PRODUCTION).ok().flatten(),
                Some(Version::of(&source("3"))),
                "{left} {torn}"
            );
        }
    }
}

#[test]
fn killed_again_while_it_recovers_it_recovers_the_next_time() {
    let disk = Dying::default();
    let store = open(&disk);
    let one = store.put(&source("1")).expect("kept");
    disk.restart(Some(3), 5);
    store.promote(one, "a").expect_err("killed in the log");
    for torn in [0, 3, 20] {
        disk.restart(Some(1), torn);
        Store::with("state", Box::new(disk.clone())).expect_err("killed in the log again");
    }
    disk.restart(None, 0);
    let store = open(&disk);
    check(&store);
    assert_eq!(
        store
            .history()
            .expect("readable")
            .last()
            .map(|entry| entry.action),
        Some(Action::Recover)
    );
}

#[test]
fn rolling_back_goes_back_step_by_step_and_holds_the_folder_back() {
    let store = open(&Dying::default());
    let versions = ["1", "2", "3"].map(|text| {
        let version = store.put(&source(text)).expect("kept");
        store.promote(version, "a").expect("promoted");
        version
    });
    assert_eq!(
        store.rollback(None, Some(versions[2]), "b").expect("back"),
        versions[1]
    );
    assert_eq!(store.held().expect("readable"), Some(versions[2]));
    assert_eq!(
        store.rollback(None, Some(versions[2]), "b").expect("back"),
        versions[0]
    );
    assert!(matches!(
        store.rollback(None, None, "b"),
        Err(StoreError::NoEarlier)
    ));
    store.promote(versions[2], "c").expect("promoted");
    assert_eq!(store.held().expect("readable"), None);
    assert_eq!(store.rollback(None, None, "b").expect("back"), versions[0]);
}

#[test]
fn what_was_changed_on_disk_is_never_used_and_is_written_again() {
    let disk = Dying::default();
    let store = open(&disk);
    let version = store.put(&source("1")).expect("kept");
    let path = store.snapshot_path(version);
    for damage in [Vec::new(), source("2").to_bytes(), b"junk".to_vec()] {
        disk.0
            .lock()
            .expect("not poisoned")
            .files
            .insert(path.clone(), damage);
        assert!(matches!(
            store.get(version),
            Err(StoreError::Damaged { .. })
        ));
        assert!(store.promote(version, "a").is_err());
        assert_eq!(store.label(PRODUCTION).expect("readable"), None);
    }
    store.put(&source("1")).expect("kept");
    assert_eq!(store.get(version).expect("whole"), source("1"));
    assert_eq!(store.versions().expect("listed"), [version]);
}

#[test]
fn labels_are_plain_names_of_kept_versions() {
    let store = open(&Dying::default());
    let version = store.put(&source("1")).expect("kept");
    store.tag("trial-2.b", version, "a").expect("a label");
    assert_eq!(
        store.labels().expect("listed"),
        [("trial-2.b".to_owned(), version)]
    );
    for label in ["", "..", ".held", "a/b", "A", "x.new", &"a".repeat(65)] {
        assert!(
            matches!(
                store.tag(label, version, "a"),
                Err(StoreError::NotALabel(_))
            ),
            "{label}"
        );
        assert!(store.label(label).is_err(), "{label}");
    }
    let other = Version::of(&source("2"));
    assert!(matches!(
        store.tag("trial", other, "a"),
        Err(StoreError::Unknown(_))
    ));
    assert_eq!(store.label("nobody").expect("readable"), None);
}

#[test]
fn the_real_disk_keeps_all_of_it() {
    let dir = tempfile::tempdir().expect("temp dir");
    live(&Store::open(dir.path().join("state")).expect("opens")).expect("lives");
    let store = Store::open(dir.path().join("state")).expect("opens again");
    check(&store);
    assert_eq!(store.versions().expect("listed").len(), 3);
    let names: Vec<_> = store
        .labels()
        .expect("listed")
        .into_iter()
        .map(|(label, _)| label)
        .collect();
    assert_eq!(names, ["latest", "production", "trial"]);
    assert_eq!(store.history().expect("readable").len(), 5);
}
