//! How a turn ends: the rest is said, the outcome is counted, and then told.

use super::{End, Live, millis};
use crate::engine::{Finish, FinishReason, Usage};
use crate::harness::hook::Point;
use crate::telemetry::Outcome;
use crate::telemetry::events::{DeadlineMissed, FallbackSpoken, TurnEnded};
use crate::turn::RejectionCause;
use crate::turn::event::{Completion, Failure, TurnEvent, TurnFinish, TurnTimings};
use crate::turn::registry::Stop;

impl Live {
    pub(super) fn end(mut self, end: End) {
        match end {
            End::Engine(finish) | End::Calls(finish) => self.end_generated(&finish),
            End::Full => {
                self.cut_short();
                self.complete_spoken(TurnFinish::Length);
            }
            End::Unusable(finish) => self.end_unusable(finish.as_ref()),
            End::Line => {
                let finish = if self.told.blocked {
                    TurnFinish::Blocked
                } else {
                    TurnFinish::Stop
                };
                self.complete(finish);
            }
            End::Blocked => self.complete(TurnFinish::Blocked),
            End::Deadline => self.end_late(),
            End::Enough => {
                self.say_rest();
                self.complete_spoken(TurnFinish::Stop);
            }
            End::Failed(message) => self.fail_in_engine(message),
            End::Refused(cause) => self.end_refused(&cause),
            End::Stopped(Stop::Cancelled { played_through_seq }) => {
                tracing::debug!(
                    response_id = self.entry.response_id,
                    played_through_seq,
                    "turn cancelled"
                );
                self.complete(TurnFinish::Cancelled);
            }
            End::Stopped(Stop::Superseded) => self.complete(TurnFinish::Superseded),
            End::Abandoned => self.complete(TurnFinish::Cancelled),
        }
    }

    fn end_generated(mut self, finish: &Finish) {
        self.spend(finish);
        match &finish.reason {
            FinishReason::Stop => {
                self.say_rest();
                let finish_reason = if self.answer.is_shortened() {
                    TurnFinish::Length
                } else {
                    TurnFinish::Stop
                };
                self.complete_spoken(finish_reason);
            }
            FinishReason::Length => {
                self.cut_short();
                self.complete_spoken(TurnFinish::Length);
            }
            FinishReason::Deadline => self.end_late(),
            FinishReason::Error(message) => self.fail_in_engine(message.clone()),
        }
    }

    /// What came before the fault was for the viewers; it is said as far as it is whole.
    fn end_unusable(mut self, finish: Option<&Finish>) {
        let mut finish_reason = TurnFinish::Stop;
        if let Some(finish) = finish {
            self.spend(finish);
            if finish.reason == FinishReason::Length {
                finish_reason = TurnFinish::Length;
            }
        }
        self.cut_short();
        self.complete_spoken(finish_reason);
    }

    /// The deadline cuts at the last whole segment; with nothing said, the fallback line is the answer.
    fn end_late(mut self) {
        let nothing_yet = self.spent.rounds <= 1 && self.round.written.is_empty();
        let stage = match self.spent.rounds {
            0 => "waiting",
            _ if nothing_yet => "first_token",
            _ => "decode",
        };
        DeadlineMissed {
            response_id: &self.entry.response_id,
            stage,
        }
        .emit(&self.metrics);
        self.told.degrade("cut");
        self.cut_short();
        if self.answer.is_silent() {
            self.say_fallback("deadline");
            self.told.degrade("fallback");
        }
        self.complete(TurnFinish::Deadline);
    }

    /// The model has ended: all that is left is said.
    pub(super) fn say_rest(&mut self) {
        let rest = self.tags.finish();
        let mut clauses = self.answer.push(&rest);
        clauses.extend(self.answer.finish());
        self.say(clauses, true);
    }

    fn cut_short(&mut self) {
        let clauses = self.answer.cut_short();
        self.say(clauses, true);
    }

    /// Completes an answer that must have said something; where nothing in it can be spoken, the fallback line is said.
    fn complete_spoken(mut self, finish_reason: TurnFinish) {
        if self.answer.is_silent() {
            self.say_fallback("empty_answer");
            self.told.degrade("fallback");
        }
        self.complete(finish_reason);
    }

