//! A turn while it is being spoken: one task from acceptance to the one terminal event.

use std::sync::Arc;

use tokio::sync::mpsc;
use tokio::time::{Instant, sleep_until};

use super::answer::Answer;
use super::config::Config;
use super::event::{Completion, Failure, Segment, TurnEvent, TurnFinish, TurnTimings};
use super::registry::{Cancel, Entry};
use super::segment::Clause;
use crate::engine::{Finish, FinishReason, TokenEvent, TokenStream, Usage};
use crate::telemetry::events::{DeadlineMissed, FallbackSpoken, TurnEnded};
use crate::telemetry::{Metrics, Outcome, TurnMeter};
use crate::tokenizer::Tokenizer;

/// Everything that a turn holds; dropping it frees all of it.
pub(super) struct Live {
    pub(super) entry: Entry,
    pub(super) meter: TurnMeter,
    pub(super) metrics: Arc<Metrics>,
    pub(super) config: Arc<Config>,
    pub(super) tokens: TokenStream,
    pub(super) tokenizer: Arc<Tokenizer>,
    pub(super) events: mpsc::Sender<TurnEvent>,
    pub(super) model: String,
    pub(super) comment_ids: Vec<String>,
    pub(super) prompt_tokens: usize,
    /// When the answer is cut, should the engine not have ended by itself.
    pub(super) cut_at: Instant,
    pub(super) answer: Answer,
    /// Segments sent.
    pub(super) segments: usize,
}

/// Why the speaking stopped.
enum End {
    /// The engine ended.
    Engine(Finish),
    /// The length limit was reached.
    Full,
    Deadline,
    Cancelled(Cancel),
    /// Nobody listens any more.
    Abandoned,
}

impl Live {
    /// Speaks, then counts and tells the one outcome.
    pub(super) async fn run(mut self) {
        self.tell(TurnEvent::Started {
            response_id: self.entry.response_id.clone(),
            model: self.model.clone(),
            queue_ms: millis(self.meter.accepted().elapsed()),
            comment_ids: self.comment_ids.clone(),
        });
        let end = self.speak().await;
        self.end(end);
    }

    async fn speak(&mut self) -> End {
        let mut quiet_at = None;
        loop {
            let event = tokio::select! {
                biased;
                () = self.events.closed() => return End::Abandoned,
                cancel = self.entry.cancelled() => return End::Cancelled(cancel),
                () = sleep_until(self.cut_at) => return End::Deadline,
                event = self.tokens.next() => event,
                () = sleep_until(quiet_at.unwrap_or(self.cut_at)), if quiet_at.is_some() => {
                    quiet_at = None;
                    let clauses = self.answer.flush_quiet();
                    self.say(clauses);
                    continue;
                }
            };
            match event {
                // A turn asks for no likelihoods; their text is text all the same.
                Some(TokenEvent::Prompt(_)) => {}
                Some(TokenEvent::Text(text) | TokenEvent::Scored { text, .. }) => {
                    let clauses = self.answer.push(&text);
                    self.say(clauses);
                    quiet_at = Some(Instant::now() + self.config.quiet());
                }
                Some(TokenEvent::Finished(finish)) => return End::Engine(finish),
                None => unreachable!("a token stream ends with Finished, and that returns"),
            }
            if self.answer.is_full() {
                return End::Full;
            }
        }
    }

    /// Sends clauses as segments.
    fn say(&mut self, clauses: Vec<Clause>) {
        for clause in clauses {
            self.meter.segment();
            let seq = self.segments;
            self.segments += 1;
            self.tell(TurnEvent::Segment(Segment {
                seq,
                text: clause.text,
                tts_text: clause.tts_text,
                reply_to: self.comment_ids.clone(),
                pause_ms: clause.pause_ms,
            }));
        }
    }

    /// The channel holds all events of a turn; a reader that is gone is noticed by `speak`.
    fn tell(&self, event: TurnEvent) {
        let told = self.events.try_send(event);
        debug_assert!(
            !matches!(told, Err(mpsc::error::TrySendError::Full(_))),
            "a turn's channel holds all events it may produce"
        );
    }

