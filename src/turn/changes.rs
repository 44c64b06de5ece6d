//! Why a prompt was not found in the cache: the first of its sections that differs from its room's prompt before.

use std::collections::{HashMap, VecDeque};
use std::sync::{Mutex, PoisonError};

use crate::harness::Section;
use crate::harness::prompt::Fingerprint;
use crate::telemetry::Metrics;
use crate::template::Message;

/// Rooms that are remembered; the one that was noted first goes first.
const ROOMS: usize = 1024;

/// A section of a prompt: its kind, a word of a fixed set, and what tells its text apart.
pub(super) type Print = (&'static str, Fingerprint);

/// The last prompt of each room, as its sections' fingerprints.
#[derive(Debug, Default)]
pub(super) struct Changes(Mutex<Rooms>);

#[derive(Debug, Default)]
struct Rooms {
    last: HashMap<String, Vec<Print>>,
    order: VecDeque<String>,
}

impl Changes {
    /// Notes a room's prompt and counts the first section that differs from the one before; the first prompt of a room
    /// differs from none.
    pub(super) fn note(&self, room_id: &str, prompt: Vec<Print>, metrics: &Metrics) {
        let mut rooms = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let changed = rooms
            .last
            .get(room_id)
            .map(|last| first_changed(last, &prompt));
        match changed {
            Some(Some(section)) => metrics.cache_miss(section),
            Some(None) => return,
            None => {
                rooms.order.push_back(room_id.to_owned());
                if rooms.order.len() > ROOMS
                    && let Some(oldest) = rooms.order.pop_front()
                {
                    rooms.last.remove(&oldest);
                }
            }
        }
        rooms.last.insert(room_id.to_owned(), prompt);
    }
}

fn first_changed(last: &[Print], now: &[Print]) -> Option<&'static str> {
    let differs = last.iter().zip(now).find(|(last, now)| last != now);
    let longer = || now.get(last.len()).or_else(|| last.get(now.len()));
    let (section, _) = differs.map(|(_, now)| now).or_else(longer)?;
    Some(section)
}

/// Sections of a prompt: those of the harness, what the turn adds to the system message, what was said before, what is
/// known, what is asked.
pub(super) fn of_prompt<'a>(
    told: impl Iterator<Item = &'a Section>,
    messages: &[Message],
) -> Vec<Print> {
    let mut prints: Vec<Print> = told
        .map(|section| (section.kind.word(), section.fingerprint))
        .collect();
    let Some((question, before)) = messages.split_last() else {
        return prints;
    };
    for message in before {
        let kind = match message.role.as_str() {
            "system" => "instructions",
            _ => "history",
        };
        prints.push((kind, Fingerprint::of(&message.content)));
    }
    let (known, asked) = question
        .content
        .rsplit_once("\n\n")
        .unwrap_or(("", &question.content));
    prints.push(("facts", Fingerprint::of(known)));
    prints.push(("comments", Fingerprint::of(asked)));
    prints
}

#[cfg(test)]
mod tests {
    use super::*;

    fn prints(texts: &[(&'static str, &str)]) -> Vec<Print> {
        let print = |(kind, text): &(&'static str, &str)| (*kind, Fingerprint::of(text));
        texts.iter().map(print).collect()
    }

    fn misses(metrics: &Metrics) -> Vec<String> {
        let text = metrics.render();
        let lines = text
            .lines()
            .filter(|line| line.starts_with("avatar_cache_miss_total{"));
        lines.map(str::to_owned).collect()
    }

    #[test]
    fn the_first_section_that_differs_is_counted_and_rooms_do_not_mix() {
        let (changes, metrics) = (Changes::default(), Metrics::new());
        let first = [("persona", "a"), ("skills", "b"), ("comments", "c")];
        changes.note("r1", prints(&first), &metrics);
        changes.note("r1", prints(&first), &metrics);
        changes.note("r2", prints(&[("persona", "z")]), &metrics);
        assert_eq!(misses(&metrics), Vec::<String>::new());
        changes.note(
            "r1",
            prints(&[first[0], ("skills", "B"), ("comments", "C")]),
            &metrics,
        );
        changes.note(
            "r1",
            prints(&[first[0], ("skills", "B"), ("comments", "D")]),
            &metrics,
        );
        changes.note("r2", prints(&[("persona", "z"), ("skills", "y")]), &metrics);
        let counted = misses(&metrics).join("\n");
        assert!(
            counted.contains("{first_changed=\"skills\"} 2"),
            "{counted}"
        );
        assert!(
            counted.contains("{first_changed=\"comments\"} 1"),
            "{counted}"
        );
    }

    #[test]
    fn rooms_without_end_are_not_all_remembered() {
        let (changes, metrics) = (Changes::default(), Metrics::new());
        for room in 0..3 * ROOMS {
            changes.note(&format!("r{room}"), prints(&[("persona", "a")]), &metrics);
        }
        let rooms = changes.0.lock().expect("nobody panicked");
        assert_eq!((rooms.last.len(), rooms.order.len()), (ROOMS, ROOMS));
        assert!(rooms.last.contains_key(&format!("r{}", 3 * ROOMS - 1)));
    }

    #[test]
    fn what_is_known_and_what_is_asked_are_told_apart() {
        let message = |role: &str, content: &str| Message::new(role, content);
        let messages = [
            message("system", "You are Mia."),
            message("user", "hi"),
            message("user", "Product facts:\nprice: 1\n\nanswer: is it red?"),
        ];
        let kinds: Vec<_> = of_prompt([].iter(), &messages)
            .into_iter()
            .map(|(kind, _)| kind)
            .collect();
        assert_eq!(kinds, ["instructions", "history", "facts", "comments"]);
        assert_eq!(
            of_prompt([].iter(), &messages)[2].1,
            Fingerprint::of("Product facts:\nprice: 1")
        );
    }
}
