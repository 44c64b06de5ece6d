//! Plain chat completions: a conversation in, text out; no persona, no segments.