    fn end(mut self, end: End) {
        let finish = if let End::Engine(finish) = &end {
            Some(finish.clone())
        } else {
            None
        };
        match end {
            End::Engine(Finish {
                reason: FinishReason::Stop,
                ..
            }) => {
                let clauses = self.answer.finish();
                self.say(clauses);
                let finish_reason = if self.answer.is_shortened() {
                    TurnFinish::Length
                } else {
                    TurnFinish::Stop
                };
                self.complete_spoken(finish_reason, finish);
            }
            End::Engine(Finish {
                reason: FinishReason::Length,
                ..
            })
            | End::Full => {
                let clauses = self.answer.cut_short();
                self.say(clauses);
                self.complete_spoken(TurnFinish::Length, finish);
            }
            End::Engine(Finish {
                reason: FinishReason::Deadline,
                ..
            })
            | End::Deadline => self.end_late(finish),
            End::Engine(Finish {
                reason: FinishReason::Error(message),
                ..
            }) => self.fail("engine_error", message),
            End::Cancelled(cancel) => {
                tracing::debug!(
                    response_id = self.entry.response_id,
                    played_through_seq = cancel.played_through_seq,
                    "turn cancelled"
                );
                self.complete(TurnFinish::Cancelled, Vec::new(), None);
            }
            End::Abandoned => self.complete(TurnFinish::Cancelled, Vec::new(), None),
        }
    }

    /// Completes an answer that must have said something; where nothing in it can be spoken, the fallback line is said.
    fn complete_spoken(mut self, finish_reason: TurnFinish, finish: Option<Finish>) {
        let mut degraded = Vec::new();
        if self.answer.is_silent() {
            self.say_fallback("empty_answer");
            degraded.push("fallback");
        }
        self.complete(finish_reason, degraded, finish);
    }

    /// Dead air is worse than a line that says nothing.
    fn say_fallback(&mut self, reason: &'static str) {
        FallbackSpoken {
            response_id: &self.entry.response_id,
            reason,
        }
        .emit(&self.metrics);
        let line = self.config.fallback.clone();
        self.say(vec![Clause {
            text: line.clone(),
            tts_text: line,
            pause_ms: 0,
        }]);
    }

    /// The deadline cuts at the last whole segment; with nothing said, the fallback line is the answer.
    fn end_late(mut self, finish: Option<Finish>) {
        let response_id = self.entry.response_id.clone();
        let stage = if self.answer.written().is_empty() {
            "first_token"
        } else {
            "decode"
        };
        DeadlineMissed {
            response_id: &response_id,
            stage,
        }
        .emit(&self.metrics);
        let mut degraded = vec!["cut"];
        let clauses = self.answer.cut_short();
        self.say(clauses);
        if self.answer.is_silent() {
            self.say_fallback("deadline");
            degraded.push("fallback");
        }
        self.complete(TurnFinish::Deadline, degraded, finish);
    }

    fn complete(
        mut self,
        finish_reason: TurnFinish,
        degraded: Vec<&'static str>,
        finish: Option<Finish>,
    ) {
        let outcome = match finish_reason {
            TurnFinish::Stop => Outcome::Stop,
            TurnFinish::Length => Outcome::Length,
            TurnFinish::Deadline => Outcome::Deadline,
            TurnFinish::Cancelled => Outcome::Cancelled,
        };
        let usage = finish
            .as_ref()
            .map_or_else(|| self.usage_so_far(), |finish| finish.usage);
        let queue_ms = finish.map_or(0, |finish| millis(finish.timings.queue));
        let total_ms = self.count(outcome, None);
        let timings = TurnTimings {
            queue_ms,
            first_segment_ms: self.meter.first_segment().map(millis),
            total_ms,
            rounds: 1,
        };
        self.close(TurnEvent::Completed(Completion {
            finish_reason,
            degraded,
            usage,
            timings,
        }));
    }

    fn fail(mut self, code: &'static str, message: String) {
        FallbackSpoken {
            response_id: &self.entry.response_id,
            reason: code,
        }
        .emit(&self.metrics);
        self.count(Outcome::Failed, Some(&message));
        let fallback = self.config.fallback.clone();
        self.close(TurnEvent::Failed(Failure {
            code,
            message,
            retryable: true,
            fallback,
        }));
    }

    /// Counts the outcome before anybody is told; returns the turn's milliseconds.
    fn count(&mut self, outcome: Outcome, error: Option<&str>) -> u64 {
        let ended = TurnEnded {
            response_id: &self.entry.response_id,
            outcome,
            segments: self.segments,
            error,
        };
        millis(ended.emit(&mut self.meter))
    }

    /// Frees what the turn holds, then tells the end: who hears of it finds nothing left running.
    fn close(self, event: TurnEvent) {
        let Self {
            entry,
            tokens,
            events,
            ..
        } = self;
        drop((entry, tokens));
        // Not there any more to hear it is fine.
        let _ = events.try_send(event);
    }

    /// Usage of a generation that was stopped before it could tell.
    fn usage_so_far(&self) -> Usage {
        Usage {
            prompt: self.prompt_tokens,
            cached: 0,
            completion: self.tokenizer.encode(self.answer.written()).len(),
        }
    }
}

fn millis(duration: std::time::Duration) -> u64 {
    u64::try_from(duration.as_millis()).unwrap_or(u64::MAX)
}
