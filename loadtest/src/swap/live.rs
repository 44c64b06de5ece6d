//! A server on the real model whose harness changes while it answers.

use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::thread;
use std::time::Instant;

use serde_json::{Value, json};

use super::server::Server;
use super::{Options, content, p95, wire};
use crate::Failure;

/// Skills in every prompt: with the rest of it about 1,500 tokens.
const SKILLS: usize = 28;
/// Clients that ask all the time while swaps are counted.
const CLIENTS: usize = 2;
/// Swaps during which the gaps of a stream are measured.
const STREAMED_SWAPS: usize = 4;

/// What was measured.
pub(super) struct Live {
    /// P95 to the first segment after swaps, by that before them.
    pub(super) first_segment_ratio: f64,
    /// P95 gap between tokens while a harness is made ready, by that at other times.
    pub(super) itl_ratio: f64,
    /// Of the swaps under load.
    pub(super) failed_turns: f64,
}

pub(super) fn measure(options: &Options) -> Result<Live, Failure> {
    let server = Server::start(options, |directory| {
        content::write(directory, SKILLS, SKILLS)
    })?;
    let mut round = 0;
    let mut swap = |whole: bool| -> Result<(), Failure> {
        round += 1;
        // The first skill stands first in the prompt: all after it is new. The last changes only the prompt's end.
        let skill = if whole { 0 } else { SKILLS - 1 };
        content::edit(&server.directory(), skill, true, round)?;
        server.reload()
    };
    let first_segment_ratio = around_swaps(&server, options, || swap(true))?;
    let itl_ratio = during_swaps(&server, || swap(true))?;
    let failed_turns = under_load(&server, options.load_swaps, || swap(false))?;
    Ok(Live {
        first_segment_ratio,
        itl_ratio,
        failed_turns,
    })
}

/// As many answers right before each swap as right after it, each to a question that was not asked before: one that was
/// would be found whole in the cache, which no swap can be compared with.
fn around_swaps(
    server: &Server,
    options: &Options,
    mut swap: impl FnMut() -> Result<(), Failure>,
) -> Result<f64, Failure> {
    let each = options.answers.div_ceil(options.swaps.max(1));
    let (mut before, mut after) = (Vec::new(), Vec::new());
    let mut asked = 0;
    let mut ask = || {
        asked += 1;
        first_segment_ms(server, asked)
    };
    ask()?;
    for _ in 0..options.swaps {
        for _ in 0..each {
            before.push(ask()?);
        }
        swap()?;
        for _ in 0..each {
            after.push(ask()?);
        }
    }
    println!(
        "first segment P95 {:.0} ms before, {:.0} ms after {} swaps, {} answers each",
        p95(&before),
        p95(&after),
        options.swaps,
        before.len()
    );
    Ok(p95(&after) / p95(&before))
}

fn question(n: usize) -> Value {
    json!({
        "room_id": format!("room-{n}"), "stream": true, "deadline_ms": 60_000,
        "comments": [{"text": format!("is it waterproof, and what does it cost? ({n})")}],
        "context": {"product_id": "trail-jacket", "facts": {"waterproof": "yes, to 10,000 mm", "price": "$89"}}
    })
}

/// From the request to the first segment; the rest of the answer is not waited for.
fn first_segment_ms(server: &Server, n: usize) -> Result<f64, Failure> {
    let start = Instant::now();
    let mut answer = wire::post(server.address, "/v1/avatar/respond", &question(n))?;
    while let Some((name, data)) = answer.event()? {
        match name.as_str() {
            "segment" => return Ok(start.elapsed().as_secs_f64() * 1e3),
            "response.failed" => return Err(data.into()),
            _ => {}
        }
    }
    Err("an answer without a segment".into())
}

