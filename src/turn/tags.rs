//! Tags such as `[happy]`: taken out of the text while it is being written, and given to the clause that they stand in.
//! Only names that are allowed are tags; everything else in brackets is text.

use std::collections::VecDeque;

use super::request::Showable;
use crate::harness::Settings;

/// Longest name, in characters.
const LONGEST: usize = 32;

/// What a name shows.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Shows {
    Emotion,
    Gesture,
    /// The harness teaches it and the front end does not know it: it is neither said nor shown.
    Nothing,
}

/// What a clause shows beside its words.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Shown {
    pub(super) emotion: Option<String>,
    pub(super) gesture: Option<String>,
}

/// The state between two pieces of text.
#[derive(Debug)]
pub(super) struct Tags {
    names: Vec<(String, Shows)>,
    /// What may become a tag: from its bracket on.
    held: String,
    /// Characters given on as text.
    written: usize,
    /// Whether the last of them was a space, or there was none yet.
    spaced: bool,
    /// A tag came right before: the space after it goes with it.
    skip_space: bool,
    /// Tags by the place where they stood.
    found: VecDeque<(usize, String, Shows)>,
    /// Characters of the clauses that were asked for.
    spoken: usize,
}

impl Tags {
    /// The tags of a harness, and those that a front end knows besides.
    pub(super) fn new(settings: &Settings, showable: &Showable) -> Self {
        let known = &showable.emotions;
        let mut names: Vec<(String, Shows)> = Vec::new();
        for emotion in &settings.emotions {
            let shown = known.is_empty() || known.contains(emotion);
            let shows = if shown {
                Shows::Emotion
            } else {
                Shows::Nothing
            };
            names.push((emotion.clone(), shows));
        }
        names.extend(known.iter().map(|name| (name.clone(), Shows::Emotion)));
        names.extend(
            settings
                .gestures
                .iter()
                .map(|name| (name.clone(), Shows::Gesture)),
        );
        Self {
            names,
            held: String::new(),
            written: 0,
            spaced: true,
            skip_space: false,
            found: VecDeque::new(),
            spoken: 0,
        }
    }

    /// Takes what the model wrote; gives the text without its tags.
    pub(super) fn push(&mut self, text: &str) -> String {
        let mut out = String::with_capacity(text.len());
        for c in text.chars() {
            self.step(c, &mut out);
        }
        out
    }

    /// The model has ended: what might have become a tag is text.
    pub(super) fn finish(&mut self) -> String {
        let mut out = String::new();
        let held = std::mem::take(&mut self.held);
        held.chars().for_each(|c| self.text(c, &mut out));
        out
    }

    /// What the next clause shows, `chars` characters of the text; of several tags of a kind the first. The last
    /// clause has the tags after it, too.
    pub(super) fn clause(&mut self, chars: usize, is_last: bool) -> Shown {
        self.spoken += chars;
        let mut shown = Shown::default();
        while let Some((at, _, _)) = self.found.front()
            && (*at < self.spoken || is_last)
        {
            let Some((_, name, shows)) = self.found.pop_front() else {
                break;
            };
            match shows {
                Shows::Emotion => shown.emotion = shown.emotion.or(Some(name)),
                Shows::Gesture => shown.gesture = shown.gesture.or(Some(name)),
                Shows::Nothing => {}
            }
        }
        shown
    }

    fn step(&mut self, c: char, out: &mut String) {
        if self.held.is_empty() {
            match c {
                '[' if !self.names.is_empty() => self.held.push(c),
                _ => self.text(c, out),
            }
            return;
        }
        if c == ']' {
            let name = self.held[1..].to_lowercase();
            let known = self
                .names
                .iter()
                .find(|(known, _)| known.to_lowercase() == name);
            if let Some((known, shows)) = known {
                self.found.push_back((self.written, known.clone(), *shows));
                self.held.clear();
                self.skip_space = self.spaced;
                return;
            }
        }
        let in_name = c.is_alphanumeric() || c == '_' || c == '-';
        if in_name && self.held.chars().count() <= LONGEST {
            self.held.push(c);
            return;
        }
        let held = std::mem::take(&mut self.held);
        held.chars().for_each(|c| self.text(c, out));
        self.step(c, out);
    }

    fn text(&mut self, c: char, out: &mut String) {
        if std::mem::take(&mut self.skip_space) && c == ' ' {
            return;
        }
        self.spaced = c.is_whitespace();
        self.written += 1;
        out.push(c);
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn tags(emotions: &[&str]) -> Tags {
        let settings = Settings {
            emotions: vec!["happy".to_owned(), "calm".to_owned()],
            gestures: vec!["wave".to_owned()],
            ..Settings::default()
        };
        let showable = Showable {
            emotions: emotions.iter().map(|name| (*name).to_owned()).collect(),
            ..Showable::default()
        };
        Tags::new(&settings, &showable)
    }

    fn shown(emotion: Option<&str>, gesture: Option<&str>) -> Shown {
        Shown {
            emotion: emotion.map(str::to_owned),
            gesture: gesture.map(str::to_owned),
        }
    }

    #[test]
    fn tags_leave_the_text_and_belong_to_the_clause_that_they_stand_in() {
        let mut tags = tags(&[]);
        let text = tags.push("[Happy] Hi! [wave][calm] Bye [x] [happ");
        assert_eq!(text + tags.finish().as_str(), "Hi! Bye [x] [happ");
        assert_eq!(tags.clause("Hi! ".len(), false), shown(Some("happy"), None));
        assert_eq!(
            tags.clause("Bye [x] ".len(), false),
            shown(Some("calm"), Some("wave"))
        );
        assert_eq!(tags.clause(5, true), Shown::default());
    }

    #[test]
    fn a_tag_after_the_last_word_belongs_to_the_last_clause() {
        let mut tags = tags(&[]);
        assert_eq!(tags.push("Bye! [wave]"), "Bye! ");
        assert_eq!(tags.clause(5, true), shown(None, Some("wave")));
    }

    #[test]
    fn what_the_front_end_does_not_know_is_neither_said_nor_shown_and_what_it_knows_besides_is() {
        let mut tags = tags(&["calm", "proud"]);
        assert_eq!(tags.push("[happy]Yes[proud]!"), "Yes!");
        assert_eq!(tags.clause(4, true), shown(Some("proud"), None));
    }

    #[test]
    fn without_names_nothing_is_held_back() {
        let mut tags = Tags::new(&Settings::default(), &Showable::default());
        assert_eq!(tags.push("[happy] ["), "[happy] [");
    }

    proptest! {
        #[test]
        fn how_the_text_is_chunked_changes_nothing(
            pieces in proptest::collection::vec(proptest::sample::select(
                &["[happy]", "[", "]", "[wave]", "[hap", "py]", " ", "你好", "[x]", "[[calm]]"][..]), 0..12),
        ) {
            let whole = pieces.concat();
            let (mut one, mut many) = (tags(&[]), tags(&[]));
            let mut text = one.push(&whole);
            text += &one.finish();
            let mut chunked: String = whole.chars().map(|c| many.push(&c.to_string())).collect();
            chunked += &many.finish();
            prop_assert_eq!(&text, &chunked);
            prop_assert_eq!(one.clause(usize::MAX / 2, true), many.clause(usize::MAX / 2, true));
        }
    }
}