    fn complete(mut self, finish_reason: TurnFinish) {
        let finish_reason = match finish_reason {
            stopped @ (TurnFinish::Cancelled | TurnFinish::Superseded) => stopped,
            _ if self.told.blocked => TurnFinish::Blocked,
            other => other,
        };
        if !matches!(
            finish_reason,
            TurnFinish::Cancelled | TurnFinish::Superseded
        ) {
            // It is said: what these hooks decide changes nothing any more.
            let _ = self.plan.guard.ask(Point::OnComplete, &self.told.text);
        }
        let outcome = match finish_reason {
            TurnFinish::Stop => Outcome::Stop,
            TurnFinish::Length => Outcome::Length,
            TurnFinish::Deadline => Outcome::Deadline,
            TurnFinish::Blocked => Outcome::Blocked,
            TurnFinish::Superseded => Outcome::Superseded,
            TurnFinish::Cancelled => Outcome::Cancelled,
        };
        self.spend_unfinished();
        let total_ms = self.count(outcome, None);
        let completion = Completion {
            finish_reason,
            degraded: std::mem::take(&mut self.told.degraded),
            usage: self.spent.usage,
            timings: TurnTimings {
                queue_ms: self.spent.queue_ms.unwrap_or(0),
                first_segment_ms: self.meter.first_segment().map(millis),
                total_ms,
                rounds: self.spent.rounds,
            },
            harness_version: self.harness().version.to_string(),
        };
        self.close(TurnEvent::Completed(completion));
    }

    fn fail_in_engine(self, message: String) {
        let logged = message.clone();
        let fallback = self.fallback();
        let failure = Failure {
            code: "engine_error",
            message,
            retryable: true,
            fallback,
        };
        self.fail(failure, &logged);
    }

    /// What would have been refused at once had the turn not waited.
    fn end_refused(self, cause: &RejectionCause) {
        // What a log may not say is named only.
        let logged = cause
            .loggable()
            .map_or_else(|| cause.reason().to_owned(), ToString::to_string);
        let failure = Failure {
            code: cause.code(),
            message: cause.to_string(),
            retryable: cause.is_retryable(),
            fallback: self.fallback(),
        };
        self.fail(failure, &logged);
    }

    fn fail(mut self, failure: Failure, logged: &str) {
        FallbackSpoken {
            response_id: &self.entry.response_id,
            reason: failure.code,
        }
        .emit(&self.metrics);
        self.count(Outcome::Failed, Some(logged));
        self.close(TurnEvent::Failed(failure));
    }

    /// Counts the outcome before anybody is told; returns the turn's milliseconds.
    fn count(&mut self, outcome: Outcome, error: Option<&str>) -> u64 {
        self.metrics.turn_rounds(self.spent.rounds);
        let ended = TurnEnded {
            response_id: &self.entry.response_id,
            outcome,
            segments: self.told.segments,
            error,
        };
        millis(ended.emit(&mut self.meter))
    }

    /// Frees what the turn holds, then tells the end: who hears of it finds nothing left running.
    fn close(self, event: TurnEvent) {
        let Self {
            entry,
            round,
            events,
            plan,
            place,
            ..
        } = self;
        drop((entry, round, plan));
        // The next turn of the room may begin before anybody hears that this one has ended.
        drop(place);
        events.tell(event);
    }

    /// Adds what a generation took that has ended.
    pub(super) fn spend(&mut self, finish: &Finish) {
        let Usage {
            prompt,
            cached,
            completion,
        } = finish.usage;
        let usage = &mut self.spent.usage;
        usage.prompt += prompt;
        usage.cached += cached;
        usage.completion += completion;
        let queue_ms = millis(self.spent.waited + finish.timings.queue);
        self.spent.queue_ms.get_or_insert(queue_ms);
        self.round.generation = None;
    }

    /// Adds what a generation took that was stopped before it could tell.
    fn spend_unfinished(&mut self) {
        let Some(generation) = self.round.generation.take() else {
            return;
        };
        let tokenizer = self.plan.talk.model.engine.tokenizer();
        self.spent.usage.prompt += generation.prompt_tokens;
        self.spent.usage.completion += tokenizer.encode(&self.round.written).len();
    }
}
