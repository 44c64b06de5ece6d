//! The sequences that wait, in the order of service. No operation looks at more than a few of them, however many wait.

use std::cmp::Reverse;
use std::collections::{BTreeMap, BTreeSet};
use std::time::Instant;

use super::order::{CLASSES, Policy, Rank};
use super::sequence::Sequence;

/// Most sequences whose readers are looked after in one step; a longer queue takes several steps to go round.
const SWEEP: usize = 256;

/// Waiting sequences by serial number, and the orders in which they are wanted.
#[derive(Debug)]
pub(super) struct Queue {
    policy: Policy,
    entries: BTreeMap<u64, Entry>,
    /// By class: when due, and who.
    order: [BTreeSet<(Instant, u64)>; CLASSES],
    /// Those that may not be served yet.
    held: BTreeSet<u64>,
    /// Where the next look at them begins.
    held_from: u64,
    /// When a class rises next.
    rises: BTreeSet<(Instant, u64)>,
    deadlines: BTreeSet<(Instant, u64)>,
    /// Where the next sweep begins.
    sweep: u64,
    /// Entries looked at since it was last set to zero.
    #[cfg(test)]
    pub(super) touched: usize,
}

#[derive(Debug)]
struct Entry {
    sequence: Sequence,
    /// The class that it is filed under.
    class: usize,
    rises_at: Option<Instant>,
    /// Whether it is filed among those that may not be served yet.
    held: bool,
}

impl Queue {
    pub(super) fn new(policy: Policy) -> Self {
        Self {
            policy,
            entries: BTreeMap::new(),
            order: Default::default(),
            held: BTreeSet::new(),
            held_from: 0,
            rises: BTreeSet::new(),
            deadlines: BTreeSet::new(),
            sweep: 0,
            #[cfg(test)]
            touched: 0,
        }
    }

    pub(super) fn is_empty(&self) -> bool {
        self.entries.is_empty()
    }

    pub(super) fn len(&self) -> usize {
        self.entries.len()
    }

    pub(super) fn iter(&self) -> impl Iterator<Item = &Sequence> {
        self.entries.values().map(|entry| &entry.sequence)
    }

    pub(super) fn insert(&mut self, sequence: Sequence, now: Instant) {
        let serial = sequence.serial;
        if let Some(deadline) = sequence.deadline {
            self.deadlines.insert((deadline, serial));
        }
        let mut entry = Entry {
            sequence,
            class: 0,
            rises_at: None,
            held: false,
        };
        self.file(&mut entry, now);
        self.entries.insert(serial, entry);
        self.touch();
    }

    /// Raises those who waited long enough. What comes first is right as of then.
    pub(super) fn advance(&mut self, now: Instant) {
        self.release(now);
        while let Some(&(at, serial)) = self.rises.first()
            && at <= now
        {
            self.rises.remove(&(at, serial));
            let Some(mut entry) = self.entries.remove(&serial) else {
                continue;
            };
            let due = self.policy.due(&entry.sequence);
            self.order[entry.class].remove(&(due, serial));
            self.file(&mut entry, now);
            self.entries.insert(serial, entry);
            self.touch();
        }
    }

    /// Files some of those that may be served now: within a few steps all.
    fn release(&mut self, now: Instant) {
        let (before, after) = (..self.held_from, self.held_from..);
        let round = self.held.range(after).chain(self.held.range(before));
        let looked_at: Vec<u64> = round.take(SWEEP).copied().collect();
        self.touch_many(looked_at.len());
        for serial in looked_at {
            self.held_from = serial + 1;
            let still = |entry: &Entry| entry.sequence.is_held();
            if self.entries.get(&serial).is_none_or(still) {
                continue;
            }
            if let Some(mut entry) = self.entries.remove(&serial) {
                self.held.remove(&serial);
                self.file(&mut entry, now);
                self.entries.insert(serial, entry);
            }
        }
    }

