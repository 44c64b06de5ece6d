//! Which manifests are taken, and what is said of the others.

use super::*;

const HASH: &str = "bcc81830d10ce7d9e76640cad826a4b79ed3e4547c78a0be5c4f2fb0e2448c70";

/// A manifest of the model `tiny` with this source.
fn manifest(source: &str) -> String {
    format!(
        r#"
id = "tiny"
description = "a tiny model"
license = "MIT"
architecture = "llama"
context = 64

[source]
{source}
"#
    )
}

fn wheel() -> String {
    manifest(&format!(
        r#"kind = "wheel"
package = "some-package"
version = "1.0"
sha256 = "{HASH}"
member = {{ path = "a/b.gguf", sha256 = "{HASH}", size = 12 }}"#
    ))
}

fn hub() -> String {
    manifest(&format!(
        r#"kind = "hub"
repository = "owner/name"
revision = "main"
files = [{{ path = "b.gguf", sha256 = "{HASH}", size = 12 }}]"#
    ))
}

fn load(text: &str) -> Result<Manifest, ManifestError> {
    let folder = tempfile::tempdir().expect("a temporary folder");
    let path = folder.path().join("tiny.toml");
    fs::write(&path, text).expect("the folder can be written");
    Manifest::load(&path)
}

/// The message about a manifest, after its path.
fn reason(text: &str) -> String {
    let message = load(text).expect_err("the manifest is refused").to_string();
    message
        .split_once("tiny.toml: ")
        .expect("the file is named")
        .1
        .to_owned()
}

#[test]
fn the_shipped_manifests_are_valid() {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("models");
    let ids = ids(&folder).unwrap();
    assert!(ids.contains(&"smollm2-135m-instruct".to_owned()));
    for id in ids {
        let manifest = find(&folder, &id).unwrap_or_else(|error| panic!("{error}"));
        assert_eq!(manifest.id, id);
    }
}

#[test]
fn each_kind_of_source_is_read() {
    let Source::Wheel { member, sha256, .. } = load(&wheel()).unwrap().source else {
        panic!("a wheel");
    };
    assert_eq!(
        (member.name(), member.size, sha256.to_string().as_str()),
        ("b.gguf", 12, HASH)
    );
    let Source::Hub {
        endpoint, files, ..
    } = load(&hub()).unwrap().source
    else {
        panic!("a hub");
    };
    assert_eq!(
        (endpoint.as_str(), files.len()),
        ("https://huggingface.co", 1)
    );
    let Source::File { path, sha256, size } =
        load(&manifest("kind = \"file\"\npath = \"w/x.gguf\""))
            .unwrap()
            .source
    else {
        panic!("a file");
    };
    assert!(
        path.is_absolute() && path.ends_with("w/x.gguf"),
        "taken from the manifest's folder: {path:?}"
    );
    assert_eq!((sha256, size), (None, None));
}

#[test]
fn an_absolute_file_stays_where_it_is() {
    let Source::File { path, .. } = load(&manifest("kind = \"file\"\npath = \"/w/x.gguf\""))
        .unwrap()
        .source
    else {
        panic!("a file");
    };
    assert_eq!(path, Path::new("/w/x.gguf"));
}

#[test]
fn unknown_keys_are_refused_by_name_at_every_level() {
    let top = reason(&wheel().replace("license", "colour = 1\nlicense"));
    assert!(top.starts_with("line 4: unknown field `colour`"), "{top}");
    let source = reason(&wheel().replace("version =", "colour = 1\nversion ="));
    assert!(
        source.starts_with("line 11: unknown field `colour`"),
        "{source}"
    );
    let member = reason(&wheel().replace("{ path", "{ colour = 1, path"));
    assert!(
        member.starts_with("line 13: unknown field `colour`"),
        "{member}"
    );
}

#[test]
fn missing_keys_and_kinds_are_named() {
    for (line, named) in [
        ("license = \"MIT\"", "`license`"),
        ("version = \"1.0\"", "`version`"),
    ] {
        let text = wheel().replace(line, "");
        assert!(reason(&text).contains(named), "{}", reason(&text));
    }
    let text = manifest("kind = \"floppy\"");
    assert!(
        reason(&text).contains("floppy") && reason(&text).contains("wheel"),
        "{}",
        reason(&text)
    );
}

#[test]
fn keys_of_another_kind_of_source_are_refused_by_name() {
    let text = reason(&manifest(
        "kind = \"file\"\npath = \"x\"\nrevision = \"main\"",
    ));
    assert!(
        text.contains("`revision` does not belong to a source of this kind"),
        "{text}"
    );
}

#[test]
fn hashes_are_64_hexadecimal_digits() {
    for wrong in [
        "",
        "abc",
        &HASH[1..],
        &format!("{HASH}0"),
        &HASH.replace('c', "g"),
        &"\u{e9}".repeat(32),
    ] {
        let text = wheel().replacen(HASH, wrong, 1);
        assert!(
            reason(&text).contains("64 hexadecimal digits"),
            "{}",
            reason(&text)
        );
    }
    assert!(load(&wheel().replace(HASH, &HASH.to_uppercase())).is_ok());
}

