//! From token bytes to text that may be shown: whole characters, and nothing that a stop text could still claim.

use super::logprobs::OutputScores;
use super::stop::StopMatcher;
use crate::engine::TokenEvent;
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
    /// Bytes of text that tokens have made so far.
    made: usize,
    /// Those of them that are final. The end makes all so, but for those that a stop text took.
    released: usize,
    /// How likely its tokens were, where somebody asked.
    scores: Option<Box<OutputScores>>,
}

impl Output {
    /// `logprobs` is the number of most likely tokens to show beside each, if likelihoods are wanted at all.
    pub(super) fn new(stops: Vec<String>, logprobs: Option<usize>) -> Self {
        Self {
            utf8: Utf8Stream::default(),
            stops: StopMatcher::new(stops),
            fresh: String::new(),
            delta: String::new(),
            ended: false,
            made: 0,
            released: 0,
            scores: logprobs.map(|most| Box::new(OutputScores::new(most))),
        }
    }

    /// Adds a token's bytes; `true` when a stop text matched, after which nothing more is said. `search` says whether
    /// stop texts are looked for; once they are, they are until the end.
    pub(super) fn push(&mut self, bytes: &[u8], search: bool) -> bool {
        let before = self.delta.len();
        self.utf8.push(bytes, &mut self.fresh);
        self.made += self.fresh.len();
        if search {
            self.ended = self.stops.push(&self.fresh, &mut self.delta);
        } else {
            self.delta.push_str(&self.fresh);
        }
        self.released += self.delta.len() - before;
        self.fresh.clear();
        if let Some(scores) = &mut self.scores {
            // A character that the token leaves incomplete is its own, too.
            scores.wait(self.made + usize::from(self.utf8.is_inside_character()));
        }
        self.ended
    }

    /// Where likelihoods are noted, if they are wanted.
    pub(super) fn scores(&mut self) -> Option<&mut OutputScores> {
        self.scores.as_deref_mut()
    }

    /// Ends the text and lets go of what was held back for a stop text that did not come.
    pub(super) fn finish(&mut self) {
        if self.ended {
            return;
        }
        self.ended = true;
        self.released = usize::MAX;
        self.utf8.finish(&mut self.fresh);
        if !self.stops.push(&self.fresh, &mut self.delta) {
            self.stops.finish(&mut self.delta);
        }
        self.fresh.clear();
    }

    /// What became final since the last call, if anything did.
    pub(super) fn take_event(&mut self) -> Option<TokenEvent> {
        let scores = self.scores.as_mut();
        let tokens = scores.map(|scores| scores.take(self.released));
        let nothing = self.delta.is_empty() && tokens.as_ref().is_none_or(Vec::is_empty);
        if nothing {
            return None;
        }
        let text = std::mem::take(&mut self.delta);
        Some(match tokens {
            None => TokenEvent::Text(text),
            Some(tokens) => TokenEvent::Scored { text, tokens },
        })
    }
}
