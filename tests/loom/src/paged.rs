//! The engine's bell wakes it whatever else uses its park token; its pins keep to their budget.

#[path = "../../../src/engine/paged/bell.rs"]
mod bell;
#[path = "../../../src/engine/paged/pins.rs"]
mod pins;

use crate::threads::{self, Arc, AtomicUsize, Ordering, Thread, current, park, spawn};
use crate::{Check, check};
use bell::Bell;
use pins::Pins;

pub(crate) const CHECKS: &[Check] = &[
    ("no_work_is_slept_over", no_work_is_slept_over),
    ("a_lost_park_token_loses_no_work", a_lost_park_token),
    ("pins_keep_to_their_budget", pins_keep_to_their_budget),
    (
        "giving_back_hits_no_later_pin",
        giving_back_hits_no_later_pin,
    ),
];

/// What callers and the engine share.
struct Door {
    bell: Bell,
    work: AtomicUsize,
}

impl Door {
    fn new() -> Arc<Self> {
        Arc::new(Self {
            bell: Bell::new(),
            work: AtomicUsize::new(0),
        })
    }

    /// As a caller: something to do, then the bell.
    fn hand_in(&self, engine: &Thread) {
        self.work.fetch_add(1, Ordering::Relaxed);
        self.bell.ring(engine);
    }

    /// As the engine: does what is there, sleeps when nothing is, until `all` is done.
    fn serve(&self, all: usize, step: impl Fn()) {
        let mut done = 0;
        while done < all {
            let there = self.work.swap(0, Ordering::Relaxed);
            done += there;
            if done == all {
                return;
            }
            step();
            if there == 0 {
                self.bell.sleep();
            }
        }
    }
}

fn no_work_is_slept_over() {
    check(3, || {
        let door = Door::new();
        let engine = current();
        let callers = [(); 2].map(|()| {
            let (door, engine) = (Arc::clone(&door), engine.clone());
            spawn(move || door.hand_in(&engine))
        });
        door.serve(2, || ());
        for caller in callers {
            caller.join().expect("it ends");
        }
    });
}

/// Fault: a step used up the token that the bell had left, and the engine went to sleep over the work.
fn a_lost_park_token() {
    check(3, || {
        let door = Door::new();
        let engine = current();
        let (on_caller, target) = (Arc::clone(&door), engine.clone());
        let caller = spawn(move || on_caller.hand_in(&target));
        door.serve(1, || {
            // A place at which the caller may come between.
            door.work.load(Ordering::SeqCst);
            engine.unpark();
            park();
        });
        caller.join().expect("it ends");
    });
}

fn pins_keep_to_their_budget() {
    check(3, || {
        let pins = Arc::new(Pins::new(3));
        let held = Arc::new(AtomicUsize::new(0));
        let callers = [(); 2].map(|()| {
            let (pins, held) = (Arc::clone(&pins), Arc::clone(&held));
            spawn(move || {
                if let Ok(pin) = pins.claim(2) {
                    let before = held.fetch_add(2, Ordering::AcqRel);
                    assert!(before + 2 <= 3);
                    pins.give_back(pin);
                    held.fetch_sub(2, Ordering::AcqRel);
                    pins.free(pin, 2);
                }
            })
        });
        for caller in callers {
            caller.join().expect("it ends");
        }
        assert!(pins.claim(3).is_ok(), "all of it is back");
        assert_eq!(pins.given_back().count(), 0);
    });
}

fn giving_back_hits_no_later_pin() {
    check(3, || {
        let pins = Arc::new(Pins::new(2));
        let first = pins.claim(1).expect("room");
        let on_caller = Arc::clone(&pins);
        let caller = spawn(move || {
            on_caller.give_back(first);
            on_caller.give_back(first);
        });
        pins.free(first, 1);
        let second = pins.claim(2).expect("room");
        caller.join().expect("it ends");
        assert!(pins.given_back().all(|pin| pin != second));
    });
}
