//! Loading tools.
