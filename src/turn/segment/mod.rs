//! Cuts an answer into clauses to speak while it is being written. Character by character, so that how the text was
//! chunked changes nothing. A clause is given away only when what follows it is sure to have words of its own:
//! marks, emoji and spaces at the end of the answer always find a clause that carries them.

mod hard;
mod mark;

use self::mark::{Brackets, Run};
use super::speech::{spoken_chars, surely_spoken, tts_text};

/// Longest clause: 60 wide (CJK) or 180 narrow characters.
const HARD_WIDTH: usize = 180;
/// The first clause may end at a comma when it is this wide: 6 wide or 18 narrow characters.
const FIRST_WIDTH: usize = 18;
/// A clause with fewer letters and digits joins the next.
const FEWEST_SPOKEN: usize = 2;
/// How much further to look when no place for a hard cut was found.
const HARD_STEP: usize = 12;

/// A piece of the answer that can be spoken.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Clause {
    /// As written.
    pub text: String,
    /// As said; never empty.
    pub tts_text: String,
    /// Silence after it.
    pub pause_ms: u64,
}

/// The state between two pieces of text.
#[derive(Debug)]
pub struct Segmenter {
    pending: String,
    /// Whether `pending` begins a line, where list marks may stand.
    line_start: bool,
    emitted: usize,
    /// Most characters of a clause.
    max_chars: usize,
    scan: Scan,
}

/// What is known of `pending`.
#[derive(Debug)]
struct Scan {
    width: usize,
    chars: usize,
    /// Where the next clause ends, once decided.
    cut: Option<usize>,
    /// Where the last comma-like mark ends.
    clause: Option<usize>,
    /// Marks at the end of `pending` whose meaning the next character decides.
    run: Option<Run>,
    brackets: Brackets,
    /// Width beyond which a hard cut is looked for.
    limit: usize,
}

impl Default for Scan {
    fn default() -> Self {
        Self {
            width: 0,
            chars: 0,
            cut: None,
            clause: None,
            run: None,
            brackets: Brackets::default(),
            limit: HARD_WIDTH,
        }
    }
}

impl Segmenter {
    /// An empty answer whose clauses have at most `max_chars` characters.
    #[must_use]
    pub fn new(max_chars: usize) -> Self {
        Self {
            pending: String::new(),
            line_start: true,
            emitted: 0,
            max_chars: max_chars.max(1),
            scan: Scan::default(),
        }
    }

    /// Adds text; gives the clauses that are decided by it.
    pub fn push(&mut self, text: &str) -> Vec<Clause> {
        let mut out = Vec::new();
        for c in text.chars() {
            self.step(c, &mut out);
        }
        out
    }

    /// The whole answer was written: what is left is spoken too. Nothing comes out of text without words.
    pub fn finish(&mut self) -> Vec<Clause> {
        let mut out = Vec::new();
        while let Some(cut) = self.scan.cut {
            if spoken_chars(&self.pending[cut..], self.starts_line_at(cut)) < FEWEST_SPOKEN {
                break;
            }
            self.emit(cut, &mut out);
        }
        if spoken_chars(&self.pending, self.line_start) > 0 {
            self.emit(self.pending.len(), &mut out);
        }
        out
    }

    /// Nothing came for a while: gives what can be spoken up to the last clause. Marks that end the answer after that
    /// find no clause to carry them and are left out.
    pub(super) fn flush_quiet(&mut self) -> Vec<Clause> {
        let mut out = Vec::new();
        while let Some(cut) = self.whole_end().or_else(|| self.clause_end()) {
            self.emit(cut, &mut out);
        }
        out
    }

    /// The answer is cut here: gives the last whole clause and drops the rest. Where nothing was spoken yet, half a
    /// sentence up to its last comma is better than silence.
    pub(super) fn cut_short(&mut self) -> Vec<Clause> {
        let mut out = Vec::new();
        while let Some(cut) = self.whole_end() {
            self.emit(cut, &mut out);
        }
        if self.emitted == 0
            && let Some(cut) = self.clause_end()
        {
            self.emit(cut, &mut out);
        }
        self.pending.clear();
        self.scan = Scan::default();
        out
    }

    /// Characters that are not given away yet.
    pub(super) fn pending_chars(&self) -> usize {
        self.scan.chars
    }

    /// Whether the end of the next clause is decided and only waits for words after it.
    pub(super) fn has_cut(&self) -> bool {
        self.scan.cut.is_some()
    }

    fn step(&mut self, c: char, out: &mut Vec<Clause>) {
        let end = self.pending.len() + c.len_utf8();
        let Scan { run, brackets, .. } = &mut self.scan;
        let continued = run.as_mut().is_some_and(|run| run.extend(c, end, brackets));
        if !continued {
            self.close_run(Some(c));
            let previous = self.pending.chars().next_back();
            self.scan.brackets.track(c, previous);
            self.scan.run = Run::start(c, end);
        }
        self.pending.push(c);
        self.scan.width += width(c);
        self.scan.chars += 1;
        self.cut_hard();
        if let Some(cut) = self.scan.cut
            && cut < self.pending.len()
            && surely_spoken(&self.pending[cut..], self.starts_line_at(cut))
        {
            self.emit(cut, out);
        }
    }

