//! The alternatives of one request: sequences over the same prompt, of which the first computes it for all.

use std::sync::{Arc, Weak};

/// One sequence's place among its request's alternatives.
///
/// The others wait until the first has the prompt's KV, or is gone: then they find its full blocks in the prefix cache,
/// where side by side each of them would compute the whole prompt.
#[derive(Debug, Default)]
pub(super) struct Choice {
    index: u64,
    /// The first choice's, until it has computed the prompt.
    computing: Option<Arc<()>>,
    /// Another choice's view of that.
    first: Weak<()>,
}

impl Choice {
    /// The places of `n` alternatives, the first one first.
    pub(super) fn family(n: usize) -> impl Iterator<Item = Self> {
        let mut computing = (n > 1).then(|| Arc::new(()));
        let first = computing.as_ref().map(Arc::downgrade).unwrap_or_default();
        (0..n as u64).map(move |index| Self {
            index,
            computing: computing.take(),
            first: match index {
                0 => Weak::new(),
                _ => first.clone(),
            },
        })
    }

    /// Part of what seeds its draws.
    pub(super) fn index(&self) -> u64 {
        self.index
    }

    /// Whether what the request takes once, such as its prompt, is counted here.
    pub(super) fn is_first(&self) -> bool {
        self.index == 0
    }

    /// Whether it waits for the first choice.
    pub(super) fn is_held(&self) -> bool {
        self.first.strong_count() > 0
    }

    /// The prompt is computed; it is called again without effect.
    pub(super) fn release_others(&mut self) {
        self.computing = None;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_others_wait_for_the_first_or_its_end() {
        for first_ends in [false, true] {
            let mut family: Vec<_> = Choice::family(3).collect();
            let held = |family: &[Choice]| family.iter().filter(|choice| choice.is_held()).count();
            assert_eq!(held(&family), 2);
            if first_ends {
                family.remove(0);
            } else {
                family[0].release_others();
            }
            assert_eq!(held(&family), 0);
        }
        assert!(Choice::family(1).all(|choice| choice.is_first() && !choice.is_held()));
    }
}
