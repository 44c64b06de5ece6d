//! Which tokens end a generation, and from where on it may end.

use crate::engine::GenerateRequest;
use crate::tokenizer::{TokenId, Tokenizer};

/// When one sequence ends besides its token limit.
#[derive(Debug, Default)]
pub(super) struct Ending {
    stop_tokens: Vec<TokenId>,
    ignore_eos: bool,
    min_tokens: usize,
}

impl Ending {
    pub(super) fn new(request: &mut GenerateRequest) -> Self {
        Self {
            stop_tokens: std::mem::take(&mut request.stop_token_ids),
            ignore_eos: request.ignore_eos,
            min_tokens: request.min_tokens,
        }
    }

    /// Whether `token` ends the generation without being part of it.
    pub(super) fn ends(&self, token: TokenId, tokenizer: &Tokenizer) -> bool {
        (!self.ignore_eos && tokenizer.is_end(token)) || self.stop_tokens.contains(&token)
    }

    /// Rules the tokens that would end it out while fewer than the least number of tokens, `said`, are there.
    pub(super) fn suppress(&self, said: usize, tokenizer: &Tokenizer, logits: &mut [f32]) {
        if said >= self.min_tokens {
            return;
        }
        let own = match self.ignore_eos {
            true => &[],
            false => tokenizer.end_tokens(),
        };
        for token in own.iter().chain(&self.stop_tokens) {
            if let Some(logit) = logits.get_mut(*token as usize) {
                *logit = f32::NEG_INFINITY;
            }
        }
    }

    /// Whether stop texts are looked for in the text of the `number`th token, counted from 1.
    pub(super) fn searches(&self, number: usize) -> bool {
        number > self.min_tokens
    }
}
