//! What one rendering may use: the page that it writes, and the texts that its filters make on the way.

use std::io;
use std::sync::atomic::{AtomicUsize, Ordering};

use minijinja::value::Object;
use minijinja::{Error, ErrorKind, State};

/// Longest page, in bytes.
const PAGE: usize = 1 << 20;
/// Bytes of all texts that filters make in one rendering.
const MADE: usize = 8 << 20;
/// Steps of one rendering.
pub(super) const STEPS: u64 = 1_000_000;

/// Takes what is rendered, up to its limit.
#[derive(Debug, Default)]
pub(super) struct Page(Vec<u8>);

impl Page {
    pub(super) fn text(self) -> String {
        String::from_utf8(self.0).expect("templates write whole texts")
    }
}

impl io::Write for Page {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        if self.0.len() + bytes.len() > PAGE {
            return Err(io::Error::other("the page exceeds its limit"));
        }
        self.0.extend_from_slice(bytes);
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

#[derive(Debug, Default)]
struct Made(AtomicUsize);

impl Object for Made {}

/// Counts a text before a filter makes it.
pub(super) fn charge(state: &State<'_, '_>, bytes: usize) -> Result<(), Error> {
    let made = state.get_or_set_temp_object("made", Made::default);
    let before = made.0.fetch_add(bytes.min(MADE), Ordering::Relaxed);
    if bytes > MADE || before + bytes > MADE {
        return Err(Error::new(
            ErrorKind::InvalidOperation,
            "texts made by filters exceed their limit",
        ));
    }
    Ok(())
}
