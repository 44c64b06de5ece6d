//! One answer as its receiver sees it: when text came, when the first of it could be spoken, how it ended.

use std::time::Duration;

use compere::turn::segment::Segmenter;
use tokio::time::Instant;

/// Why a request brought no whole answer.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Fault {
    /// As many requests as allowed were unanswered: it was not sent.
    NotSent,
    /// No connection.
    Connect,
    /// An answer of another status.
    Status(u16),
    /// The stream ended without the event that ends an answer.
    Cut,
    /// The stream says that the answer failed.
    Failed(String),
    /// Something that is none of the protocol.
    Protocol(String),
    /// It took longer than anybody waits.
    Timeout,
}

impl Fault {
    /// A few words that faults of one kind share.
    pub(crate) fn cause(&self) -> String {
        match self {
            Self::NotSent => "not sent: too many in flight".to_owned(),
            Self::Connect => "no connection".to_owned(),
            Self::Status(status) => format!("status {status}"),
            Self::Cut => "the stream was cut".to_owned(),
            Self::Failed(code) => format!("failed: {code}"),
            Self::Protocol(what) => format!("protocol: {what}"),
            Self::Timeout => "timeout".to_owned(),
        }
    }
}

/// How a request ended.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Outcome {
    /// With a whole answer.
    Completed,
    /// The caller went away, as planned.
    Left,
    /// Without a whole answer.
    Failed(Fault),
}

/// What one request brought; times count from when it was due.
#[derive(Clone, Debug)]
pub(crate) struct Record {
    /// When it was due, from the start of the run.
    pub(crate) due: Duration,
    /// Whether it counts, or was there to warm up.
    pub(crate) counted: bool,
    /// How much later than due it was sent.
    pub(crate) late: Duration,
    /// To the first text; absent where the protocol shows segments only.
    pub(crate) first_text: Option<Duration>,
    /// To the first segment that could be spoken.
    pub(crate) first_segment: Option<Duration>,
    /// To the end, whatever it was.
    pub(crate) total: Duration,
    /// Between pieces of text, or of segments.
    pub(crate) gaps: Vec<Duration>,
    /// How it ended.
    pub(crate) outcome: Outcome,
}

/// An answer while it arrives.
pub(crate) struct Answer {
    due: Instant,
    segmenter: Segmenter,
    first_text: Option<Instant>,
    first_segment: Option<Instant>,
    last: Option<Instant>,
    gaps: Vec<Duration>,
}

impl Answer {
    /// Nothing yet of an answer to a request due at `due`.
    pub(crate) fn new(due: Instant) -> Self {
        Self {
            due,
            segmenter: Segmenter::new(usize::MAX),
            first_text: None,
            first_segment: None,
            last: None,
            gaps: Vec::new(),
        }
    }

    /// Text came. What can be spoken of it is decided by the rules that the server itself cuts segments by.
    pub(crate) fn text(&mut self, text: &str) {
        if text.is_empty() {
            return;
        }
        let now = self.arrived();
        self.first_text.get_or_insert(now);
        if self.first_segment.is_none() && !self.segmenter.push(text).is_empty() {
            self.first_segment = Some(now);
        }
    }

    /// A segment came, cut by the server.
    pub(crate) fn segment(&mut self) {
        let now = self.arrived();
        self.first_segment.get_or_insert(now);
    }

    /// The answer is whole: what is left of its text can be spoken too.
    pub(crate) fn end(&mut self) {
        if self.first_segment.is_none() && !self.segmenter.finish().is_empty() {
            self.first_segment = Some(Instant::now());
        }
    }

    fn arrived(&mut self) -> Instant {
        let now = Instant::now();
        if let Some(last) = self.last.replace(now) {
            self.gaps.push(now - last);
        }
        now
    }

    /// What it brought, in a run that began at `start`, sent at `sent`, over now.
    pub(crate) fn record(
        self,
        start: Instant,
        sent: Instant,
        counted: bool,
        outcome: Outcome,
    ) -> Record {
        let since = |at: Instant| at.saturating_duration_since(self.due);
        Record {
            due: self.due - start,
            counted,
            late: since(sent),
            first_text: self.first_text.map(since),
            first_segment: self.first_segment.map(since),
            total: since(Instant::now()),
            gaps: self.gaps,
            outcome,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const STEP: Duration = Duration::from_millis(100);

    #[tokio::test(start_paused = true)]
    async fn the_first_segment_comes_with_the_text_that_decides_it() {
        let start = Instant::now();
        let mut answer = Answer::new(start);
        for text in ["Yes", ".", " It", " keeps rain out.", ""] {
            tokio::time::advance(STEP).await;
            answer.text(text);
        }
        answer.end();
        let record = answer.record(start, start, true, Outcome::Completed);
        assert_eq!(record.first_text, Some(STEP));
        assert_eq!(record.first_segment, Some(STEP * 3));
        assert_eq!(record.gaps, [STEP; 3]);
        assert_eq!(record.total, STEP * 5);
    }

    #[tokio::test(start_paused = true)]
    async fn text_without_an_end_is_spoken_when_the_answer_is_whole() {
        let start = Instant::now();
        let mut answer = Answer::new(start);
        answer.text("It keeps rain out");
        tokio::time::advance(STEP).await;
        answer.end();
        let record = answer.record(start, start, true, Outcome::Completed);
        assert_eq!(record.first_segment, Some(STEP));
    }
}
