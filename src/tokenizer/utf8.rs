//! Bytes to text as they come.

/// Turns a stream of token bytes into text, never splitting a character.
#[derive(Debug, Default)]
pub struct Utf8Stream {
    /// The start of a character that is not complete: at most three bytes.
    pending: Vec<u8>,
}

impl Utf8Stream {
    /// Adds bytes and appends to `text` what is complete. Bytes that can never become valid turn into U+FFFD.
    pub fn push(&mut self, bytes: &[u8], text: &mut String) {
        self.pending.extend_from_slice(bytes);
        let mut rest = self.pending.as_slice();
        while !rest.is_empty() {
            let error = match std::str::from_utf8(rest) {
                Ok(valid) => {
                    text.push_str(valid);
                    rest = &[];
                    break;
                }
                Err(error) => error,
            };
            let (valid, after) = rest.split_at(error.valid_up_to());
            text.push_str(std::str::from_utf8(valid).expect("valid up to here"));
            rest = after;
            let Some(broken) = error.error_len() else {
                break;
            };
            text.push(char::REPLACEMENT_CHARACTER);
            rest = &rest[broken..];
        }
        let done = self.pending.len() - rest.len();
        self.pending.drain(..done);
    }

    /// Whether the bytes so far end inside a character.
    #[must_use]
    pub fn is_inside_character(&self) -> bool {
        !self.pending.is_empty()
    }

    /// Appends what can be made of an incomplete end: nothing for an incomplete character cut by the token limit.
    pub fn finish(&mut self, _text: &mut String) {
        self.pending.clear();
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn streamed<'a>(chunks: impl IntoIterator<Item = &'a [u8]>) -> String {
        let (mut stream, mut text) = (Utf8Stream::default(), String::new());
        for chunk in chunks {
            stream.push(chunk, &mut text);
        }
        stream.finish(&mut text);
        text
    }

    /// Everything at once, without a character that only the end cuts.
    fn at_once(bytes: &[u8]) -> String {
        let cut = (0..4.min(bytes.len() + 1)).find(|&cut| {
            let tail = &bytes[bytes.len() - cut..];
            std::str::from_utf8(tail)
                .is_err_and(|e| e.valid_up_to() == 0 && e.error_len().is_none())
        });
        String::from_utf8_lossy(&bytes[..bytes.len() - cut.unwrap_or(0)]).into_owned()
    }

    /// Bytes that are often the start, the middle or a broken piece of a character.
    fn bytes() -> impl Strategy<Value = Vec<u8>> {
        let piece = prop_oneof![
            "\\PC{1,3}".prop_map(String::into_bytes),
            prop::collection::vec(any::<u8>(), 1..3),
            prop::sample::select(vec![
                vec![0xF0, 0x9F],
                vec![0xE5, 0xA5],
                vec![0xED, 0xA0, 0x80],
                vec![0xC0],
            ]),
        ];
        prop::collection::vec(piece, 0..12).prop_map(|pieces| pieces.concat())
    }

    proptest! {
        #[test]
        fn chunks_make_no_difference(bytes in bytes(), size in 1_usize..6) {
            prop_assert_eq!(streamed(bytes.chunks(size)), at_once(&bytes));
        }

        #[test]
        fn whole_text_comes_through(text in "\\PC*", size in 1_usize..6) {
            prop_assert_eq!(streamed(text.as_bytes().chunks(size)), text);
        }
    }

    #[test]
    fn a_character_appears_when_it_is_complete() {
        let (mut stream, mut text) = (Utf8Stream::default(), String::new());
        for (byte, seen) in "a🦙".bytes().zip(["a", "a", "a", "a", "a🦙"]) {
            stream.push(&[byte], &mut text);
            assert_eq!(text, seen);
        }
    }

    #[test]
    fn a_character_cut_by_the_end_is_dropped_and_a_broken_one_replaced() {
        assert_eq!(streamed([&b"ok\xF0\x9F\xA6"[..]]), "ok");
        assert_eq!(streamed([&b"\xF0\x9F"[..], b"!\xFF"]), "\u{FFFD}!\u{FFFD}");
    }
}
