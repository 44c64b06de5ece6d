//! Whoever comes, goes and is sent away in whatever order: one speaks, the others follow in order, nobody is forgotten.

use std::collections::BTreeMap;

use proptest::prelude::*;

use super::*;

const MOST: usize = 3;

/// Lets a turn in that is its own card.
fn arrive(
    floor: &mut Floor<u64>,
    number: u64,
    priority: Priority,
    supersede: Supersede,
) -> Result<Arrival<u64>, Full> {
    floor.arrive((number, priority), number, supersede, MOST)
}

fn waits(ahead: usize) -> Result<Arrival<u64>, Full> {
    Ok(Arrival {
        ahead: Some(ahead),
        superseded: Vec::new(),
    })
}

#[test]
fn the_first_speaks_and_the_others_follow_by_priority_then_arrival() {
    let mut floor = Floor::default();
    let none = Supersede::None;
    let first = arrive(&mut floor, 0, Priority::Low, none).unwrap();
    assert_eq!(first.ahead, None);
    assert_eq!(arrive(&mut floor, 1, Priority::Low, none), waits(1));
    assert_eq!(arrive(&mut floor, 2, Priority::Normal, none), waits(1));
    assert_eq!(arrive(&mut floor, 3, Priority::Normal, none), waits(2));
    assert_eq!(arrive(&mut floor, 4, Priority::High, none), Err(Full));
    let order: Vec<_> = [0, 2, 3, 1].map(|number| floor.leave(number)).into();
    assert_eq!(order, [Some(2), Some(3), Some(1), None]);
    assert!(floor.is_free());
}

#[test]
fn a_turn_that_supersedes_follows_the_one_that_ends_and_leaves_the_others_alone() {
    let mut floor = Floor::default();
    for (number, priority) in [
        (0, Priority::Low),
        (1, Priority::Normal),
        (2, Priority::Low),
        (3, Priority::Low),
    ] {
        arrive(&mut floor, number, priority, Supersede::None).unwrap();
    }
    let came = arrive(&mut floor, 4, Priority::Normal, Supersede::Lower).unwrap();
    assert_eq!((came.ahead, came.superseded), (Some(1), vec![0, 2, 3]));
    assert_eq!(floor.leave(2), None);
    assert_eq!(floor.leave(0), Some(1));
    let came = arrive(&mut floor, 5, Priority::Low, Supersede::All).unwrap();
    assert_eq!((came.ahead, came.superseded), (Some(0), vec![1, 4]));
    assert_eq!(floor.leave(1), Some(5));
}

#[test]
fn a_full_queue_ends_nobody_for_a_turn_that_it_refuses() {
    let mut floor = Floor::default();
    for number in 0..=3 {
        arrive(&mut floor, number, Priority::High, Supersede::None).unwrap();
    }
    let refused = arrive(&mut floor, 4, Priority::High, Supersede::Lower);
    assert_eq!(refused, Err(Full));
    assert_eq!(floor.end_all(), [0, 1, 2, 3]);
    assert_eq!(floor.end_all(), Vec::<u64>::new());
    assert_eq!(floor.leave(0), None);
    assert!(floor.is_free());
}

#[derive(Clone, Debug)]
enum Step {
    Arrive(Priority, Supersede),
    /// One of those that are there leaves, be it that it ended or that its viewer did.
    Leave(usize),
    EndAll,
}

fn steps() -> impl Strategy<Value = Vec<Step>> {
    let priority = proptest::sample::select(&[Priority::Low, Priority::Normal, Priority::High][..]);
    let supersede = prop_oneof![
        4 => Just(Supersede::None),
        1 => Just(Supersede::Lower),
        1 => Just(Supersede::All),
    ];
    let step = prop_oneof![
        6 => (priority, supersede).prop_map(|(priority, supersede)| Step::Arrive(priority, supersede)),
        5 => (0..16_usize).prop_map(Step::Leave),
        1 => Just(Step::EndAll),
    ];
    proptest::collection::vec(step, 0..60)
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum At {
    Waits,
    Speaks,
    /// It was told to end while it spoke, or while it waited.
    Ends {
        speaks: bool,
    },
}

/// What every turn that has not left believes of itself.
#[derive(Default)]
struct Believed(BTreeMap<u64, (Priority, At)>);

impl Believed {
    fn end(&mut self, numbers: &[u64]) {
        for number in numbers {
            let (_, at) = self.0.get_mut(number).expect("only who is there is told");
            assert!(!matches!(at, At::Ends { .. }), "{number} is told twice");
            *at = At::Ends {
                speaks: *at == At::Speaks,
            };
        }
    }

    fn speakers(&self) -> usize {
        let speaks = |at: &At| matches!(at, At::Speaks | At::Ends { speaks: true });
        self.0.values().filter(|(_, at)| speaks(at)).count()
    }

    fn waiting(&self) -> usize {
        self.0.values().filter(|(_, at)| *at == At::Waits).count()
    }

    fn leave(&mut self, floor: &mut Floor<u64>, number: u64) {
        let (_, at) = self.0.remove(&number).expect("it is there");
        let next = floor.leave(number);
        let had_floor = matches!(at, At::Speaks | At::Ends { speaks: true });
        assert_eq!(next.is_some(), had_floor && self.waiting() > 0);
        let Some(next) = next else { return };
        let (priority, at) = self.0.get(&next).copied().expect("it is there");
        assert_eq!(at, At::Waits);
        for (other, (theirs, at)) in &self.0 {
            let first = *theirs < priority || (*theirs == priority && *other >= next);
            assert!(*at != At::Waits || first, "{other} goes before {next}");
        }
        self.0.insert(next, (priority, At::Speaks));
    }
}

proptest! {
    #[test]
    fn one_speaks_each_is_told_once_and_nobody_is_forgotten(steps in steps()) {
        let mut floor = Floor::default();
        let mut believed = Believed::default();
        for (number, step) in (0_u64..).zip(steps) {
            match step {
                Step::Arrive(priority, supersede) => {
                    match arrive(&mut floor, number, priority, supersede) {
                        Ok(came) => {
                            believed.end(&came.superseded);
                            let at = if came.ahead.is_none() { At::Speaks } else { At::Waits };
                            believed.0.insert(number, (priority, at));
                        }
                        Err(Full) => prop_assert!(believed.waiting() >= MOST),
                    }
                }
                Step::Leave(which) => {
                    let there: Vec<u64> = believed.0.keys().copied().collect();
                    if let Some(number) = there.get(which) {
                        believed.leave(&mut floor, *number);
                    }
                }
                Step::EndAll => believed.end(&floor.end_all()),
            }
            prop_assert!(believed.speakers() <= 1);
            prop_assert!(believed.waiting() <= MOST.max(1));
            prop_assert_eq!(floor.is_free(), believed.speakers() == 0);
            prop_assert!(!floor.is_free() || believed.waiting() == 0, "nobody waits for nothing");
        }
        while let Some(number) = believed.0.keys().next().copied() {
            believed.leave(&mut floor, number);
        }
        prop_assert!(floor.is_free());
    }
}
