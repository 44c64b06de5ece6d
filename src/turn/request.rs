//! What a turn is asked, as plain data.

use std::time::Duration;

use crate::engine::Priority;

/// A viewer's comments and how to answer them; validated by whoever built it.
#[derive(Clone, Debug, PartialEq)]
pub struct TurnRequest {
    /// The live room; not empty.
    pub room_id: String,
    /// From acceptance to the end of the last segment.
    pub deadline: Duration,
    /// What viewers wrote, at least one.
    pub comments: Vec<Comment>,
    /// What is on sale.
    pub context: Context,
    /// Who goes first when not everybody can.
    pub priority: Priority,
    /// Most characters of the whole answer; spaces at its end do not count.
    pub max_chars: usize,
    /// Language of the answer as a BCP 47 tag; `None` leaves it to the persona.
    pub language: Option<String>,
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
