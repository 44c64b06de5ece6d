//! Thousands that wait: a step costs the same, and everybody leaves as they should.

use std::time::Duration;

use super::support::{Reader, Rig, config, limits, request};
use crate::engine::paged::Config;
use crate::engine::{FinishReason, GenerateRequest, Priority};

/// One that runs for long, and `waiting` behind it.
fn crowd(waiting: usize, deadline: Option<Duration>) -> (Rig, Reader, Vec<Reader>) {
    let config = Config {
        max_running: 1,
        queue: 6000,
        ..config()
    };
    let mut rig = Rig::new(limits(300, 4), &config);
    let running = rig.submit(GenerateRequest {
        priority: Priority::High,
        ..request("running", 1000)
    });
    rig.step();
    let queued = (0..waiting)
        .map(|n| {
            let priority = [Priority::Low, Priority::Normal][n % 2];
            rig.submit(GenerateRequest {
                priority,
                deadline: deadline.map(|after| rig.now() + after),
                ..request("queued", 2)
            })
        })
        .collect();
    rig.core.step();
    (rig, running, queued)
}

/// Fault: each step looked at every waiting request.
#[test]
fn a_step_looks_at_a_few_however_many_wait() {
    let touched = |waiting: usize| {
        let (mut rig, _running, _queued) = crowd(waiting, Some(Duration::from_secs(3600)));
        let counts = (0..20).map(|_| {
            rig.pass(Duration::from_millis(50));
            rig.core.scheduler_mut().waiting().touched = 0;
            rig.core.step();
            rig.core.scheduler_mut().waiting().touched
        });
        counts.max()
    };
    assert_eq!(touched(5000), touched(1000));
    assert!(touched(5000) < Some(300));
}

#[test]
fn an_admission_and_an_arrival_cost_the_same_however_many_wait() {
    let touched = |waiting: usize| {
        let (mut rig, running, _queued) = crowd(waiting, None);
        drop(running);
        rig.core.step();
        rig.core.scheduler_mut().waiting().touched = 0;
        let _new = rig.submit(request("new", 1));
        for _ in 0..4 {
            rig.core.step();
        }
        rig.core.scheduler_mut().waiting().touched
    };
    assert_eq!(touched(5000), touched(1000));
}

#[test]
fn clients_that_left_a_long_queue_free_their_places_within_a_few_steps() {
    let (mut rig, mut running, queued) = crowd(5000, None);
    let mut kept = Vec::new();
    for (n, reader) in queued.into_iter().enumerate() {
        if n % 1000 == 7 {
            kept.push(reader);
        }
    }
    for _ in 0..5000 / 256 + 1 {
        rig.core.step();
    }
    assert_eq!(rig.count(|stats| &stats.requests_waiting), 5);
    assert_eq!(running.read(), 22);
    drop(running);
    rig.settle();
    assert!(kept.iter_mut().all(|r| r.end().usage.completion == 2));
    let generated = rig.count(|stats| &stats.generation_tokens);
    assert_eq!(generated, 22 + 5 * 2, "nothing is computed for the others");
}

#[test]
fn one_that_left_is_not_computed_when_its_turn_comes_before_the_sweep() {
    let (mut rig, running, mut queued) = crowd(2000, None);
    rig.control.record();
    // The first in the order of service.
    drop(queued.remove(1));
    drop(running);
    rig.step();
    let batches = rig.control.take_recorded();
    assert_eq!(batches.len(), 1);
    assert_eq!(rig.count(|stats| &stats.zombie_tokens), 0);
    assert_eq!(queued[2].read(), 1, "the next one is served in its place");
}

/// Fault: requests that could not be answered in time any more were computed all the same.
#[test]
fn deadlines_that_pass_in_a_long_queue_end_all_of_them_in_one_step() {
    let (mut rig, mut running, mut queued) = crowd(3000, Some(Duration::from_secs(2)));
    let computed = rig.count(|stats| &stats.prompt_tokens);
    rig.pass(Duration::from_millis(1999));
    rig.step();
    assert_eq!(rig.count(|stats| &stats.expired), 0);
    rig.pass(Duration::from_millis(1));
    rig.step();
    assert_eq!(rig.count(|stats| &stats.requests_waiting), 0);
    for reader in &mut queued {
        assert_eq!(reader.end().reason, FinishReason::Deadline);
    }
    assert_eq!(rig.count(|stats| &stats.expired), 3000);
    assert_eq!(rig.count(|stats| &stats.prompt_tokens), computed);
    assert_eq!(running.reason(), None);
}

#[test]
fn waiting_in_a_crowd_raises_everybody() {
    let (mut rig, running, mut queued) = crowd(400, None);
    rig.pass(Duration::from_secs(30));
    let _late: Vec<_> = (0..10)
        .map(|n| {
            rig.submit(GenerateRequest {
                priority: Priority::High,
                ..request(&format!("late {n}"), 1)
            })
        })
        .collect();
    drop(running);
    for _ in 0..400 * 3 {
        rig.core.step();
    }
    rig.step();
    assert!(queued.iter_mut().all(|r| r.end().usage.completion == 2));
}
