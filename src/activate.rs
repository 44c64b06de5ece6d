//! Makes a loaded harness live: what its tools need is there, its prompt fits, and the tokens that every turn's prompt
//! begins with are computed behind everybody else's work and kept, before the first viewer meets them. So the first
//! answer after a swap is as fast as the last one before it.

use std::sync::{Arc, OnceLock, Weak};
use std::time::{Duration, Instant};

use crate::engine::{Engine, FinishReason, PinId, SubmitError, TokenEvent, TokenId, TokenStream};
use crate::harness::registry::Activation;
use crate::harness::{Activate, Calls, Harness, Warm};
use crate::telemetry::events::{HarnessWarm, SectionTokens};
use crate::template::{ChatTemplate, Conversation, Message, TemplateError};

/// How often a prefix that found no room among the pins asks again.
const RETRY: Duration = Duration::from_millis(500);
/// Fewest tokens that the context must leave for facts, comments and the answer.
const ROOM: usize = 64;
/// What may follow the shared part: more of the system message, or the end of it and viewers' messages that differ from
/// their first character on.
const CONTINUATIONS: [(&str, &str); 3] = [("", "Product"), ("", "please"), ("\n\n1", "please")];

/// What a harness's tools need and this server does not have; empty where all is there.
pub type Demands = Box<dyn Fn(&Harness) -> Vec<String> + Send + Sync>;

/// Makes harnesses ready for one model.
pub struct Activator {
    engine: Arc<dyn Engine>,
    template: Arc<ChatTemplate>,
    calls: Calls,
    demands: Demands,
}

/// The prompt of a harness as this model sees it.
struct Measured {
    sections: Vec<SectionTokens>,
    /// Tokens that every turn's prompt begins with.
    prefix: Vec<TokenId>,
}

impl Activator {
    /// Harnesses whose `demands` are met are made ready for the model that `engine` runs and `template` belongs to, and
    /// that is told of tools as `calls` says.
    #[must_use]
    pub fn new(
        engine: Arc<dyn Engine>,
        template: Arc<ChatTemplate>,
        calls: Calls,
        demands: Demands,
    ) -> Self {
        Self {
            engine,
            template,
            calls,
            demands,
        }
    }

    async fn ready(&self, harness: Arc<Harness>) -> Result<Warm, String> {
        let start = Instant::now();
        let missing = (self.demands)(&harness);
        if !missing.is_empty() {
            return Err(missing.join("; "));
        }
        let Measured {
            sections,
            mut prefix,
        } = self.measure(Arc::clone(&harness)).await?;
        let limits = self.engine.limits();
        if prefix.len() + ROOM > limits.max_sequence_tokens {
            return Err(format!(
                "every prompt begins with {} tokens, and a sequence may have {}; \
                 raise model.max_context, or model.kv_cache_mb where that is what bounds it",
                prefix.len(),
                limits.max_sequence_tokens
            ));
        }
        // Only whole blocks are shared.
        prefix.truncate(prefix.len() / limits.block_tokens * limits.block_tokens);
        let prefix_tokens = prefix.len();
        let kept = self.keep(prefix).await?;
        HarnessWarm {
            harness: &harness.name,
            version: &harness.version.short(),
            sections: &sections,
            prefix_tokens,
            pinned: kept.is_pinned(),
            took: start.elapsed(),
        }
        .emit();
        Ok(Box::new(kept))
    }

    async fn measure(&self, harness: Arc<Harness>) -> Result<Measured, String> {
        let (template, calls) = (Arc::clone(&self.template), self.calls);
        // A large prompt takes a while, and the threads that serve have other things to do.
        let measured = tokio::task::spawn_blocking(move || {
            let tokenizer = template.tokenizer();
            let count = |text: &str| tokenizer.encode(text).len();
            let sections = harness.system.iter().map(|section| SectionTokens {
                section: section.kind.word(),
                tokens: count(&section.text),
            });
            let sections = sections.collect();
            prefix(&template, &harness, calls).map(|prefix| Measured { sections, prefix })
        });
        let measured = measured.await.map_err(|error| error.to_string())?;
        measured.map_err(|error| error.to_string())
    }

