//! A harness in use, and what makes it ready before it is.

use std::any::Any;
use std::fmt;
use std::future::Future;
use std::ops::Deref;
use std::pin::Pin;
use std::sync::Arc;

use crate::harness::Harness;

/// What is kept warm for a harness; dropping it lets go, after the last turn has ended.
pub type Warm = Box<dyn Any + Send + Sync>;

/// The result of making a harness ready: what is kept for it, or why it cannot be.
pub type Activation<'a> = Pin<Box<dyn Future<Output = Result<Warm, String>> + Send + 'a>>;

/// Makes a harness ready to answer before it goes live, so that the first answer is as fast as the next.
pub trait Activate: Send + Sync {
    /// Ends when all is warm. An error keeps the harness from going live and changes nothing else.
    fn activate(&self, harness: Arc<Harness>) -> Activation<'_>;
}

impl<F, T> Activate for F
where
    F: Fn(Arc<Harness>) -> T + Send + Sync,
    T: Future<Output = Result<Warm, String>> + Send + 'static,
{
    fn activate(&self, harness: Arc<Harness>) -> Activation<'_> {
        Box::pin(self(harness))
    }
}

/// A harness and what is kept warm for it. Reads like the harness.
pub struct Live {
    harness: Arc<Harness>,
    _warm: Option<Warm>,
}

/// What a turn holds from start to end. The last one to go lets go of what was kept warm.
pub type Snapshot = Arc<Live>;

impl Live {
    /// A harness in use, and what is kept warm for it.
    #[must_use]
    pub fn new(harness: Arc<Harness>, warm: Option<Warm>) -> Self {
        Self {
            harness,
            _warm: warm,
        }
    }

    /// The harness alone, without keeping anything warm.
    #[must_use]
    pub fn harness(&self) -> &Arc<Harness> {
        &self.harness
    }
}

impl Deref for Live {
    type Target = Harness;

    fn deref(&self) -> &Harness {
        &self.harness
    }
}

impl fmt::Debug for Live {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Live")
            .field("name", &self.harness.name)
            .field("version", &self.harness.version)
            .finish_non_exhaustive()
    }
}
