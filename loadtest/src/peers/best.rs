//! llama-server at the flags that serve the scenario best on this machine.

use super::load::Side;
use super::plan::Plan;
use super::{ANSWER, COMMENT_WORDS, HARNESS, PeersArgs, ROOM, ROOMS, llama_server, texts};
use crate::Failure;
use crate::load::workload::Language;
use crate::servers::Server;

/// Seconds that each set of flags is tried.
const TRY_S: u64 = 6;

/// The running peer.
pub(super) struct Peer {
    pub(super) side: Side,
    pub(super) flags: String,
}

/// Sets of flags: slots, and the rest. The first was the best where this was written.
const SETS: [(usize, &str); 5] = [
    (16, "-no-kvu -cram 0"),
    (8, "-no-kvu -cram 0"),
    (8, "-kvu -cram 2048 --cache-reuse 256"),
    (8, "-no-kvu -cram 0 -ctk q8_0"),
    (16, "-no-kvu -cram 0 -b 4096 -ub 1024"),
];

/// Starts it with the asked flags, the first set, or the one of all that answers most.
pub(super) fn start(args: &PeersArgs, plan: &Plan, language: &Language) -> Result<Peer, Failure> {
    if let Some(flags) = &args.peer_flags {
        return try_flags(args, language, flags);
    }
    if !plan.try_flags {
        return try_flags(args, language, &written(SETS[0]));
    }
    let mut best: Option<(f64, String)> = None;
    for set in SETS {
        let flags = written(set);
        let mut peer = try_flags(args, language, &flags)?;
        let rate = peer.side.capacity(TRY_S)?;
        println!("try llama-server {flags}: {rate:.3} answers/s");
        if best.as_ref().is_none_or(|(most, _)| rate > *most) {
            best = Some((rate, flags));
        }
    }
    let (_, flags) = best.ok_or("no flags to try")?;
    try_flags(args, language, &flags)
}

/// Slots with room for a whole sequence each.
fn written((slots, more): (usize, &str)) -> String {
    // A word of a comment has at most two tokens; the template adds a few.
    let sequence = (HARNESS + ROOM + 2 * COMMENT_WORDS + ANSWER + 64).next_multiple_of(256);
    format!("-np {slots} -c {} {more}", slots * sequence)
}

/// Starts it, warm: every slot has seen the harness, and every room was asked about.
fn try_flags(args: &PeersArgs, language: &Language, flags: &str) -> Result<Peer, Failure> {
    let words: Vec<String> = flags.split_whitespace().map(str::to_owned).collect();
    let server = Server::llama(&llama_server(&args.peer), &args.model, args.threads, &words)?;
    let mut side = Side::start("llama-server", server, &texts(HARNESS), language)?;
    side.warm(slots(&words) + ROOMS)?;
    Ok(Peer {
        side,
        flags: flags.to_owned(),
    })
}

/// Slots that the flags ask for; without a word of it, as many as there are rooms.
fn slots(flags: &[String]) -> usize {
    let mut pairs = flags.windows(2);
    let asked = pairs.find(|pair| pair[0] == "-np" || pair[0] == "--parallel");
    asked.and_then(|pair| pair[1].parse().ok()).unwrap_or(ROOMS)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_slot_holds_a_whole_sequence() {
        for set in SETS {
            let flags = written(set);
            let words: Vec<String> = flags.split_whitespace().map(str::to_owned).collect();
            assert_eq!(slots(&words), set.0);
            let context: usize = words[3].parse().expect("a number");
            assert!(context / set.0 >= HARNESS + ROOM + ANSWER, "{flags}");
        }
    }
}
