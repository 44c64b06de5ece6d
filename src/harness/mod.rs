//! The harness registry: what operators change while the avatar is on air. It knows files, not requests.

pub mod catalog;
pub mod config;
pub mod disk;
pub mod findings;
pub mod hook;
pub mod lists;
pub mod load;
pub mod problem;
pub mod prompt;
pub mod registry;
pub mod settings;
pub mod skill;
pub mod snapshot;
pub mod source;
pub mod store;
#[cfg(test)]
mod testing;
mod toml;
pub mod tool;
pub mod tools;
pub mod version;
mod watch;

pub use catalog::{Catalog, Product};
pub use config::{Config, Mode};
pub use disk::read;
pub use findings::Findings;
pub use load::{Loaded, load};
pub use problem::Problem;
pub use prompt::{Section, SectionKind, ToolCard};
pub use registry::{Activate, HarnessHandle, HarnessRegistry, Live, Snapshot, Warm};
pub use settings::Settings;
pub use skill::Skill;
pub use snapshot::{Calls, Harness, Opening};
pub use source::Source;
pub use version::Version;
