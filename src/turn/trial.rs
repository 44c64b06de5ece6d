//! One comment asked of a version that need not be live: what it would say, and what its prompt costs.

use std::time::Duration;

use super::{Comment, HarnessChoice, Rejection, TurnRequest, TurnStream, Turns};
use crate::engine::Priority;
use crate::harness::registry::Resolved;
use crate::harness::{Harness, Snapshot};
use crate::telemetry::events::SectionTokens;

/// The room of trials: no viewers' room is called so.
const ROOM: &str = "(trial)";
/// Time for one answer.
const DEADLINE: Duration = Duration::from_secs(60);

impl Turns {
    /// Answers one comment with `snapshot`, behind viewers' turns. It is counted as any turn; skills and tools are told of.
    ///
    /// # Errors
    /// As [`Turns::respond`].
    pub fn try_out(&self, snapshot: Snapshot, comment: &str) -> Result<TurnStream, Rejection> {
        let request = TurnRequest {
            room_id: ROOM.to_owned(),
            deadline: DEADLINE,
            comments: vec![Comment {
                comment_id: "c1".to_owned(),
                nickname: String::new(),
                text: comment.to_owned(),
            }],
            priority: Priority::Low,
            max_chars: self.config.max_chars,
            harness: HarnessChoice {
                pinned: Some(Resolved {
                    snapshot,
                    label: None,
                }),
                ..HarnessChoice::default()
            },
            debug: true,
            ..TurnRequest::default()
        };
        // Trials are heard by no viewer, so they need no floor.
        self.accept(request, false)
    }

    /// Tokens of each section of a system prompt, as this model counts them.
    #[must_use]
    pub fn section_tokens(&self, harness: &Harness) -> Vec<SectionTokens> {
        let tokenizer = self.model.template.tokenizer();
        let sections = harness.system.iter();
        let counted = sections.map(|section| SectionTokens {
            section: section.kind.word(),
            tokens: tokenizer.encode(&section.text).len(),
        });
        counted.collect()
    }
}
