//! Pinned prefixes: resident until given back, within their budget, cancelled by dropping the ticket.

use super::support::{Reader, Rig, config, limits, request};
use crate::engine::paged::Config;
use crate::engine::{FinishReason, PinId, SubmitError};

const PREFIX: &str = "a harness of 40 characters, all of it so";

fn pinning() -> Config {
    Config {
        pin_share: 0.5,
        ..config()
    }
}

/// Fills the pool with other work, so that all that is only cached is evicted.
fn crowd(rig: &mut Rig) {
    let mut readers: Vec<_> = (0..6)
        .map(|n| rig.submit(request(&format!("{n}{}", "crowd".repeat(7)), 4)))
        .collect();
    rig.settle();
    assert!(
        readers
            .iter_mut()
            .all(|r| r.end().reason == FinishReason::Length)
    );
}

fn cached(rig: &mut Rig) -> usize {
    let mut reader = rig.submit(request(&format!("{PREFIX} and more"), 2));
    rig.settle();
    reader.end().usage.cached
}

#[test]
fn a_pinned_prefix_stays_whatever_comes() {
    let mut rig = Rig::new(limits(30, 4), &pinning());
    let ticket = rig.pin(PREFIX).unwrap();
    rig.settle();
    let finish = Reader::new(ticket.ready).end();
    assert_eq!(finish.reason, FinishReason::Stop);
    assert_eq!((finish.usage.prompt, finish.usage.completion), (40, 0));
    assert_eq!(rig.blocks_used(), 10);
    crowd(&mut rig);
    assert_eq!(cached(&mut rig), 40);

    rig.intake.unpin(ticket.id);
    rig.intake.unpin(ticket.id);
    assert!(!rig.step());
    assert_eq!(rig.blocks_used(), 0);
    assert!(cached(&mut rig) >= 40, "still cached");
    crowd(&mut rig);
    assert_eq!(cached(&mut rig), 0, "evicted like any other");
}

#[test]
fn pinning_what_is_cached_computes_nothing() {
    let mut rig = Rig::new(limits(24, 4), &pinning());
    let _warm = rig.submit(request(PREFIX, 4));
    rig.settle();
    let passes = rig.control.entered();
    let ticket = rig.pin(&PREFIX[..40]).unwrap();
    rig.settle();
    assert_eq!(Reader::new(ticket.ready).end().usage.cached, 40);
    assert_eq!(rig.control.entered(), passes);
    assert_eq!(rig.blocks_used(), 10);
}

#[test]
fn less_than_a_block_is_resident_at_once() {
    let mut rig = Rig::new(limits(24, 4), &pinning());
    let ticket = rig.pin("abc").unwrap();
    rig.settle();
    assert_eq!(Reader::new(ticket.ready).end().reason, FinishReason::Stop);
    rig.intake.unpin(ticket.id);
    assert!(!rig.step());
}

#[test]
fn the_budget_bounds_pins_and_comes_back() {
    let mut rig = Rig::new(limits(24, 4), &pinning());
    let first = rig.pin(PREFIX).unwrap();
    rig.settle();
    let refused = rig.pin("another prefix of 28 letters").unwrap_err();
    assert!(
        matches!(&refused, SubmitError::Invalid { field: "pin", reason } if reason.contains("needs 7 KV blocks, and 2")),
        "{refused}"
    );
    rig.intake.unpin(first.id);
    rig.step();
    let second = rig.pin("another prefix of 28 letters").unwrap();
    rig.settle();
    assert_eq!(Reader::new(second.ready).end().reason, FinishReason::Stop);
}

#[test]
fn dropping_the_ticket_cancels_the_pin() {
    for steps in 0..3 {
        let mut rig = Rig::new(limits(24, 4), &pinning());
        let ticket = rig.pin(PREFIX).unwrap();
        for _ in 0..steps {
            rig.step();
        }
        drop(ticket.ready);
        rig.settle();
        assert_eq!(rig.blocks_used(), 0, "after {steps} steps");
        assert!(rig.pin(PREFIX).is_ok(), "its budget is back");
        rig.intake.unpin(ticket.id);
    }
}