    /// Computes the prefix and pins it, or leaves it to the cache until there is room among the pins.
    async fn keep(&self, prefix: Vec<TokenId>) -> Result<Arc<Prefix>, String> {
        let kept = Arc::new(Prefix {
            engine: Arc::clone(&self.engine),
            tokens: prefix,
            pin: OnceLock::new(),
        });
        if kept.tokens.is_empty() {
            return Ok(kept);
        }
        match kept.claim() {
            Ok(ready) => arrived(ready).await?,
            Err(SubmitError::Invalid { field: "pin", .. }) => {
                match self.engine.warm(kept.tokens.clone()) {
                    Ok(ready) => arrived(ready).await?,
                    Err(SubmitError::Invalid { field: "warm", .. }) => {}
                    Err(error) => return Err(error.to_string()),
                }
                tokio::spawn(pin_later(Arc::downgrade(&kept)));
            }
            Err(error) => return Err(error.to_string()),
        }
        Ok(kept)
    }
}

impl Activate for Activator {
    fn activate(&self, harness: Arc<Harness>) -> Activation<'_> {
        Box::pin(self.ready(harness))
    }
}

/// The tokens that every turn's prompt begins with, whatever is asked: the system prompt, rendered as turns render it,
/// up to where prompts begin to differ.
///
/// # Errors
/// What the model's template makes of it.
pub fn prefix(
    template: &ChatTemplate,
    harness: &Harness,
    calls: Calls,
) -> Result<Vec<TokenId>, TemplateError> {
    let opening = harness.opening(calls);
    let mut shared: Option<Vec<TokenId>> = None;
    for (more, user) in CONTINUATIONS {
        let mut messages = vec![
            Message::new("system", format!("{}{more}", opening.system).trim()),
            Message::new("user", user),
        ];
        messages.retain(|message| !message.content.is_empty());
        let prompt = template.render_conversation(&Conversation {
            messages: &messages,
            tools: &opening.tools,
            variables: None,
        })?;
        match &mut shared {
            None => shared = Some(prompt.tokens),
            Some(shared) => {
                let same = shared.iter().zip(&prompt.tokens);
                let same = same.take_while(|(one, other)| one == other).count();
                shared.truncate(same);
            }
        }
    }
    Ok(shared.unwrap_or_default())
}

/// A prefix that is kept for a harness. Dropping it, after the harness's last turn, lets go of its pin.
struct Prefix {
    engine: Arc<dyn Engine>,
    tokens: Vec<TokenId>,
    pin: OnceLock<PinId>,
}

impl Prefix {
    fn is_pinned(&self) -> bool {
        self.pin.get().is_some()
    }

    /// Takes a pin; the stream ends when the prefix is there.
    fn claim(&self) -> Result<TokenStream, SubmitError> {
        let ticket = self.engine.pin(self.tokens.clone())?;
        // Only one task at a time holds a prefix without a pin.
        let _ = self.pin.set(ticket.id);
        Ok(ticket.ready)
    }
}

impl Drop for Prefix {
    fn drop(&mut self) {
        if let Some(pin) = self.pin.get() {
            self.engine.unpin(*pin);
        }
    }
}

/// Pins a prefix once the pins before it, such as that of the version before, have let go.
async fn pin_later(prefix: Weak<Prefix>) {
    loop {
        tokio::time::sleep(RETRY).await;
        let Some(prefix) = prefix.upgrade() else {
            return;
        };
        match prefix.claim() {
            Ok(ready) => {
                if let Err(error) = arrived(ready).await {
                    tracing::warn!(error, "a harness's prefix could not be pinned");
                }
                return;
            }
            Err(SubmitError::Invalid { field: "pin", .. } | SubmitError::QueueFull { .. }) => {}
            Err(_) => return,
        }
    }
}

async fn arrived(mut ready: TokenStream) -> Result<(), String> {
    while let Some(event) = ready.next().await {
        if let TokenEvent::Finished(finish) = event
            && let FinishReason::Error(reason) = finish.reason
        {
            return Err(reason);
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests;
