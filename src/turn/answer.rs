//! What a turn says: the model's text in clauses, up to the length limit.

use super::segment::{Clause, Segmenter};

/// Characters beyond the limit after which a first clause that found no end is given up.
const UNDECIDED_CHARS: usize = 60;

/// The answer so far. What its methods give is to be spoken, in order.
pub(super) struct Answer {
    segmenter: Segmenter,
    max_chars: usize,
    clauses: usize,
    chars: usize,
    /// A clause did not fit: nothing more is spoken.
    full: bool,
}

impl Answer {
    /// An empty answer of at most `max_chars` characters; spaces at the end do not count.
    pub(super) fn new(max_chars: usize) -> Self {
        Self {
            segmenter: Segmenter::new(max_chars),
            max_chars,
            clauses: 0,
            chars: 0,
            full: false,
        }
    }

    /// Adds what the model wrote.
    pub(super) fn push(&mut self, text: &str) -> Vec<Clause> {
        let clauses = self.segmenter.push(text);
        self.fit(clauses)
    }

    /// The model has been silent for a while.
    pub(super) fn flush_quiet(&mut self) -> Vec<Clause> {
        let clauses = self.segmenter.flush_quiet();
        self.fit(clauses)
    }

    /// The model has ended the answer.
    pub(super) fn finish(&mut self) -> Vec<Clause> {
        let clauses = self.segmenter.finish();
        self.fit(clauses)
    }

    /// The answer is cut here, at its last whole clause.
    pub(super) fn cut_short(&mut self) -> Vec<Clause> {
        let clauses = self.segmenter.cut_short();
        self.fit(clauses)
    }

    /// Whether no further whole clause can fit.
    pub(super) fn is_full(&self) -> bool {
        // A first clause that is not decided yet may still be cut to fit.
        let decided = self.clauses > 0 || self.segmenter.has_cut();
        let slack = if decided { 0 } else { UNDECIDED_CHARS };
        self.full || self.chars + self.segmenter.pending_chars() > self.max_chars + slack
    }

    /// Whether a clause was left out because it did not fit.
    pub(super) fn is_shortened(&self) -> bool {
        self.full
    }

    /// Whether nothing was spoken.
    pub(super) fn is_silent(&self) -> bool {
        self.clauses == 0
    }

    /// From here on at most `chars` more characters.
    pub(super) fn limit_to(&mut self, chars: usize) {
        self.max_chars = self.max_chars.min(self.chars + chars);
    }

    /// The clauses that fit; the first that does not ends the answer.
    fn fit(&mut self, mut clauses: Vec<Clause>) -> Vec<Clause> {
        let fitting = clauses.iter().take_while(|clause| {
            let spaces = clause.text.trim_end().len();
            let chars = self.chars + clause.text[..spaces].chars().count();
            self.full |= chars > self.max_chars;
            if !self.full {
                self.chars += clause.text.chars().count();
                self.clauses += 1;
            }
            !self.full
        });
        let fitting = fitting.count();
        clauses.truncate(fitting);
        clauses
    }
}
