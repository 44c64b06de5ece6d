//! Finds stop texts in a stream of text and holds back what may still become one.

#[cfg(test)]
mod tests;

/// Looks for several stop texts at once.
///
/// The text counts as coming character by character: the first stop text that is complete wins, the longest of those
/// that end there. So the cut does not depend on how the text was split into pieces.
#[derive(Debug)]
pub(super) struct StopMatcher {
    stops: Vec<String>,
    /// The end of the text that begins some stop text.
    held: String,
}

impl StopMatcher {
    /// `stops` holds no empty text.
    pub(super) fn new(stops: Vec<String>) -> Self {
        Self {
            stops,
            held: String::new(),
        }
    }

    /// Adds `text` and appends to `out` what no stop text can claim any more. `true` when a stop text is complete: it
    /// and what follows are dropped.
    pub(super) fn push(&mut self, text: &str, out: &mut String) -> bool {
        if self.stops.is_empty() {
            out.push_str(text);
            return false;
        }
        for character in text.chars() {
            self.held.push(character);
            if let Some(stop) = self.complete() {
                out.push_str(&self.held[..self.held.len() - stop]);
                self.held.clear();
                return true;
            }
            let safe = self.held.len() - self.partial();
            out.extend(self.held.drain(..safe));
        }
        false
    }

    /// Appends what was held back: the text ends here.
    pub(super) fn finish(&mut self, out: &mut String) {
        out.push_str(&self.held);
        self.held.clear();
    }

    /// Length of the longest stop text that `held` ends with.
    fn complete(&self) -> Option<usize> {
        let matching = self
            .stops
            .iter()
            .filter(|stop| self.held.ends_with(stop.as_str()));
        matching.map(String::len).max()
    }

    /// Length of the longest end of `held` that begins a stop text.
    fn partial(&self) -> usize {
        let starts = self.held.char_indices().map(|(at, _)| at);
        let mut ends = starts.map(|at| &self.held[at..]);
        ends.find(|end| self.stops.iter().any(|stop| stop.starts_with(end)))
            .map_or(0, str::len)
    }
}
