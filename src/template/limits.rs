//! What one rendering may use: time, and memory by the size of every value that the template makes.
//!
//! Steps alone are no bound: a filter, a method or an operator makes a long value in one step, and values that hold
//! each other grow without a long string anywhere. So each of them is measured, before it is made where that can be.

use std::fmt;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use minijinja::value::{Object, ValueKind};
use minijinja::{Error, ErrorKind, State, Value};

/// Longest source of a template, in bytes.
pub(super) const SOURCE: usize = 256 << 10;
/// Size of the largest value, in bytes of text plus [`ITEM`] an item; also of the rendered prompt.
pub(super) const VALUE: usize = 4 << 20;
/// Size of all values that one rendering makes, one after another.
const TOTAL: usize = 64 << 20;
/// How long a rendering may take. Ordinary templates take well under a millisecond.
const TIME: Duration = Duration::from_millis(800);
/// What an item of a sequence or a number counts for.
pub(super) const ITEM: usize = 16;
/// How deep values may hold each other.
pub(super) const DEPTH: usize = 64;

/// An error for what exceeds a limit.
pub(super) fn exceeded(what: impl fmt::Display) -> Error {
    Error::new(
        ErrorKind::InvalidOperation,
        format!("{what} exceeds the limit"),
    )
}

/// Steps that a template of this length may take. Each step writes at most the whole source.
pub(super) fn steps(source: &str) -> u64 {
    const WRITTEN: u64 = 1 << 30;
    let length = u64::try_from(source.len()).unwrap_or(u64::MAX).max(1);
    (WRITTEN / length).clamp(100_000, 1_000_000)
}

/// What a rendering has left.
#[derive(Debug)]
pub(super) struct Budget {
    started: Instant,
    left: AtomicUsize,
}

impl Object for Budget {}

impl Budget {
    /// Takes the size of a value that was made off what is left, and checks the time.
    pub(super) fn charge(state: &State<'_, '_>, size: usize) -> Result<(), Error> {
        let budget = state.get_or_set_temp_object("limits", || Self {
            started: Instant::now(),
            left: AtomicUsize::new(TOTAL),
        });
        if budget.started.elapsed() > TIME {
            return Err(exceeded("the time"));
        }
        if size > VALUE {
            return Err(exceeded("the size of a value"));
        }
        let take = |left: usize| left.checked_sub(size);
        budget
            .left
            .fetch_update(Ordering::Relaxed, Ordering::Relaxed, take)
            .map_err(|_| exceeded("the size of all values"))?;
        Ok(())
    }
}

/// Size of a value with all that it holds, each time that it holds it.
///
/// # Errors
/// When it is larger than [`VALUE`] or deeper than [`DEPTH`], without looking further.
pub(super) fn measure(value: &Value) -> Result<usize, Error> {
    let mut left = VALUE;
    measure_within(value, DEPTH, &mut left)?;
    Ok(VALUE - left)
}

fn measure_within(value: &Value, depth: usize, left: &mut usize) -> Result<(), Error> {
    let take = |size: usize, left: &mut usize| {
        *left = left
            .checked_sub(size)
            .ok_or_else(|| exceeded("the size of a value"))?;
        Ok::<_, Error>(())
    };
    if let Some(text) = value.as_str() {
        return take(text.len(), left);
    }
    take(ITEM, left)?;
    let kind = value.kind();
    if !matches!(kind, ValueKind::Seq | ValueKind::Iterable | ValueKind::Map) {
        return Ok(());
    }
    let Some(depth) = depth.checked_sub(1) else {
        return Err(exceeded("the depth of a value"));
    };
    // A long sequence is known to be too long without looking at its items.
    if value
        .len()
        .is_some_and(|count| count.saturating_mul(ITEM) > *left)
    {
        return Err(exceeded("the size of a value"));
    }
    for item in value.try_iter()? {
        measure_within(&item, depth, left)?;
        if kind == ValueKind::Map {
            measure_within(&value.get_item(&item)?, depth, left)?;
        }
    }
    Ok(())
}

/// Writes a rendering, up to the size of a value.
#[derive(Debug, Default)]
pub(super) struct Page(pub(super) Vec<u8>);

impl std::io::Write for Page {
    fn write(&mut self, bytes: &[u8]) -> std::io::Result<usize> {
        if self.0.len() + bytes.len() > VALUE {
            return Err(std::io::Error::other(
                "the size of the prompt exceeds the limit",
            ));
        }
        self.0.extend_from_slice(bytes);
        Ok(bytes.len())
    }

    fn flush(&mut self) -> std::io::Result<()> {
        Ok(())
    }
}
