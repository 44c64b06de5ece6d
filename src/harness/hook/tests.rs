//! Loading hooks.
