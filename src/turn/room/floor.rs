//! Who speaks in one room and who waits: plain state, without time, tasks or tokens.

use crate::engine::Priority;

/// Which turns a new one ends.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Supersede {
    /// None: it waits for its turn.
    #[default]
    None,
    /// Those of lower priority.
    Lower,
    /// Every other.
    All,
}

/// A turn in a room; `T` is what its owner needs to reach it.
#[derive(Clone, Debug)]
struct Turn<T> {
    number: u64,
    priority: Priority,
    /// It was told to end, and has not left yet.
    ending: bool,
    card: T,
}

/// The room's floor: at most one turn has it, the others wait in order of priority, then arrival.
#[derive(Clone, Debug)]
pub(super) struct Floor<T> {
    speaking: Option<Turn<T>>,
    waiting: Vec<Turn<T>>,
}

/// The queue of a room is full.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Full;

/// What became of a turn that came.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Arrival<T> {
    /// `None` when it has the floor; else how many turns go first, without those that were told to end.
    pub(super) ahead: Option<usize>,
    /// Turns that are to end now. Those that waited have left the queue.
    pub(super) superseded: Vec<T>,
}

impl<T> Default for Floor<T> {
    fn default() -> Self {
        Self {
            speaking: None,
            waiting: Vec::new(),
        }
    }
}

impl<T: Clone> Floor<T> {
    /// Takes a turn in; at most `most_waiting` wait afterwards, the one that follows a turn which was told to end not
    /// among them.
    pub(super) fn arrive(
        &mut self,
        (number, priority): (u64, Priority),
        card: T,
        supersede: Supersede,
        most_waiting: usize,
    ) -> Result<Arrival<T>, Full> {
        let ends = |turn: &Turn<T>| match supersede {
            Supersede::None => false,
            Supersede::Lower => turn.priority < priority,
            Supersede::All => true,
        };
        let stay = self.waiting.iter().filter(|turn| !ends(turn)).count();
        let follows_at_once = stay == 0
            && self
                .speaking
                .as_ref()
                .is_none_or(|turn| turn.ending || ends(turn));
        if stay >= most_waiting && !follows_at_once {
            return Err(Full);
        }
        let mut superseded = Vec::new();
        if let Some(turn) = self.speaking.as_mut().filter(|turn| ends(turn)) {
            if !turn.ending {
                superseded.push(turn.card.clone());
            }
            turn.ending = true;
        }
        self.waiting.retain(|turn| {
            let ends = ends(turn);
            if ends {
                superseded.push(turn.card.clone());
            }
            !ends
        });
        let turn = Turn {
            number,
            priority,
            ending: false,
            card,
        };
        let Some(speaking) = &self.speaking else {
            self.speaking = Some(turn);
            return Ok(Arrival {
                ahead: None,
                superseded,
            });
        };
        let place = self
            .waiting
            .partition_point(|other| other.priority >= priority);
        let ahead = place + usize::from(!speaking.ending);
        self.waiting.insert(place, turn);
        Ok(Arrival {
            ahead: Some(ahead),
            superseded,
        })
    }

    /// Lets a turn go, whether it speaks, waits or was superseded; gives the turn that has the floor through that.
    pub(super) fn leave(&mut self, number: u64) -> Option<T> {
        if self
            .speaking
            .as_ref()
            .is_some_and(|turn| turn.number == number)
        {
            self.speaking = (!self.waiting.is_empty()).then(|| self.waiting.remove(0));
            return self.speaking.as_ref().map(|turn| turn.card.clone());
        }
        self.waiting.retain(|turn| turn.number != number);
        None
    }

    /// Tells every turn to end and empties the queue; gives those that were not told before.
    pub(super) fn end_all(&mut self) -> Vec<T> {
        let mut told = Vec::new();
        if let Some(turn) = self.speaking.as_mut().filter(|turn| !turn.ending) {
            turn.ending = true;
            told.push(turn.card.clone());
        }
        told.extend(self.waiting.drain(..).map(|turn| turn.card));
        told
    }

    /// Whether nobody speaks; then nobody waits either.
    pub(super) fn is_free(&self) -> bool {
        self.speaking.is_none()
    }
}

#[cfg(test)]
#[path = "floor_tests.rs"]
mod tests;
