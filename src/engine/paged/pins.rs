//! Which prefixes are pinned, shared between callers and the engine thread without a lock.

use super::threads::{AtomicU64, AtomicUsize, Ordering, PINS};
use crate::engine::PinId;

/// A slot is `FREE`, or holds twice a pin's id, plus 1 once its caller gave it back.
const FREE: u64 = 0;

/// The live pins and the budget of blocks that they share.
#[derive(Debug)]
pub(super) struct Pins {
    slots: [AtomicU64; PINS],
    next: AtomicU64,
    blocks_left: AtomicUsize,
}

impl Pins {
    /// `blocks` is what all pins may hold together.
    pub(super) fn new(blocks: usize) -> Self {
        Self {
            slots: std::array::from_fn(|_| AtomicU64::new(FREE)),
            next: AtomicU64::new(1),
            blocks_left: AtomicUsize::new(blocks),
        }
    }

    /// Takes `blocks` of the budget for a new pin; the error says what is missing.
    pub(super) fn claim(&self, blocks: usize) -> Result<PinId, String> {
        let take = |left: usize| left.checked_sub(blocks);
        let taken = self
            .blocks_left
            .fetch_update(Ordering::AcqRel, Ordering::Acquire, take);
        if let Err(left) = taken {
            return Err(format!(
                "pinning needs {blocks} KV blocks, and {left} of the pins' budget are left"
            ));
        }
        let id = self.next.fetch_add(1, Ordering::Relaxed);
        let free = |slot: &&AtomicU64| {
            let claimed = slot.compare_exchange(FREE, id * 2, Ordering::AcqRel, Ordering::Acquire);
            claimed.is_ok()
        };
        if self.slots.iter().find(free).is_none() {
            self.blocks_left.fetch_add(blocks, Ordering::AcqRel);
            return Err(format!("all {PINS} pins are taken"));
        }
        Ok(PinId(id))
    }

    /// Asks the engine to end a pin; what is no live pin is ignored.
    pub(super) fn give_back(&self, pin: PinId) {
        let Some(held) = pin.0.checked_mul(2).filter(|held| *held != FREE) else {
            return;
        };
        for slot in &self.slots {
            let change = slot.compare_exchange(held, held + 1, Ordering::AcqRel, Ordering::Acquire);
            if change.is_ok() {
                return;
            }
        }
    }

    /// Pins that their callers gave back and that still exist.
    pub(super) fn given_back(&self) -> impl Iterator<Item = PinId> {
        let states = self.slots.iter().map(|slot| slot.load(Ordering::Acquire));
        states
            .filter(|state| state % 2 == 1)
            .map(|state| PinId(state / 2))
    }

    /// Ends a pin and returns its `blocks` to the budget.
    pub(super) fn free(&self, pin: PinId, blocks: usize) {
        for slot in &self.slots {
            if slot.load(Ordering::Acquire) / 2 == pin.0 {
                slot.store(FREE, Ordering::Release);
                self.blocks_left.fetch_add(blocks, Ordering::AcqRel);
                return;
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn budget_is_spent_and_returned_exactly() {
        let pins = Pins::new(10);
        let first = pins.claim(6).unwrap();
        assert!(
            pins.claim(5)
                .unwrap_err()
                .contains("needs 5 KV blocks, and 4")
        );
        let second = pins.claim(4).unwrap();
        pins.free(first, 6);
        pins.free(first, 6);
        let third = pins.claim(6).unwrap();
        assert!(pins.claim(1).is_err());
        assert_ne!(second, third);
    }

    #[test]
    fn only_live_pins_are_given_back_and_only_once() {
        let pins = Pins::new(10);
        let pin = pins.claim(1).unwrap();
        for unknown in [PinId(0), PinId(pin.0 + 1), PinId(u64::MAX)] {
            pins.give_back(unknown);
            assert_eq!(pins.given_back().count(), 0);
        }
        pins.give_back(pin);
        pins.give_back(pin);
        assert_eq!(pins.given_back().collect::<Vec<_>>(), [pin]);
        pins.free(pin, 1);
        pins.give_back(pin);
        assert_eq!(pins.given_back().count(), 0);
    }

    #[test]
    fn pins_are_bounded_in_number() {
        let pins = Pins::new(1000);
        for _ in 0..PINS {
            pins.claim(1).unwrap();
        }
        assert!(pins.claim(1).unwrap_err().contains("all 64 pins"));
    }
}
