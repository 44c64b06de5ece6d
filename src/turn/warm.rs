//! The tokens that every turn's prompt begins with, made resident before the first viewer waits for them.

use super::{RejectionCause, Turns};
use crate::engine::TokenStream;
use crate::template::Message;

/// Ends of a system message that differ from their first word on, as a product's lines do.
const ENDS: [&str; 2] = ["Product", "Facts"];

impl Turns {
    /// Pins the KV of the persona's prompt. The stream ends when it is resident; turns may run before that.
    ///
    /// # Errors
    /// What the template or the engine refuses; turns work all the same, the first one slower.
    pub fn warm(&self) -> Result<TokenStream, RejectionCause> {
        let [one, other] = ENDS.map(|end| {
            let content = format!("{}\n\n{end}", self.persona.trim());
            let role = "system".to_owned();
            self.model.template.render(&[Message { role, content }])
        });
        let (mut tokens, other) = (one?.tokens, other?.tokens);
        let shared = tokens.iter().zip(&other).take_while(|(a, b)| a == b);
        let shared = shared.count();
        tokens.truncate(shared);
        Ok(self.model.engine.pin(tokens)?.ready)
    }
}
