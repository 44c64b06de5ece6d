//! The tokens that every turn's prompt begins with, made resident before the first viewer waits for them.

use super::{RejectionCause, Turns};
use crate::engine::TokenStream;
use crate::harness::Opening;
use crate::template::{Conversation, Message};

/// Viewers' messages that differ from their first word on.
const OPENINGS: [&str; 2] = ["Product", "Please"];

impl Turns {
    /// Pins the KV of the default harness's prompt. The stream ends when it is resident; turns may run before that.
    ///
    /// # Errors
    /// What the template or the engine refuses; turns work all the same, the first one slower.
    pub fn warm(&self) -> Result<TokenStream, RejectionCause> {
        let harness = self.harnesses.live(None)?;
        let Opening { system, tools } = harness.opening(self.habit.calls);
        let [one, other] = OPENINGS.map(|opening| {
            let mut messages = vec![
                Message::new("system", system.trim()),
                Message::new("user", opening),
            ];
            messages.retain(|message| !message.content.is_empty());
            self.model.template.render_conversation(&Conversation {
                messages: &messages,
                tools: &tools,
                variables: None,
            })
        });
        let (mut tokens, other) = (one?.tokens, other?.tokens);
        let shared = tokens.iter().zip(&other).take_while(|(a, b)| a == b);
        let shared = shared.count();
        tokens.truncate(shared);
        Ok(self.model.engine.pin(tokens)?.ready)
    }
}
