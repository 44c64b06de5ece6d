//! What a turn tells its front end: clauses as hooks leave them, the fallback line, skills, actions.

use serde_json::Value;

use super::Live;
use crate::harness::tool::Kind;
use crate::telemetry::events::FallbackSpoken;
use crate::telemetry::stages::SegmentBlocked;
use crate::turn::event::{Action, Segment, TurnEvent};
use crate::turn::guard::Said;
use crate::turn::segment::Clause;
use crate::turn::tags::Shown;

impl Live {
    /// Sends clauses as segments, after the hooks; what one blocks is replaced by the fallback line, and nothing follows.
    /// `is_end` tells that no clause comes after these.
    pub(super) fn say(&mut self, clauses: Vec<Clause>, is_end: bool) {
        let count = clauses.len();
        for (index, clause) in clauses.into_iter().enumerate() {
            if self.told.blocked {
                return;
            }
            let is_last = is_end && index + 1 == count;
            let shown = self.tags.clause(clause.text.chars().count(), is_last);
            match self.plan.guard.clause(clause) {
                Said::Clause(clause) => self.segment(clause, shown),
                Said::Blocked(hook) => {
                    SegmentBlocked {
                        response_id: &self.entry.response_id,
                        hook: &hook,
                    }
                    .emit(&self.metrics);
                    self.told.blocked = true;
                    self.say_fallback("blocked");
                }
            }
        }
    }

    /// Dead air is worse than a line that says nothing. The operator wrote it, so no hook is asked.
    pub(super) fn say_fallback(&mut self, reason: &'static str) {
        FallbackSpoken {
            response_id: &self.entry.response_id,
            reason,
        }
        .emit(&self.metrics);
        let line = self.fallback();
        let clause = Clause {
            text: line.clone(),
            tts_text: line,
            pause_ms: 0,
        };
        self.segment(clause, Shown::default());
    }

    /// What is said where there is no answer: the skill's line, the harness's, or the configuration's.
    pub(super) fn fallback(&self) -> String {
        let own = self.plan.skills.fallback(self.harness());
        own.unwrap_or(&self.config.fallback).to_owned()
    }

    fn segment(&mut self, clause: Clause, shown: Shown) {
        self.meter.segment();
        let seq = self.told.segments;
        self.told.segments += 1;
        self.told.text.push_str(&clause.text);
        self.tell(TurnEvent::Segment(Segment {
            seq,
            text: clause.text,
            tts_text: clause.tts_text,
            reply_to: self.plan.comment_ids.clone(),
            emotion: shown.emotion,
            gesture: shown.gesture,
            pause_ms: clause.pause_ms,
        }));
    }

    /// A skill came into effect.
    pub(super) fn tell_skill(&self, name: String) {
        if self.request.debug {
            self.tell(TurnEvent::SkillActivated { name });
        }
    }

    /// Sends an action that the front end knows, with the next segment.
    pub(super) fn act(&mut self, tool: &str, args: Value) {
        let known = self.harness().tools.get(tool);
        let is_action = known.is_some_and(|tool| matches!(tool.kind, Kind::Action));
        if !is_action || !self.request.output.knows_action(tool) {
            return;
        }
        let seq = self.told.actions;
        self.told.actions += 1;
        self.tell(TurnEvent::Action(Action {
            seq,
            at_segment: self.told.segments,
            kind: tool.to_owned(),
            args,
        }));
    }
}
