//! Small files, right and wrong ones, changed at random: whatever the bytes, reading them gives an answer or an error,
//! and costs little.

use std::fs;
use std::path::Path;

use compere::model::{gguf, safetensors};

/// Changed files of each kind.
const CASES: usize = 12_000;
/// Lengths and counts that have broken readers.
const EDGES: [u64; 12] = [
    0,
    1,
    0x7f,
    0xff,
    0x7fff_ffff,
    0xffff_ffff,
    1 << 32,
    1 << 58,
    (1 << 61) + 1,
    i64::MAX as u64,
    1 << 63,
    u64::MAX,
];

/// A small generator, the same everywhere.
struct Random(u64);

impl Random {
    fn below(&mut self, most: usize) -> usize {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let x = (self.0 ^ (self.0 >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        ((x ^ (x >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb) >> 16) as usize % most.max(1)
    }

    /// One change of the kinds that files suffer: a bit, a byte, a number, a cut, a piece twice or gone.
    fn change(&mut self, bytes: &mut Vec<u8>, others: &[Vec<u8>]) {
        let at = self.below(bytes.len());
        let length = self.below(16).min(bytes.len() - at);
        match self.below(8) {
            0 | 1 if !bytes.is_empty() => bytes[at] ^= 1 << self.below(8),
            2 if !bytes.is_empty() => bytes[at] = self.below(256) as u8,
            3 | 4 => {
                let value = EDGES[self.below(EDGES.len())].to_le_bytes();
                let width = [1, 2, 4, 8][self.below(4)].min(bytes.len() - at);
                bytes[at..at + width].copy_from_slice(&value[..width]);
            }
            5 => bytes.truncate(at),
            6 => {
                let piece = bytes[at..at + length].to_vec();
                bytes.splice(at..at, piece);
            }
            7 => {
                let other = &others[self.below(others.len())];
                let from = self.below(other.len());
                let to = (from + self.below(32)).min(other.len());
                bytes.splice(at..at + length, other[from..to].iter().copied());
            }
            _ => drop(bytes.drain(at..at + length)),
        }
    }
}

fn corpus(target: &str) -> Vec<Vec<u8>> {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR"))
        .join("fuzz/corpus")
        .join(target);
    let mut paths: Vec<_> = fs::read_dir(folder)
        .expect("a corpus")
        .map(|entry| entry.expect("an entry").path())
        .collect();
    paths.sort();
    paths
        .iter()
        .map(|path| fs::read(path).expect("a file"))
        .collect()
}

/// Runs `check` on every file of a corpus, on every start of each and on changed ones.
fn run(target: &str, mut check: impl FnMut(&[u8])) {
    let files = corpus(target);
    assert!(files.len() > 4, "{target} has a corpus");
    for file in &files {
        (0..=file.len()).for_each(|length| check(&file[..length]));
    }
    let mut random = Random(1);
    for _ in 0..CASES {
        let mut bytes = files[random.below(files.len())].clone();
        for _ in 0..=random.below(4) {
            random.change(&mut bytes, &files);
        }
        check(&bytes);
    }
}

#[test]
fn changed_files_are_answered_and_cost_little() {
    super::alone(|| {
        run("gguf_header", |bytes| {
            let _ = super::bounded("a GGUF header", || gguf::check_header(bytes));
        });
        run("safetensors_header", |bytes| {
            let _ = super::bounded("a safetensors header", || safetensors::check_header(bytes));
        });
        run("checkpoint_config", |bytes| {
            let _ = super::bounded("a configuration", || safetensors::check_config(bytes));
        });
    });
}
