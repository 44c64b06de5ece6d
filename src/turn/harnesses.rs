//! Which harness a turn speaks with, and where it is found. A turn holds what was found from its start to its end.

use std::sync::Arc;

use crate::harness::registry::{ResolveError, Resolved};
use crate::harness::store::{PRODUCTION, StoreError};
use crate::harness::{Harness, HarnessHandle, Live, Problem, Snapshot, Source, load};

/// Where turns find their harness. Cheap to clone.
#[derive(Clone, Debug)]
pub enum Harnesses {
    /// The registry's, as they are when a turn begins.
    Followed(HarnessHandle),
    /// One that never changes; its only label is `production`.
    Fixed(Snapshot),
}

impl From<HarnessHandle> for Harnesses {
    fn from(handle: HarnessHandle) -> Self {
        Self::Followed(handle)
    }
}

impl From<Harness> for Harnesses {
    fn from(harness: Harness) -> Self {
        Self::Fixed(Arc::new(Live::new(Arc::new(harness), None)))
    }
}

/// What a request names: nothing is the default harness, and its production.
#[derive(Clone, Debug, Default)]
pub struct HarnessChoice {
    /// The harness's name.
    pub name: Option<String>,
    /// A label, or a version of 64 hex digits.
    pub which: Option<String>,
    /// What [`super::Turns::pin`] found.
    pub(super) pinned: Option<Resolved>,
}

impl PartialEq for HarnessChoice {
    fn eq(&self, other: &Self) -> bool {
        (&self.name, &self.which) == (&other.name, &other.which)
    }
}

impl HarnessChoice {
    /// A choice by name, and by label or version.
    #[must_use]
    pub fn new(name: Option<String>, which: Option<String>) -> Self {
        Self {
            name,
            which,
            pinned: None,
        }
    }

    /// Whether it is found without looking into what is kept.
    fn is_production(&self) -> bool {
        self.which
            .as_deref()
            .is_none_or(|which| which == PRODUCTION)
    }
}

/// Why a turn has no harness. Never answered with another one.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum HarnessError {
    /// There is no such harness, label or version.
    #[error("{message}")]
    Unknown {
        /// The member of the request's `harness` that names it.
        member: &'static str,
        /// What is not there.
        message: String,
    },
    /// It is there and cannot be used now.
    #[error("{0}")]
    Unusable(String),
}

impl From<ResolveError> for HarnessError {
    fn from(error: ResolveError) -> Self {
        let message = error.to_string();
        let member = match error {
            ResolveError::UnknownHarness(_) => "name",
            ResolveError::UnknownLabel { .. } | ResolveError::Store(StoreError::NotALabel(_)) => {
                "label"
            }
            ResolveError::Store(StoreError::Unknown(_)) => "version",
            _ => return Self::Unusable(message),
        };
        Self::Unknown { member, message }
    }
}

impl Harnesses {
    /// What is live of the harness `name`, or of the default one.
    ///
    /// # Errors
    /// When there is no such harness.
    pub fn live(&self, name: Option<&str>) -> Result<Snapshot, HarnessError> {
        match self {
            Self::Followed(handle) => Ok(handle.live(name)?),
            Self::Fixed(snapshot) => match name.filter(|name| *name != snapshot.name) {
                None => Ok(Arc::clone(snapshot)),
                Some(other) => Err(ResolveError::UnknownHarness(other.to_owned()).into()),
            },
        }
    }

    /// What a request names; the disk is read where that is not loaded.
    pub(super) async fn find(&self, choice: &HarnessChoice) -> Result<Resolved, HarnessError> {
        match self {
            Self::Followed(handle) if !choice.is_production() => {
                let found = handle.resolve(choice.name.as_deref(), choice.which.as_deref());
                Ok(found.await?)
            }
            _ => self.at_once(choice),
        }
    }

    /// What a request names, where that takes no reading: what was pinned before, or production.
    pub(super) fn at_once(&self, choice: &HarnessChoice) -> Result<Resolved, HarnessError> {
        if let Some(pinned) = &choice.pinned {
            return Ok(pinned.clone());
        }
        let snapshot = self.live(choice.name.as_deref())?;
        if choice.is_production() {
            return Ok(Resolved {
                snapshot,
                label: Some(PRODUCTION.to_owned()),
            });
        }
        let which = choice.which.clone().unwrap_or_default();
        if which == snapshot.version.to_string() {
            let label = None;
            return Ok(Resolved { snapshot, label });
        }
        if let Ok(version) = which.parse() {
            return Err(ResolveError::Store(StoreError::Unknown(version)).into());
        }
        let (harness, label) = (snapshot.name.clone(), which);
        Err(ResolveError::UnknownLabel { harness, label }.into())
    }
}

/// The shipped live room, for programs that run without a folder of harnesses. `persona` replaces who speaks.
///
/// # Errors
/// What is wrong with that persona; the shipped files are valid.
pub fn built_in(persona: Option<&str>) -> Result<Harness, Vec<Problem>> {
    let mut source = Source::default();
    for (path, text) in BUILT_IN {
        source.insert(*path, text.as_bytes());
    }
    if let Some(persona) = persona {
        source.insert(PERSONA, persona.as_bytes());
    }
    load("live-room", &source).map(|loaded| loaded.harness)
}

const PERSONA: &str = "prompts/persona.txt";

/// The files of the shipped live room that every build carries.
const BUILT_IN: &[(&str, &str)] = &[
    (
        "harness.toml",
        include_str!("../../harness/live-room/harness.toml"),
    ),
    (
        PERSONA,
        include_str!("../../harness/live-room/prompts/persona.txt"),
    ),
];
