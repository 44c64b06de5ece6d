//! From token bytes to text that may be shown: whole characters, and nothing that a stop text could still claim.

use super::stop::StopMatcher;
use crate::tokenizer::Utf8Stream;

/// The text side of one sequence.
#[derive(Debug)]
pub(super) struct Output {
    utf8: Utf8Stream,
    stops: StopMatcher,
    /// Characters on their way from `utf8` to `stops`; empty between calls.
    fresh: String,
    delta: String,
    ended: bool,
}

impl Output {
    pub(super) fn new(stops: Vec<String>) -> Self {
        Self {
            utf8: Utf8Stream::default(),
            stops: StopMatcher::new(stops),
            fresh: String::new(),
            delta: String::new(),
            ended: false,
        }
    }

    /// Adds a token's bytes; `true` when a stop text matched, after which nothing more is said.
    pub(super) fn push(&mut self, bytes: &[u8]) -> bool {
        self.utf8.push(bytes, &mut self.fresh);
        self.ended = self.stops.push(&self.fresh, &mut self.delta);
        self.fresh.clear();
        self.ended
    }

    /// Ends the text and lets go of what was held back for a stop text that did not come.
    pub(super) fn finish(&mut self) {
        if self.ended {
            return;
        }
        self.ended = true;
        self.utf8.finish(&mut self.fresh);
        if !self.stops.push(&self.fresh, &mut self.delta) {
            self.stops.finish(&mut self.delta);
        }
        self.fresh.clear();
    }

    /// The text since the last call that is final, if any.
    pub(super) fn take_delta(&mut self) -> Option<String> {
        (!self.delta.is_empty()).then(|| std::mem::take(&mut self.delta))
    }
}
