//! Files of a hub.

use super::server::{Server, answer, cut, rest, whole};
use super::*;

fn hub(endpoint: &str, files: Vec<Artifact>) -> Manifest {
    manifest(Source::Hub {
        repository: "owner/name".to_owned(),
        revision: "refs/pr/1".to_owned(),
        files,
        endpoint: endpoint.to_owned(),
    })
}

/// Fetches one file of this content from a server with these answers.
fn fetch_one(
    content: &[u8],
    answers: Vec<Vec<u8>>,
) -> (Place, Server, Result<PathBuf, FetchError>) {
    let server = Server::start(answers);
    let place = Place::new();
    let result = place.fetch(&hub(
        &server.endpoint,
        vec![artifact("sub/w.gguf", content)],
    ));
    (place, server, result)
}

#[test]
fn a_file_is_fetched_from_its_address_without_credentials() {
    let content = content();
    let (place, server, path) = fetch_one(&content, vec![whole(&content)]);
    let path = path.unwrap();
    assert_eq!(path, place.config.models().join("tiny/sub/w.gguf"));
    assert!(fs::read(path).unwrap() == content);
    let request = &server.requests()[0];
    assert!(
        request.starts_with("GET /owner/name/resolve/refs%2Fpr%2F1/sub/w.gguf HTTP/1.1"),
        "{request}"
    );
    assert!(
        !request.to_lowercase().contains("authorization"),
        "{request}"
    );
}

#[test]
fn several_files_are_fetched_into_one_folder_and_only_once() {
    let server = Server::start(vec![whole(b"weights"), whole(b"config")]);
    let place = Place::new();
    let files = vec![
        artifact("w.safetensors", b"weights"),
        artifact("config.json", b"config"),
    ];
    let manifest = hub(&server.endpoint, files);
    for _ in 0..2 {
        let folder = place.fetch(&manifest).unwrap();
        assert_eq!(fs::read(folder.join("w.safetensors")).unwrap(), b"weights");
        assert_eq!(fs::read(folder.join("config.json")).unwrap(), b"config");
    }
    assert_eq!(server.requests().len(), 2);
}

#[test]
fn a_redirect_is_followed() {
    let target = Server::start(vec![whole(b"content")]);
    let redirect = answer(
        "302 Found",
        &[format!("Location: {}/elsewhere", target.endpoint)],
        b"",
    );
    let (_place, _, path) = fetch_one(b"content", vec![redirect]);
    assert_eq!(fs::read(path.unwrap()).unwrap(), b"content");
}

#[test]
fn a_refusal_names_address_status_and_remedy() {
    for (status, remedy) in [
        ("404 Not Found", "check repository, revision and file"),
        (
            "401 Unauthorized",
            "private and gated repositories are not supported",
        ),
        ("503 Service Unavailable", "503 Service Unavailable"),
    ] {
        let refusal = answer(status, &["Content-Length: 0".to_owned()], b"");
        let (place, server, result) = fetch_one(b"content", vec![refusal]);
        let error = result.unwrap_err().to_string();
        assert!(
            error.starts_with(&server.endpoint) && error.contains(status) && error.contains(remedy),
            "{error}"
        );
        assert!(place.left().iter().all(|name| name == "tiny"));
        assert!(!place.config.models().join("tiny/sub/w.gguf").exists());
    }
}

#[test]
fn a_server_that_is_not_there_is_named() {
    let error = Place::new()
        .fetch(&hub("http://127.0.0.1:1", vec![artifact("w", b"x")]))
        .unwrap_err()
        .to_string();
    assert!(
        error.starts_with("http://127.0.0.1:1/owner/name/resolve/"),
        "{error}"
    );
}

#[test]
fn content_of_another_hash_is_refused_and_not_kept() {
    let (place, _, result) = fetch_one(b"content", vec![whole(b"CONTENT")]);
    assert!(matches!(result.unwrap_err(), FetchError::WrongHash { .. }));
    assert!(!place.config.models().join("tiny/sub/w.gguf").exists());
}

#[test]
fn content_of_another_size_is_refused_before_it_is_downloaded() {
    for length in ["6", "8", "99999999999"] {
        let headers = [format!("Content-Length: {length}")];
        let (_, _, result) = fetch_one(b"content", vec![answer("200 OK", &headers, b"")]);
        let error = result.unwrap_err();
        assert!(
            matches!(error, FetchError::WrongSize { expected: 7, .. }),
            "{error}"
        );
    }
}

#[test]
fn content_without_a_length_that_does_not_end_is_cut_off() {
    let (place, _, result) = fetch_one(b"content", vec![answer("200 OK", &[], &[b'c'; 1 << 20])]);
    assert!(matches!(
        result.unwrap_err(),
        FetchError::TooLong { expected: 7, .. }
    ));
    assert!(!place.config.models().join("tiny/sub/w.gguf").exists());
}

#[test]
fn a_download_that_breaks_off_is_taken_up_where_it_ended() {
    let content = content();
    let size = content.len();
    let answers = vec![
        cut(&content, 1000),
        rest(&content, 1000, 5),
        rest(&content, 1005, size - 1005),
    ];
    let (_place, server, path) = fetch_one(&content, answers);
    assert!(fs::read(path.unwrap()).unwrap() == content);
    let requests = server.requests();
    assert!(
        requests[1].contains("Range: bytes=1000-") && requests[2].contains("Range: bytes=1005-"),
        "{requests:?}"
    );
}

#[test]
fn a_server_that_cannot_resume_sends_everything_again() {
    let content = content();
    let (_place, _, path) = fetch_one(&content, vec![cut(&content, 1000), whole(&content)]);
    assert!(fs::read(path.unwrap()).unwrap() == content);
    // A range that nobody asked for is not appended.
    let other = rest(&content, 1, content.len() - 1);
    let (_, _, result) = fetch_one(&content, vec![cut(&content, 1000), other]);
    assert!(matches!(result.unwrap_err(), FetchError::WrongSize { .. }));
}

#[test]
fn a_download_that_keeps_breaking_off_is_given_up_and_starts_over_next_time() {
    let content = content();
    let short = || cut(&content, 10);
    let server = Server::start(vec![short(), short(), short(), whole(&content)]);
    let place = Place::new();
    let manifest = hub(&server.endpoint, vec![artifact("w.gguf", &content)]);
    let error = place.fetch(&manifest).unwrap_err().to_string();
    assert!(
        error.ends_with("broke off 3 times, at last after 10 of 600000 bytes"),
        "{error}"
    );
    assert!(!place.config.models().join("tiny/w.gguf").exists());
    assert!(fs::read(place.fetch(&manifest).unwrap()).unwrap() == content);
}
