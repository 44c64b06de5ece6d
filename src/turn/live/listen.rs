//! Listens to one generation: takes apart what the model writes, and says what is to be said as it comes.

use tokio::time::{Instant, sleep_until};

use super::{End, Live};
use crate::engine::{Finish, FinishReason, TokenEvent};
use crate::tools::Call;
use crate::turn::output::OutputEvent;

impl Live {
    /// Speaks until the generation ends, or has to.
    pub(super) async fn listen(&mut self) -> End {
        let mut quiet_at = None;
        loop {
            let cut_at = self.clock.cut_at;
            let Some(generation) = &mut self.round.generation else {
                return End::Enough;
            };
            let event = tokio::select! {
                biased;
                () = self.events.unheard() => return End::Abandoned,
                stop = self.entry.stopped() => return End::Stopped(stop),
                () = sleep_until(cut_at) => return End::Deadline,
                event = generation.tokens.next() => event,
                () = sleep_until(quiet_at.unwrap_or(cut_at)), if quiet_at.is_some() => {
                    quiet_at = None;
                    let clauses = self.answer.flush_quiet();
                    self.say(clauses, false);
                    if self.told.blocked {
                        return End::Blocked;
                    }
                    continue;
                }
            };
            match event {
                // A turn asks for no likelihoods; their text is text all the same.
                Some(TokenEvent::Prompt(_)) => {}
                Some(TokenEvent::Text(text) | TokenEvent::Scored { text, .. }) => {
                    self.round.written.push_str(&text);
                    let Some(output) = &mut self.round.output else {
                        return End::Enough;
                    };
                    let events = output.push(&text);
                    if let Err(end) = self.take(events) {
                        return end;
                    }
                    quiet_at = Some(Instant::now() + self.config.quiet());
                }
                Some(TokenEvent::Finished(finish)) => return self.finished(finish),
                None => unreachable!("a token stream ends with Finished, and that returns"),
            }
            if self.answer.is_full() && self.round.calls.is_empty() {
                return End::Full;
            }
        }
    }

    fn finished(&mut self, finish: Finish) -> End {
        let whole = matches!(finish.reason, FinishReason::Stop | FinishReason::Length);
        let output = self.round.output.take().filter(|_| whole);
        let events = output.map(|output| output.finish()).unwrap_or_default();
        match self.take(events) {
            Err(End::Unusable(_)) => End::Unusable(Some(finish)),
            Err(end) => end,
            Ok(()) if self.round.calls.is_empty() || !whole => End::Engine(finish),
            Ok(()) => End::Calls(finish),
        }
    }

    /// Says text, keeps calls, and stops at what cannot be used.
    fn take(&mut self, events: Vec<OutputEvent>) -> Result<(), End> {
        for event in events {
            match event {
                OutputEvent::Text(text) => {
                    self.round.text.push_str(&text);
                    let text = self.tags.push(&text);
                    let clauses = self.answer.push(&text);
                    self.say(clauses, false);
                    if self.told.blocked {
                        return Err(End::Blocked);
                    }
                }
                OutputEvent::Reasoning(_) | OutputEvent::CallEnd { .. } => {}
                OutputEvent::CallBegin { name, .. } => {
                    let id = format!("call{:05}", self.spent.calls);
                    self.spent.calls += 1;
                    self.round.calls.push(Call {
                        id,
                        name,
                        arguments: String::new(),
                    });
                }
                OutputEvent::Arguments { delta, .. } => {
                    if let Some(call) = self.round.calls.last_mut() {
                        call.arguments.push_str(&delta);
                    }
                }
                OutputEvent::Error(error) => {
                    // What was there may quote viewers.
                    let kind = error.word();
                    tracing::info!(
                        response_id = self.entry.response_id,
                        kind,
                        "the model's answer cannot be used"
                    );
                    return Err(End::Unusable(None));
                }
            }
        }
        Ok(())
    }
}
