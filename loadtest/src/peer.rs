//! llama.cpp's own benchmark tools, one process a measurement, as their authors mean them to be run.

use std::path::{Path, PathBuf};
use std::process::Command;

use crate::Failure;
use crate::figure::median;

/// Times that one round repeats a measurement, on both sides; the median counts.
pub(crate) const REPEATS: usize = 5;
/// Generated tokens of one decode measurement.
pub(crate) const DECODE_TOKENS: usize = 64;

/// Where the tools are and what they run.
pub(crate) struct LlamaCpp {
    bench: PathBuf,
    batched: PathBuf,
    model: PathBuf,
    threads: String,
}

impl LlamaCpp {
    /// Takes the tools from `folder`, else from the PATH.
    pub(crate) fn find(folder: &Path, model: &Path, threads: usize) -> Result<Self, Failure> {
        let tool = |name: &str| {
            let built = folder.join(name);
            if built.exists() {
                built
            } else {
                PathBuf::from(name)
            }
        };
        let peer = Self {
            bench: tool("llama-bench"),
            batched: tool("llama-batched-bench"),
            model: model.to_owned(),
            threads: threads.to_string(),
        };
        Command::new(&peer.bench)
            .arg("--help")
            .output()
            .map_err(|error| {
                format!("{}: {error}; `make peers` builds it", peer.bench.display())
            })?;
        Ok(peer)
    }

    /// Tokens a second of a prompt of `tokens`, its own warm-up run before it.
    pub(crate) fn prefill(&self, tokens: usize) -> Result<f64, Failure> {
        self.run_bench(&["-p", &tokens.to_string(), "-n", "0"])
    }

    /// Tokens a second of one stream after `depth` tokens of context.
    pub(crate) fn decode_at(&self, depth: usize) -> Result<f64, Failure> {
        self.run_bench(&[
            "-p",
            "0",
            "-n",
            &DECODE_TOKENS.to_string(),
            "-d",
            &depth.to_string(),
        ])
    }

    /// Tokens a second of all streams together over a shared prompt.
    pub(crate) fn decode_shared(&self, streams: usize, depth: usize) -> Result<f64, Failure> {
        // Each stream has its own share of the context, and holds the prompt in it.
        let context = streams * (depth + DECODE_TOKENS).next_multiple_of(256);
        let output = Command::new(&self.batched)
            .args(["-m".as_ref(), self.model.as_os_str()])
            .args([
                "-t",
                &self.threads,
                "-c",
                &context.to_string(),
                "-pps",
                "--output-format",
                "jsonl",
            ])
            .args([
                "-npp",
                &depth.to_string(),
                "-ntg",
                &DECODE_TOKENS.to_string(),
                "-npl",
                &streams.to_string(),
            ])
            .output()?;
        let text = String::from_utf8_lossy(&output.stdout);
        let row = text.lines().rev().find(|line| line.starts_with('{'));
        let value: Option<serde_json::Value> = row.and_then(|row| serde_json::from_str(row).ok());
        value
            .and_then(|value| value["speed_tg"].as_f64())
            .ok_or_else(|| {
                format!(
                    "llama-batched-bench gave no result: {}",
                    tail(&output.stderr)
                )
                .into()
            })
    }

    fn run_bench(&self, args: &[&str]) -> Result<f64, Failure> {
        let output = Command::new(&self.bench)
            .args(["-m".as_ref(), self.model.as_os_str()])
            .args([
                "-t",
                &self.threads,
                "-r",
                &REPEATS.to_string(),
                "-o",
                "json",
            ])
            .args(args)
            .output()?;
        serde_json::from_slice::<serde_json::Value>(&output.stdout)
            .ok()
            .and_then(|rows| {
                let samples = rows[0]["samples_ts"].as_array()?.iter();
                Some(median(samples.filter_map(serde_json::Value::as_f64)))
            })
            .ok_or_else(|| format!("llama-bench gave no result: {}", tail(&output.stderr)).into())
    }
}

fn tail(bytes: &[u8]) -> String {
    let text = String::from_utf8_lossy(bytes);
    let lines: Vec<&str> = text.lines().rev().take(5).collect();
    lines.into_iter().rev().collect::<Vec<_>>().join("\n")
}