#[test]
fn unpinning_before_it_is_resident_ends_the_ticket() {
    let mut rig = Rig::new(limits(24, 4), &pinning());
    let ticket = rig.pin(PREFIX).unwrap();
    rig.step();
    rig.intake.unpin(ticket.id);
    rig.settle();
    let reason = Reader::new(ticket.ready).end().reason;
    assert!(matches!(&reason, FinishReason::Error(text) if text.contains("unpinned")));
    assert_eq!(rig.blocks_used(), 0);
    rig.intake.unpin(PinId(u64::MAX));
    assert!(!rig.step());
}

#[test]
fn pins_wait_for_requests() {
    let config = Config {
        max_running: 1,
        ..pinning()
    };
    let mut rig = Rig::new(limits(64, 4), &config);
    let ticket = rig.pin(PREFIX).unwrap();
    let mut ready = Reader::new(ticket.ready);
    let mut reader = rig.submit(request("normal", 5));
    while reader.reason().is_none() {
        rig.step();
        assert!(ready.reason().is_none());
    }
    rig.settle();
    assert_eq!(ready.end().reason, FinishReason::Stop);
}

/// The largest request that is accepted runs beside the largest pins.
#[test]
fn pins_never_make_an_accepted_request_impossible() {
    let mut rig = Rig::new(limits(20, 4), &pinning());
    let ticket = rig.pin(PREFIX).unwrap();
    rig.settle();
    assert_eq!(Reader::new(ticket.ready).end().reason, FinishReason::Stop);
    let limit = rig.intake.limits().max_sequence_tokens;
    assert_eq!(limit, 40);
    let mut reader = rig.submit(request("0123456789", 30));
    rig.settle();
    assert_eq!(reader.end().usage.completion, 30);
}

/// Fault: giving one of two pins of the same prefix back took the prefix from both.
#[test]
fn a_prefix_pinned_twice_stays_until_both_are_given_back() {
    let mut rig = Rig::new(limits(42, 4), &pinning());
    let [first, second] = [(); 2].map(|()| rig.pin(PREFIX).unwrap());
    rig.settle();
    assert_ne!(first.id, second.id);
    for ticket in [first.ready, second.ready] {
        assert_eq!(Reader::new(ticket).end().reason, FinishReason::Stop);
    }
    assert_eq!(rig.blocks_used(), 10, "one copy");
    assert!(rig.pin("four").is_ok(), "21 blocks, 20 of them spent");
    assert!(rig.pin("more").is_err());
    rig.intake.unpin(first.id);
    rig.settle();
    crowd(&mut rig);
    crowd(&mut rig);
    assert_eq!(cached(&mut rig), 40);
    rig.intake.unpin(second.id);
    rig.settle();
    crowd(&mut rig);
    crowd(&mut rig);
    assert_eq!(cached(&mut rig), 0);
}

#[test]
fn a_prefix_larger_than_the_whole_budget_is_refused_and_costs_nothing() {
    let config = Config {
        pin_share: 0.3,
        ..config()
    };
    let mut rig = Rig::new(limits(30, 4), &config);
    let refused = rig.pin(PREFIX);
    assert!(matches!(
        refused,
        Err(SubmitError::Invalid { field: "pin", .. })
    ));
    assert!(!rig.step());
    assert!(rig.pin(&PREFIX[..36]).is_ok(), "nine blocks are the budget");
}

#[test]
fn a_pin_refused_by_a_full_queue_gives_its_budget_back() {
    let config = Config {
        queue: 1,
        ..pinning()
    };
    let mut rig = Rig::new(limits(24, 4), &config);
    let _waiting = rig.submit(request("first", 1));
    for _ in 0..100 {
        let refused = rig.pin(PREFIX).map(|_| ());
        assert_eq!(refused, Err(SubmitError::QueueFull { limit: 1 }));
    }
    rig.settle();
    assert!(rig.pin(PREFIX).is_ok());
}

/// A failed computation leaves no pin behind.
#[test]
fn a_pin_whose_computation_fails_ends_and_frees_its_budget() {
    let mut rig = Rig::new(limits(24, 4), &pinning());
    let ticket = rig.pin(PREFIX).unwrap();
    rig.control.fail_next("no memory");
    rig.settle();
    let reason = Reader::new(ticket.ready).end().reason;
    assert!(matches!(reason, FinishReason::Error(_)), "{reason:?}");
    assert_eq!(rig.blocks_used(), 0);
    assert!(rig.pin(PREFIX).is_ok());
}
