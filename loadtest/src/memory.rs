//! Peak memory of a real server above its weights and its KV budget, once its whole KV pool has been written.

use std::fmt::Write as _;
use std::fs;
use std::io::{Read, Write};
use std::net::TcpStream;
use std::path::Path;

use crate::Failure;
use crate::servers::Server;

const KV_MB: usize = 64;
/// Prompts of about 1,300 tokens each; together more than the pool holds.
const PROMPTS: usize = 8;
const WORDS: usize = 350;

/// Megabytes (2^20) of peak resident memory beyond the model file's size and the KV budget.
pub(crate) fn above_weights_and_kv_mb(
    program: &Path,
    model: &Path,
    threads: usize,
) -> Result<f64, Failure> {
    let settings = [("COMPERE_MODEL__KV_CACHE_MB", KV_MB.to_string())];
    let server = Server::compere(program, model, threads, &settings)?;
    for prompt in 0..PROMPTS {
        fill(&server.address, prompt)?;
    }
    let peak_kb = peak_resident_kb(server.process())?;
    let weights = fs::metadata(model)?.len();
    let known = weights + (KV_MB as u64) * (1 << 20);
    let above = i64::try_from(peak_kb * 1024)? - i64::try_from(known)?;
    #[allow(clippy::cast_precision_loss, reason = "megabytes to three digits")]
    Ok(above as f64 / f64::from(1 << 20))
}

/// Writes about 1,300 tokens of KV that no other prompt shares.
fn fill(address: &str, prompt: usize) -> Result<(), Failure> {
    let mut text = format!("Prompt {prompt}.");
    for word in 0..WORDS {
        write!(text, " {}", (word * 7919 + prompt * 104_729) % 997)?;
    }
    let body =
        serde_json::json!({"messages": [{"role": "user", "content": text}], "max_tokens": 4})
            .to_string();
    let mut stream = TcpStream::connect(address)?;
    write!(
        stream,
        "POST /v1/chat/completions HTTP/1.1\r\nHost: {address}\r\nContent-Type: application/json\r\n\
         Content-Length: {}\r\nConnection: close\r\n\r\n{body}",
        body.len()
    )?;
    let mut answer = String::new();
    stream.read_to_string(&mut answer)?;
    if answer.starts_with("HTTP/1.1 200") {
        Ok(())
    } else {
        Err(format!("the server answered {answer}").into())
    }
}

fn peak_resident_kb(process: u32) -> Result<u64, Failure> {
    let status = fs::read_to_string(format!("/proc/{process}/status"))?;
    let line = status
        .lines()
        .find_map(|line| line.strip_prefix("VmHWM:"))
        .ok_or("no VmHWM in /proc")?;
    Ok(line.trim().trim_end_matches("kB").trim().parse()?)
}