    /// Decides what the marks before `next` mean.
    fn close_run(&mut self, next: Option<char>) {
        let Some(run) = self.scan.run.take() else {
            return;
        };
        if run.newline {
            self.scan.brackets.clear();
        }
        if self.scan.cut.is_some() || !self.scan.brackets.is_empty() {
            return;
        }
        let before = &self.pending[..run.start];
        if run.ends_sentence(before, next) {
            self.scan.cut = self.speakable(run.end);
        } else if run.ends_clause(before, next) && self.speakable(run.end).is_some() {
            self.scan.clause = Some(run.end);
            if self.emitted == 0 && text_width(&self.pending[..run.end]) >= FIRST_WIDTH {
                self.scan.cut = Some(run.end);
            }
        }
    }

    /// Cuts a clause that grew too long.
    fn cut_hard(&mut self) {
        let too_wide = self.scan.width > self.scan.limit;
        let too_long = self.scan.chars > self.max_chars && self.scan.limit == HARD_WIDTH;
        if self.scan.cut.is_some() || !(too_wide || too_long) {
            return;
        }
        let found = hard::place(
            &self.pending,
            self.scan.limit,
            self.max_chars,
            self.scan.clause,
        );
        self.scan.cut = found.and_then(|cut| self.speakable(cut));
        if self.scan.cut.is_none() {
            self.scan.limit = self.scan.width + HARD_STEP;
        }
    }

    /// `end`, if there is enough to say before it.
    fn speakable(&self, end: usize) -> Option<usize> {
        (spoken_chars(&self.pending[..end], self.line_start) >= FEWEST_SPOKEN).then_some(end)
    }

    /// Where the next clause ends when nothing more comes for now; open numbers and abbreviations do not end it.
    fn whole_end(&self) -> Option<usize> {
        if self.scan.cut.is_some() {
            return self.scan.cut;
        }
        let run = self.scan.run.as_ref()?;
        if !self.scan.brackets.is_empty() || !run.ends_if_last(&self.pending[..run.start]) {
            return None;
        }
        self.speakable(run.end)
    }

    /// Where the last comma-like mark ends, the one at the very end included.
    fn clause_end(&self) -> Option<usize> {
        let last = self.scan.run.as_ref().filter(|run| {
            self.scan.brackets.is_empty() && run.ends_clause(&self.pending[..run.start], None)
        });
        let last = last.and_then(|run| self.speakable(run.end));
        last.or(self.scan.clause)
    }

    /// Whether what follows `cut` begins a line.
    fn starts_line_at(&self, cut: usize) -> bool {
        let spaces = self.pending[..cut].trim_end().len();
        if spaces == 0 {
            return self.line_start || self.pending[..cut].contains('\n');
        }
        self.pending[spaces..cut].contains('\n')
    }

    fn emit(&mut self, cut: usize, out: &mut Vec<Clause>) {
        let line_start = self.starts_line_at(cut);
        let tail = self.pending.split_off(cut);
        let text = std::mem::take(&mut self.pending);
        out.push(Clause {
            tts_text: tts_text(&text, self.line_start),
            pause_ms: pause_ms(&text),
            text,
        });
        self.emitted += 1;
        self.line_start = line_start;
        self.scan = Scan::default();
        for c in tail.chars() {
            self.step(c, out);
        }
    }
}

/// Silence after a clause, by the mark that ends it.
fn pause_ms(text: &str) -> u64 {
    let words = text.trim_end();
    let marks = words.trim_end_matches(['"', '”', '’', '\'', '」', '』', '）', ')', '*']);
    match marks.chars().next_back() {
        Some('…') => 400,
        Some('.' | '。' | '｡' | '!' | '！' | '?' | '？') => 300,
        Some(';' | '；' | ':' | '：') => 200,
        Some(',' | '，' | '、') => 120,
        _ if text[words.len()..].contains('\n') => 300,
        _ => 0,
    }
}

/// East Asian characters take three times the time of a Latin letter.
fn width(c: char) -> usize {
    if is_wide(c) { 3 } else { 1 }
}

fn is_wide(c: char) -> bool {
    matches!(c, '\u{1100}'..='\u{11ff}' | '\u{2e80}'..='\u{d7ff}' | '\u{f900}'..='\u{faff}' | '\u{fe30}'..='\u{fe4f}'
        | '\u{ff00}'..='\u{ffef}' | '\u{20000}'..='\u{3ffff}')
}

fn text_width(text: &str) -> usize {
    text.chars().map(width).sum()
}

#[cfg(test)]
mod tests;
