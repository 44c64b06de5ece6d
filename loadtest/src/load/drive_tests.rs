//! In virtual time: what a stalled, a full and an impatient server does to the figures.

use tokio::sync::Mutex;
use tokio::time::sleep;

use super::*;
use crate::load::arrivals::{Arrivals, times};

const LIMITS: Limits = Limits {
    in_flight: 1000,
    timeout: Duration::from_secs(30),
};

fn millis(ms: u64) -> Duration {
    Duration::from_millis(ms)
}

fn plan(length: Duration) -> Vec<Due> {
    let times = times(&Arrivals::Even, 100.0, length, 1);
    let due = times.into_iter().enumerate();
    due.map(|(index, at)| Due {
        at,
        counted: true,
        index,
    })
    .collect()
}

fn call(_: usize) -> Call {
    Call {
        body: String::new(),
        leaves: None,
    }
}

/// Answers one request after the other, each in a millisecond; stands still from 2 s to 3 s.
struct Stalls {
    start: Instant,
    turn: Mutex<()>,
}

impl Target for Stalls {
    async fn ask(&self, _: String, answer: &mut Answer) -> Result<(), Fault> {
        let turn = self.turn.lock().await;
        let now = self.start.elapsed();
        if (millis(2000)..millis(3000)).contains(&now) {
            sleep(millis(3000) - now).await;
        }
        sleep(millis(1)).await;
        drop(turn);
        answer.text("Yes. It does.");
        Ok(())
    }
}

#[tokio::test(start_paused = true)]
async fn a_stall_is_charged_to_every_request_that_was_due_in_it() {
    let target = Arc::new(Stalls {
        start: Instant::now(),
        turn: Mutex::new(()),
    });
    let plan = plan(millis(5000));
    let records = open_loop(&target, &plan, call, LIMITS, &Arc::default()).await;
    assert_eq!(records.len(), plan.len());
    for record in &records {
        // None was sent later because an earlier one waited.
        assert!(record.late <= millis(1), "{record:?}");
        if (millis(2010)..millis(3000)).contains(&record.due) {
            let rest = millis(3000) - record.due;
            assert!(record.total >= rest, "{record:?}");
            assert!(record.first_segment.expect("spoken") >= rest, "{record:?}");
        }
        if record.due < millis(1990) {
            assert!(record.total <= millis(5), "{record:?}");
        }
    }
    let slow = records
        .iter()
        .filter(|record| record.total >= millis(500))
        .count();
    assert!(
        (45..75).contains(&slow),
        "{slow} of 500 waited half the stall"
    );
}

#[tokio::test(start_paused = true)]
async fn a_closed_loop_hides_the_stall_from_all_but_its_callers() {
    let target = Arc::new(Stalls {
        start: Instant::now(),
        turn: Mutex::new(()),
    });
    let records = closed_loop(
        &target,
        4,
        millis(5000),
        Arc::new(call),
        LIMITS.timeout,
        &Arc::default(),
    )
    .await;
    let slow = records
        .iter()
        .filter(|record| record.total >= millis(500))
        .count();
    assert_eq!(slow, 4, "which is why latency is measured in an open loop");
    assert!(records.len() > 1500, "{}", records.len());
}

/// Never answers.
struct Silent;

impl Target for Silent {
    async fn ask(&self, _: String, _: &mut Answer) -> Result<(), Fault> {
        std::future::pending().await
    }
}

#[tokio::test(start_paused = true)]
async fn what_is_not_sent_or_not_answered_is_an_error() {
    let limits = Limits {
        in_flight: 10,
        timeout: millis(1000),
    };
    let plan = plan(millis(500));
    let records = open_loop(&Arc::new(Silent), &plan, call, limits, &Arc::default()).await;
    let count = |fault: &Fault| {
        let failed = Outcome::Failed(fault.clone());
        records
            .iter()
            .filter(|record| record.outcome == failed)
            .count()
    };
    assert_eq!(count(&Fault::Timeout), 10);
    assert_eq!(count(&Fault::NotSent), plan.len() - 10);
    assert!(records.iter().all(|record| record.late <= millis(1)));
}

#[tokio::test(start_paused = true)]
async fn callers_who_leave_as_planned_are_no_errors() {
    let leaves = |index: usize| Call {
        body: String::new(),
        leaves: index.is_multiple_of(2).then_some(millis(50)),
    };
    let plan = plan(millis(100));
    let limits = Limits {
        timeout: millis(1000),
        ..LIMITS
    };
    let records = open_loop(&Arc::new(Silent), &plan, leaves, limits, &Arc::default()).await;
    for (index, record) in records.iter().enumerate() {
        let expected = if index.is_multiple_of(2) {
            (Outcome::Left, millis(50))
        } else {
            (Outcome::Failed(Fault::Timeout), millis(1000))
        };
        // Timers go by whole milliseconds.
        let (outcome, total) = expected;
        assert_eq!(record.outcome, outcome);
        assert_eq!(record.total.as_millis(), total.as_millis());
    }
}