#[test]
fn values_that_cannot_be_are_refused_by_key() {
    for (from, to, key) in [
        ("size = 12", "size = 0", "source.member.size: "),
        ("context = 64", "context = 0", "context: "),
        ("\"MIT\"", "\" \"", "license: "),
        ("\"tiny\"", "\"other\"", "id: "),
        ("\"tiny\"", "\"../tiny\"", "id: "),
        ("some-package", "--upgrade", "source.package: "),
        ("some-package", "https://host/x", "source.package: "),
        ("1.0", "1.0 --pre", "source.version: "),
    ] {
        let text = reason(&wheel().replace(from, to));
        assert!(text.starts_with(key), "{text}");
    }
    for (from, to, key) in [
        ("owner/name", "name", "source.repository: "),
        ("owner/name", "a/b/c", "source.repository: "),
        ("\"main\"", "\"a?b\"", "source.revision: "),
        (
            "revision",
            "endpoint = \"ftp://x\"\nrevision",
            "source.endpoint: ",
        ),
        ("files = [", "files = [] #", "source.files: "),
    ] {
        let text = reason(&hub().replace(from, to));
        assert!(text.starts_with(key), "{text}");
    }
    let negative = reason(&wheel().replace("size = 12", "size = -1"));
    assert!(
        negative.starts_with("line 13: ") && negative.contains("size = -1"),
        "{negative}"
    );
    let file = manifest("kind = \"file\"\npath = \"x\"\nsize = 0");
    assert!(reason(&file).starts_with("source.size: "));
}

#[test]
fn paths_do_not_leave_their_folder() {
    for wrong in [
        "../b.gguf",
        "a/../../b",
        "/etc/passwd",
        "a//b",
        "a/",
        "",
        ".hidden",
        "a\\\\b",
        "a b",
        "a\\u0000b",
    ] {
        let text = reason(&wheel().replace("a/b.gguf", wrong));
        assert!(text.starts_with("source.member.path: "), "{wrong}: {text}");
    }
    for wrong in ["../b.gguf", "/b.gguf", "a/../b.gguf"] {
        let text = reason(&hub().replace("b.gguf", wrong));
        assert!(
            text.starts_with("source.files[0].path: "),
            "{wrong}: {text}"
        );
    }
}

#[test]
fn an_unknown_id_is_answered_with_those_that_exist() {
    let folder = tempfile::tempdir().unwrap();
    let empty = find(folder.path(), "tiny").unwrap_err().to_string();
    assert!(empty.ends_with("there are no manifests"), "{empty}");
    fs::write(folder.path().join("tiny.toml"), wheel()).unwrap();
    fs::write(folder.path().join("big.toml"), "").unwrap();
    fs::write(folder.path().join("notes.txt"), "").unwrap();
    for id in ["tinny", "../tiny", "TINY", "tiny.toml"] {
        let error = find(folder.path(), id).unwrap_err().to_string();
        assert!(
            error.starts_with(&format!("no model `{id}` in ")),
            "{error}"
        );
        assert!(error.ends_with("there are: big, tiny"), "{error}");
    }
    assert_eq!(find(folder.path(), "tiny").unwrap().id, "tiny");
}

#[test]
fn what_looks_like_a_path_is_one_and_everything_else_an_id() {
    let folder = tempfile::tempdir().unwrap();
    fs::write(folder.path().join("tiny.toml"), wheel()).unwrap();
    let resolved = |text: &str| resolve(folder.path(), text);
    for path in [
        "./tiny",
        "/models/tiny",
        "tiny.gguf",
        "Tiny.GGUF",
        "tiny.safetensors",
        "Cargo.toml",
    ] {
        assert_eq!(resolved(path).unwrap(), Located::File(path.into()));
    }
    assert!(matches!(resolved("tiny").unwrap(), Located::Known(manifest) if manifest.id == "tiny"));
    assert!(matches!(
        resolved("other").unwrap_err(),
        ManifestError::Unknown { .. }
    ));
}

/// A folder that is there by chance does not hide a manifest of its name; one that holds a model is meant.
#[test]
fn a_folder_is_a_path_where_it_holds_a_model() {
    let folder = tempfile::tempdir().unwrap();
    fs::write(folder.path().join("tests.toml"), wheel()).unwrap();
    assert!(
        resolve(folder.path(), "tests").is_err(),
        "the manifest names another id"
    );
    let model = "tests/fixtures/tiny/llama";
    assert_eq!(
        resolve(folder.path(), model).unwrap(),
        Located::File(model.into())
    );
}

#[test]
fn how_weights_are_quantised_is_one_of_the_known_ways() {
    let with = |kind: &str| {
        wheel().replacen(
            "context = 64",
            &format!("context = 64\nquantise = {kind}"),
            1,
        )
    };
    assert_eq!(load(&wheel()).unwrap().quantise, None);
    assert_eq!(
        load(&with("\"q4_1\"")).unwrap().quantise,
        Some(Quantise::Q4_1)
    );
    let message = reason(&with("\"q5_0\""));
    assert!(
        message.contains("\"q5_0\" is none of q8_0, q4_0, q4_1"),
        "{message}"
    );
    assert!(message.starts_with("line 7: "), "{message}");
}

#[test]
fn a_folder_that_is_missing_is_named() {
    let folder = tempfile::tempdir().unwrap();
    let error = find(&folder.path().join("absent"), "tiny")
        .unwrap_err()
        .to_string();
    assert!(error.contains("absent"), "{error}");
}
