//! What a turn is asked, as plain data.

use std::time::Duration;

use super::harnesses::HarnessChoice;
use super::room::Supersede;
use crate::engine::Priority;
use crate::template::Message;

/// A viewer's comments and how to answer them; validated by whoever built it. The default asks nothing: room, deadline,
/// length and comments must be given.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct TurnRequest {
    /// The live room; not empty.
    pub room_id: String,
    /// From acceptance to the end of the last segment.
    pub deadline: Duration,
    /// What sets the turn off.
    pub trigger: Trigger,
    /// What viewers wrote, at least one where that is the trigger.
    pub comments: Vec<Comment>,
    /// What is on sale.
    pub context: Context,
    /// What was said in the room and heard, oldest first: messages of the roles `user` and `assistant`.
    pub history: Vec<Message>,
    /// Who goes first when not everybody can.
    pub priority: Priority,
    /// Which turns of the room end for it.
    pub supersede: Supersede,
    /// Most characters of the whole answer; spaces at its end do not count.
    pub max_chars: usize,
    /// Language of the answer as a BCP 47 tag; `None` leaves it to the harness.
    pub language: Option<String>,
    /// Which harness speaks.
    pub harness: HarnessChoice,
    /// What the front end can show.
    pub output: Showable,
    /// Whether skills and tools are told of, too.
    pub debug: bool,
}

/// What sets a turn off.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Trigger {
    /// The kind.
    pub kind: TriggerKind,
    /// What the caller says of it; may be empty.
    pub reason: String,
}

/// Kinds of triggers.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub enum TriggerKind {
    /// Viewers wrote something.
    #[default]
    Comments,
    /// The room has been quiet.
    Idle,
    /// Another product is on screen.
    ProductSwitch,
    /// A viewer gave something.
    Gift,
    /// Whoever runs the room wants something said.
    Operator,
}

impl TriggerKind {
    /// Every kind.
    pub const ALL: [Self; 5] = [
        Self::Comments,
        Self::Idle,
        Self::ProductSwitch,
        Self::Gift,
        Self::Operator,
    ];

    /// As requests, metrics and prompts spell it.
    #[must_use]
    pub fn word(self) -> &'static str {
        match self {
            Self::Comments => "comments",
            Self::Idle => "idle",
            Self::ProductSwitch => "product_switch",
            Self::Gift => "gift",
            Self::Operator => "operator",
        }
    }
}

/// What the front end can show; an empty list leaves it to the harness.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Showable {
    /// Emotions of the avatar.
    pub emotions: Vec<String>,
    /// Actions: names of tools of kind `action`.
    pub actions: Vec<String>,
}

impl Showable {
    /// Whether the front end knows this action.
    pub(super) fn knows_action(&self, name: &str) -> bool {
        self.actions.is_empty() || self.actions.iter().any(|known| known == name)
    }
}

/// One viewer's comment.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Comment {
    /// The caller's id of the comment; `c1`, `c2`, ... where it gave none.
    pub comment_id: String,
    /// What the viewer is called on screen; may be empty.
    pub nickname: String,
    /// What the viewer wrote; not blank.
    pub text: String,
}

/// What the avatar may truthfully say.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Context {
    /// The product on screen; may be empty.
    pub product_id: String,
    /// Facts by name, in the caller's order.
    pub facts: serde_json::Map<String, serde_json::Value>,
    /// Promotions, each a text or an object.
    pub promotions: Vec<serde_json::Value>,
}
