//! However hostile the others, everybody who was let in is answered within a bounded number of steps.

use std::time::Duration;

use proptest::prelude::*;

use super::support::{Reader, Rig, config, limits, request};
use crate::engine::paged::Config;
use crate::engine::{FinishReason, GenerateRequest, Priority};

/// What one step takes here.
const STEP: Duration = Duration::from_millis(10);

/// What comes in while somebody waits.
#[derive(Clone, Debug)]
struct Flow {
    prompt: usize,
    max_tokens: usize,
    priority: Priority,
    deadline_ms: Option<u64>,
}

fn flows() -> impl Strategy<Value = Vec<Flow>> {
    let priorities = prop_oneof![
        Just(Priority::Low),
        Just(Priority::Normal),
        Just(Priority::High)
    ];
    let deadlines = proptest::option::of(100..2000_u64);
    let flow = (1..40_usize, 1..12_usize, priorities, deadlines).prop_map(
        |(prompt, max_tokens, priority, deadline_ms)| Flow {
            prompt,
            max_tokens,
            priority,
            deadline_ms,
        },
    );
    prop::collection::vec(flow, 1..6)
}

fn hostile(max_running: usize) -> Config {
    Config {
        max_running,
        queue: 12,
        aging_ms: 200,
        patience_ms: 1000,
        ..config()
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(60))]

    /// The queue is kept full with what would go first. Within aging and patience the one who waits is overtaken by
    /// nobody any more; what is before it then is a queue and the running ones, of 52 tokens each at most.
    #[test]
    fn everybody_gets_there(
        flows in flows(),
        max_running in 1..5_usize,
        blocks in 20..60_usize,
        priority in prop_oneof![Just(Priority::Low), Just(Priority::Normal)],
        prompt in 1..60_usize,
    ) {
        let mut rig = Rig::new(limits(blocks, 4), &hostile(max_running));
        let mut waiting = rig.submit(GenerateRequest {
            priority,
            ..request(&"w".repeat(prompt), 10)
        });
        let mut others: Vec<Reader> = Vec::new();
        let mut next = flows.iter().cycle().enumerate();
        let mut steps = 0;
        while waiting.reason().is_none() {
            for (n, flow) in next.by_ref() {
                let text = format!("{n}{}", "x".repeat(flow.prompt));
                let deadline = flow.deadline_ms.map(|ms| rig.now() + Duration::from_millis(ms));
                let flow = GenerateRequest {
                    priority: flow.priority,
                    deadline,
                    ..request(&text, flow.max_tokens)
                };
                match rig.try_submit(flow) {
                    Ok(reader) => others.push(reader),
                    Err(_) => break,
                }
            }
            rig.pass(STEP);
            rig.step();
            others.retain_mut(|reader| reader.reason().is_none());
            steps += 1;
            prop_assert!(steps < 1500, "starved");
        }
        prop_assert_eq!(waiting.end().reason, FinishReason::Length);
        drop(others);
        rig.settle();
        prop_assert_eq!(rig.blocks_used(), 0);
    }
}
