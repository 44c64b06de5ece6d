//! Model files that lie about their size: how much memory they cost until they are refused. A program of its own, since
//! it counts what the whole process allocates.

mod mutations;

use std::io::Write as _;
use std::path::Path;
use std::sync::Mutex;

use compere::model::{self, LoadOptions, gguf, safetensors};
use peak_alloc::PeakAlloc;

#[global_allocator]
static MEMORY: PeakAlloc = PeakAlloc;

/// Most bytes above what was there before.
const MOST: usize = 50_000_000;

/// Runs a test while no other does, since what they allocate would be counted together.
fn alone(test: impl FnOnce()) {
    static TURN: Mutex<()> = Mutex::new(());
    let _turn = TURN.lock();
    test();
}

/// Runs a check that must stay within the bound, and returns what it gave.
fn bounded<T>(what: &str, check: impl FnOnce() -> T) -> T {
    let before = MEMORY.current_usage();
    MEMORY.reset_peak_usage();
    let result = check();
    let peak = MEMORY.peak_usage().saturating_sub(before);
    assert!(peak < MOST, "{what} took {peak} bytes");
    result
}

/// A sparse file of these bytes and so many zeros.
fn sparse(folder: &Path, name: &str, start: &[u8], size: u64) -> std::path::PathBuf {
    let path = folder.join(name);
    let mut file = std::fs::File::create(&path).expect("a file");
    file.write_all(start).expect("it is written");
    file.set_len(size).expect("it grows");
    path
}

fn gguf_start(tensors: u64, keys: u64) -> Vec<u8> {
    let mut out = b"GGUF\x03\x00\x00\x00".to_vec();
    out.extend(tensors.to_le_bytes());
    out.extend(keys.to_le_bytes());
    out
}

/// A key `k`, of this type, and what follows.
fn key(kind: u32, rest: &[&[u8]]) -> Vec<u8> {
    let mut out = 1_u64.to_le_bytes().to_vec();
    out.push(b'k');
    out.extend(kind.to_le_bytes());
    out.extend(rest.concat());
    out
}

fn array(element: u32, count: u64) -> Vec<u8> {
    key(9, &[&element.to_le_bytes(), &count.to_le_bytes()])
}

#[test]
fn refusing_a_file_costs_less_than_fifty_megabytes() {
    alone(|| {
        sparse_files();
        whole_headers();
    });
}

/// Files that are there but for a hole, so that their size says nothing.
fn sparse_files() {
    let folder = tempfile::tempdir().expect("a folder");
    let size = 1 << 36;
    let mut starts = vec![
        ("counts of tensors", gguf_start(16_384, 0)),
        ("counts of keys", gguf_start(0, 16_384)),
    ];
    for element in [0, 1, 4, 7, 8, 12_u32] {
        // As many as just fit the header's bound for each width, and one more than fit anything.
        for shift in [21_u64, 24, 36] {
            let start = [gguf_start(0, 1), array(element, (1 << shift) - 100)].concat();
            starts.push(("an array", start));
        }
    }
    for length in [(16_u64 << 20) - 1, 16 << 20, (16 << 20) + 1, 1 << 35] {
        starts.push((
            "a text",
            [gguf_start(0, 2), key(8, &[&length.to_le_bytes()])].concat(),
        ));
        let element = [array(8, 1), length.to_le_bytes().to_vec()].concat();
        starts.push(("an element", [gguf_start(0, 2), element].concat()));
    }
    for (what, start) in &starts {
        let path = sparse(folder.path(), "x.gguf", start, size);
        bounded(what, || {
            model::load(&path, &LoadOptions::default())
                .map(drop)
                .expect_err("it is refused")
        });
    }
    for length in [100_000_000_u64, (16 << 20) + 1, 16 << 20, 1 << 20] {
        for inside in [
            "",
            "{\"",
            "{\"\\n",
            "{\"a\":{\"shape\":[",
            "{\"a\":{\"dtype\":\"\\n",
            "{\"__metadata__\":{\"",
        ] {
            let start = [&length.to_le_bytes()[..], inside.as_bytes()].concat();
            let path = sparse(folder.path(), "x.safetensors", &start, size);
            bounded("a header", || {
                model::load(&path, &LoadOptions::default())
                    .map(drop)
                    .expect_err("it is refused")
            });
        }
    }
}

/// Headers whose bytes are all there.
fn whole_headers() {
    let many = 1_000_000_u64;
    let mut vocabulary = [gguf_start(0, 1), array(8, many)].concat();
    for token in 0..many {
        vocabulary.extend(8_u64.to_le_bytes());
        vocabulary.extend(token.to_le_bytes().map(|byte| byte & 0x7f));
    }
    bounded("a million strings", || gguf::check_header(&vocabulary)).expect("a valid header");
    let mut empty = [gguf_start(0, 1), array(8, 3_000_000)].concat();
    empty.resize(empty.len() + 24_000_000, 0);
    bounded("empty strings", || gguf::check_header(&empty)).expect("a valid header");

    let mut keys = gguf_start(0, 16_384);
    for number in 0..16_384_u64 {
        keys.extend(8_u64.to_le_bytes());
        keys.extend(format!("{number:08}").bytes());
        keys.extend([0, 0, 0, 0, 7]);
    }
    bounded("many keys", || gguf::check_header(&keys)).expect("a valid header");

    let tensor = |number: u32| {
        format!("\"{number:07}\":{{\"dtype\":\"U8\",\"shape\":[0],\"data_offsets\":[0,0]}}")
    };
    let list: Vec<String> = (0..65_536).map(tensor).collect();
    let strings =
        |header: &str| [&(header.len() as u64).to_le_bytes()[..], header.as_bytes()].concat();
    let tensors = strings(&format!("{{{}}}", list.join(",")));
    bounded("many tensors", || safetensors::check_header(&tensors)).expect("a valid header");
    let escaped = strings(&format!("{{\"{}\":1}}", "\\n".repeat(8 << 20)));
    bounded("a long name", || safetensors::check_header(&escaped)).expect_err("it is refused");
    let wide = strings(&format!(
        "{{\"a\":{{\"shape\":[{}0]}}}}",
        "0,".repeat(4 << 20)
    ));
    bounded("many axes", || safetensors::check_header(&wide)).expect_err("it is refused");
}
