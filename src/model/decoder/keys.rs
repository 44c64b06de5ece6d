//! Typed reading of the keys of one architecture, with the bounds that keep a hostile file from absurd sizes.

use crate::model::checkpoint::Checkpoint;
use crate::model::gguf::{Fault, ModelFileError};

/// Bounds far above any real model.
pub(super) const MAX_LAYERS: usize = 1024;
pub(super) const MAX_WIDTH: usize = 1 << 20;
pub(super) const MAX_CONTEXT: usize = 1 << 24;

/// The keys under an architecture's name.
pub(super) struct Keys<'a> {
    pub(super) file: &'a dyn Checkpoint,
    pub(super) architecture: &'a str,
}

impl Keys<'_> {
    pub(super) fn key(&self, name: &str) -> String {
        format!("{}.{name}", self.architecture)
    }

    pub(super) fn invalid(&self, name: &str, reason: String) -> ModelFileError {
        self.file.error(&self.key(name), Fault::Invalid(reason))
    }

    pub(super) fn unsupported(&self, name: &str, what: String) -> ModelFileError {
        self.file.error(&self.key(name), Fault::Unsupported(what))
    }

    pub(super) fn size(&self, name: &str, most: usize) -> Result<usize, ModelFileError> {
        let value = self.file.metadata().u32(&self.key(name))?;
        self.bounded(name, value, most)
    }

    pub(super) fn size_or(
        &self,
        name: &str,
        most: usize,
        default: usize,
    ) -> Result<usize, ModelFileError> {
        match self.opt_u32(name)? {
            Some(value) => self.bounded(name, value, most),
            None => Ok(default),
        }
    }

    pub(super) fn opt_u32(&self, name: &str) -> Result<Option<u32>, ModelFileError> {
        self.file.metadata().opt_u32(&self.key(name))
    }

    pub(super) fn opt_f32(&self, name: &str) -> Result<Option<f32>, ModelFileError> {
        self.file.metadata().opt_f32(&self.key(name))
    }

    pub(super) fn opt_bool(&self, name: &str) -> Result<Option<bool>, ModelFileError> {
        self.file.metadata().opt_bool(&self.key(name))
    }

    pub(super) fn opt_str(&self, name: &str) -> Result<Option<&str>, ModelFileError> {
        self.file.metadata().opt_str(&self.key(name))
    }

    pub(super) fn bounded(
        &self,
        name: &str,
        value: u32,
        most: usize,
    ) -> Result<usize, ModelFileError> {
        match value as usize {
            value if (1..=most).contains(&value) => Ok(value),
            value => Err(self.invalid(name, format!("{value} is not from 1 to {most}"))),
        }
    }

    pub(super) fn float(&self, name: &str) -> Result<f32, ModelFileError> {
        let value = self.file.metadata().f32(&self.key(name))?;
        self.positive(name, value)
    }

    pub(super) fn float_or(&self, name: &str, default: f32) -> Result<f32, ModelFileError> {
        match self.opt_f32(name)? {
            Some(value) => self.positive(name, value),
            None => Ok(default),
        }
    }

    fn positive(&self, name: &str, value: f32) -> Result<f32, ModelFileError> {
        if value.is_finite() && value > 0.0 {
            return Ok(value);
        }
        Err(self.invalid(name, format!("{value} is not a positive number")))
    }
}