    /// Who is served first.
    pub(super) fn first(&self) -> Option<Rank> {
        let classes = self.order.iter().enumerate().rev();
        let mut best = classes.filter_map(|(class, order)| {
            let &(due, serial) = order.first()?;
            let class = Reverse(class);
            Some(Rank { class, due, serial })
        });
        best.next()
    }

    pub(super) fn get(&self, serial: u64) -> Option<&Sequence> {
        self.entries.get(&serial).map(|entry| &entry.sequence)
    }

    pub(super) fn take(&mut self, serial: u64) -> Option<Sequence> {
        let entry = self.entries.remove(&serial)?;
        self.touch();
        let due = self.policy.due(&entry.sequence);
        self.order[entry.class].remove(&(due, serial));
        self.held.remove(&serial);
        if let Some(at) = entry.rises_at {
            self.rises.remove(&(at, serial));
        }
        if let Some(deadline) = entry.sequence.deadline {
            self.deadlines.remove(&(deadline, serial));
        }
        Some(entry.sequence)
    }

    /// Takes out those whose deadline has passed, and some of those whose reader is gone: within a few steps all.
    pub(super) fn take_late(&mut self, now: Instant, late: &mut Vec<Sequence>) {
        let first_new = late.len();
        while let Some(&(deadline, serial)) = self.deadlines.first()
            && deadline <= now
        {
            self.deadlines.remove(&(deadline, serial));
            late.extend(self.take(serial));
        }
        let mut looked_at = 0;
        let mut gone = Vec::new();
        let (before, after) = (..self.sweep, self.sweep..);
        let round = self.entries.range(after).chain(self.entries.range(before));
        for (serial, entry) in round.take(SWEEP) {
            looked_at += 1;
            self.sweep = serial + 1;
            if entry.sequence.is_abandoned() {
                gone.push(*serial);
            }
        }
        self.touch_many(looked_at);
        for serial in gone {
            late.extend(self.take(serial));
        }
        for sequence in &mut late[first_new..] {
            sequence.expire(now);
        }
    }

    /// Takes out everybody.
    pub(super) fn take_all(&mut self, all: &mut Vec<Sequence>) {
        let entries = std::mem::take(&mut self.entries).into_values();
        all.extend(entries.map(|entry| entry.sequence));
        *self = Self::new(self.policy);
    }

    /// Puts an entry into the orders.
    fn file(&mut self, entry: &mut Entry, now: Instant) {
        let serial = entry.sequence.serial;
        entry.held = entry.sequence.is_held();
        if entry.held {
            self.held.insert(serial);
            return;
        }
        entry.class = self.policy.class(&entry.sequence, now);
        entry.rises_at = self.policy.rises_at(&entry.sequence, now);
        let due = self.policy.due(&entry.sequence);
        self.order[entry.class].insert((due, serial));
        if let Some(at) = entry.rises_at {
            self.rises.insert((at, serial));
        }
    }

    fn touch(&mut self) {
        self.touch_many(1);
    }

    fn touch_many(&mut self, _entries: usize) {
        #[cfg(test)]
        {
            self.touched += _entries;
        }
    }

    /// Panics unless the orders hold exactly the entries, each where it belongs.
    #[cfg(test)]
    pub(super) fn check(&self) {
        let filed: usize = self.order.iter().map(BTreeSet::len).sum();
        assert_eq!(filed + self.held.len(), self.entries.len());
        let (mut rising, mut dated) = (0, 0);
        for (serial, entry) in &self.entries {
            assert_eq!(*serial, entry.sequence.serial);
            assert!(entry.sequence.table.blocks().is_empty());
            let due = self.policy.due(&entry.sequence);
            assert_eq!(self.held.contains(serial), entry.held);
            assert!(entry.held || self.order[entry.class].contains(&(due, *serial)));
            rising += usize::from(entry.rises_at.is_some());
            dated += usize::from(entry.sequence.deadline.is_some());
        }
        assert_eq!((self.rises.len(), self.deadlines.len()), (rising, dated));
    }
}
