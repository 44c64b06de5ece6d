//! The harness registry: what operators change while the avatar is on air. It knows files, not requests.

pub mod hook;
pub mod problem;
pub mod source;
pub mod tool;

pub use problem::Problem;
pub use source::Source;
