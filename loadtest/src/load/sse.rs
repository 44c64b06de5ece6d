//! Server-sent events out of bytes, however these were chunked.

/// One event.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Event {
    /// Its name; empty where it has none.
    pub(crate) name: String,
    /// Its data; lines are joined by line breaks.
    pub(crate) data: String,
}

/// The state between two chunks.
#[derive(Default)]
pub(crate) struct Events {
    /// The unfinished line.
    line: Vec<u8>,
    /// Whether the last byte was a carriage return, which a line feed may follow.
    after_return: bool,
    name: String,
    /// The data lines so far; `None` where there was none, which makes no event.
    data: Option<String>,
}

impl Events {
    /// Adds bytes; gives the events that they complete.
    pub(crate) fn push(&mut self, bytes: &[u8]) -> Vec<Event> {
        let mut found = Vec::new();
        for &byte in bytes {
            let second_half = self.after_return && byte == b'\n';
            self.after_return = byte == b'\r';
            match byte {
                b'\n' if second_half => {}
                b'\n' | b'\r' => {
                    let line = std::mem::take(&mut self.line);
                    found.extend(self.take_line(&String::from_utf8_lossy(&line)));
                }
                byte => self.line.push(byte),
            }
        }
        found
    }

    fn take_line(&mut self, line: &str) -> Option<Event> {
        if line.is_empty() {
            let name = std::mem::take(&mut self.name);
            return self.data.take().map(|data| Event { name, data });
        }
        let (field, value) = line.split_once(':').unwrap_or((line, ""));
        let value = value.strip_prefix(' ').unwrap_or(value);
        match field {
            "event" => value.clone_into(&mut self.name),
            "data" => match &mut self.data {
                Some(data) => {
                    data.push('\n');
                    data.push_str(value);
                }
                None => self.data = Some(value.to_owned()),
            },
            // A comment, an id, a time to reconnect.
            _ => {}
        }
        None
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    const STREAM: &str = ": keep-alive\n\nid: 1\nevent: segment\ndata: {\"text\":\"防水吗？ 👍\"}\n\n\
        data:one\r\ndata: two\r\n\r\nevent: lost\n\ndata\r\rdata: [DONE]\n\ndata: unfinished";

    fn event(name: &str, data: &str) -> Event {
        Event {
            name: name.to_owned(),
            data: data.to_owned(),
        }
    }

    fn expected() -> Vec<Event> {
        vec![
            event("segment", "{\"text\":\"防水吗？ 👍\"}"),
            event("", "one\ntwo"),
            event("", ""),
            event("", "[DONE]"),
        ]
    }

    #[test]
    fn events_come_out_of_a_whole_stream() {
        assert_eq!(Events::default().push(STREAM.as_bytes()), expected());
    }

    proptest! {
        #[test]
        fn chunking_changes_nothing(cuts in proptest::collection::vec(0..STREAM.len(), 0..40)) {
            let mut cuts = cuts;
            cuts.extend([0, STREAM.len()]);
            cuts.sort_unstable();
            let mut events = Events::default();
            let found: Vec<Event> = cuts
                .windows(2)
                .flat_map(|ends| events.push(&STREAM.as_bytes()[ends[0]..ends[1]]))
                .collect();
            prop_assert_eq!(found, expected());
        }
    }
}
