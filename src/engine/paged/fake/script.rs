//! What the fake model says to what: exact texts for tests of everything above the engine.

use std::sync::Arc;

use crate::tokenizer::{TokenId, Tokenizer};

/// Answers by cue. A prompt that no cue fits is answered with the end token at once.
#[derive(Clone, Debug)]
pub struct Script {
    tokenizer: Arc<Tokenizer>,
    prompt_end: Vec<TokenId>,
    end: TokenId,
    lines: Vec<Line>,
}

#[derive(Clone, Debug)]
struct Line {
    cue: Vec<u8>,
    say: Vec<TokenId>,
}

impl Script {
    /// An empty script. `prompt_end` are the tokens that end every prompt, such as the header of the model's own
    /// message: a cue may then be anywhere before them. Without them a cue must end the prompt. `end` is said after
    /// each answer.
    #[must_use]
    pub fn new(tokenizer: Arc<Tokenizer>, prompt_end: Vec<TokenId>, end: TokenId) -> Self {
        Self {
            tokenizer,
            prompt_end,
            end,
            lines: Vec::new(),
        }
    }

    /// Answers prompts with `cue` by `text`. Of several cues the one that comes last in the prompt counts; the empty
    /// one fits every prompt and yields to all others.
    #[must_use]
    pub fn when(self, cue: &str, text: &str) -> Self {
        let say = self.tokenizer.encode(text);
        self.when_tokens(cue, say)
    }

    /// As [`Script::when`] with exact tokens, for answers that the tokenizer would cut elsewhere.
    #[must_use]
    pub fn when_tokens(mut self, cue: &str, say: Vec<TokenId>) -> Self {
        let cue = cue.as_bytes().to_vec();
        self.lines.push(Line { cue, say });
        self
    }

    /// The token after `context`, which is a prompt and the answer so far.
    pub(super) fn next(&self, context: &[TokenId]) -> TokenId {
        let fitting = self.prompt_lengths(context).filter_map(|prompt| {
            let (prompt, said) = context.split_at(prompt);
            let bytes: Vec<u8> = prompt
                .iter()
                .flat_map(|token| self.tokenizer.token_bytes(*token))
                .copied()
                .collect();
            let lines = self.lines.iter().filter(|line| line.say.starts_with(said));
            let cued = lines.filter_map(|line| Some((self.cue_end(&bytes, &line.cue)?, line)));
            let (_, line) = cued.max_by_key(|(end, line)| (*end, line.cue.len()))?;
            Some(line.say.get(said.len()).copied().unwrap_or(self.end))
        });
        let mut fitting = fitting;
        fitting.next().unwrap_or(self.end)
    }

    /// Where the prompt in `context` may end: at the last `prompt_end` that fits, else anywhere, earliest first.
    fn prompt_lengths(&self, context: &[TokenId]) -> Box<dyn Iterator<Item = usize>> {
        if self.prompt_end.is_empty() {
            return Box::new(1..=context.len());
        }
        let windows = context.windows(self.prompt_end.len()).enumerate();
        let ends: Vec<usize> = windows
            .filter(|(_, window)| *window == self.prompt_end)
            .map(|(start, _)| start + self.prompt_end.len())
            .collect();
        Box::new(ends.into_iter().rev())
    }

    /// Where `cue` last ends in the prompt's bytes, if it is where it must be.
    fn cue_end(&self, prompt: &[u8], cue: &[u8]) -> Option<usize> {
        if cue.is_empty() {
            return Some(0);
        }
        if self.prompt_end.is_empty() {
            return prompt.ends_with(cue).then_some(prompt.len());
        }
        let last = prompt
            .windows(cue.len())
            .rposition(|window| window == cue)?;
        Some(last + cue.len())
    }
}