/// Gaps of one stream while harnesses are made ready, by those at other times.
fn during_swaps(
    server: &Server,
    mut swap: impl FnMut() -> Result<(), Failure>,
) -> Result<f64, Failure> {
    let (stop, busy) = (AtomicBool::new(false), AtomicBool::new(false));
    let (quiet, during) = thread::scope(|scope| {
        let stream =
            scope.spawn(|| gaps_ms(server, &stop, &busy).map_err(|error| error.to_string()));
        let mut swaps = || -> Result<(), Failure> {
            for _ in 0..STREAMED_SWAPS {
                thread::sleep(std::time::Duration::from_secs(4));
                busy.store(true, Ordering::SeqCst);
                swap()?;
                busy.store(false, Ordering::SeqCst);
            }
            Ok(())
        };
        let swapped = swaps();
        stop.store(true, Ordering::SeqCst);
        let gaps = stream.join().map_err(|_| "the stream's reader died")??;
        swapped.map(|()| gaps)
    })?;
    println!(
        "gap between tokens P95 {:.1} ms in {} gaps, {:.1} ms in {} while a harness was made ready",
        p95(&quiet),
        quiet.len(),
        p95(&during),
        during.len()
    );
    Ok(p95(&during) / p95(&quiet))
}

/// Gaps between the tokens of one stream after the other: those at quiet times, those at busy ones.
fn gaps_ms(
    server: &Server,
    stop: &AtomicBool,
    busy: &AtomicBool,
) -> Result<(Vec<f64>, Vec<f64>), Failure> {
    let (mut quiet, mut during) = (Vec::new(), Vec::new());
    let mut n = 0;
    while !stop.load(Ordering::SeqCst) {
        n += 1;
        let request = json!({
            "messages": [{"role": "user", "content": format!("Tell a very long story about {n} jackets in the rain.")}],
            "stream": true, "max_tokens": 600, "temperature": 0
        });
        let mut answer = wire::post(server.address, "/v1/chat/completions", &request)?;
        let mut last: Option<Instant> = None;
        while let Some((_, data)) = answer.event()? {
            if stop.load(Ordering::SeqCst) {
                break;
            }
            if !data.contains("\"content\"") {
                continue;
            }
            let now = Instant::now();
            if let Some(last) = last.replace(now) {
                let gap = now.duration_since(last).as_secs_f64() * 1e3;
                let gaps = match busy.load(Ordering::SeqCst) {
                    true => &mut during,
                    false => &mut quiet,
                };
                gaps.push(gap);
            }
        }
    }
    Ok((quiet, during))
}

/// Turns that did not complete while the harness changed `swaps` times.
fn under_load(
    server: &Server,
    swaps: usize,
    mut swap: impl FnMut() -> Result<(), Failure>,
) -> Result<f64, Failure> {
    let stop = AtomicBool::new(false);
    let (asked, failed) = (AtomicUsize::new(0), AtomicUsize::new(0));
    let swapped = thread::scope(|scope| {
        for client in 0..CLIENTS {
            let (stop, asked, failed) = (&stop, &asked, &failed);
            scope.spawn(move || {
                while !stop.load(Ordering::SeqCst) {
                    let n = asked.fetch_add(1, Ordering::SeqCst);
                    if let Err(error) = whole_answer(server, client * 1000 + n % 8) {
                        eprintln!("a turn failed: {error}");
                        failed.fetch_add(1, Ordering::SeqCst);
                    }
                }
            });
        }
        let swapped = (0..swaps).try_for_each(|_| swap());
        stop.store(true, Ordering::SeqCst);
        swapped
    });
    swapped?;
    let (asked, failed) = (asked.into_inner(), failed.into_inner());
    println!("{asked} turns while the harness changed {swaps} times, {failed} failed");
    Ok(u32::try_from(failed).map_or(f64::NAN, f64::from))
}

fn whole_answer(server: &Server, n: usize) -> Result<(), Failure> {
    let mut answer = wire::post(server.address, "/v1/avatar/respond", &question(n))?;
    while let Some((name, data)) = answer.event()? {
        match name.as_str() {
            "response.completed" => return Ok(()),
            "response.failed" => return Err(data.into()),
            _ => {}
        }
    }
    Err(format!("status {}, no end", answer.status).into())
}
