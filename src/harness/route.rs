//! What comments ask of a harness: which skills they activate, and which facts of a product are told for that. A pure
//! function of the comments' words, so that neither costs a round of the model.

use std::collections::BTreeSet;

use super::snapshot::ranked;
use super::{Harness, Skill};

/// The name by which topics and `avatar/facts` ask for a product's promotions.
pub const PROMOTIONS: &str = "promotions";

/// What comments ask for.
#[derive(Clone, Debug, Default)]
pub struct Route<'a> {
    /// Skills that the comments activate, in order of priority and then of names.
    pub skills: Vec<&'a Skill>,
    /// Facts that the comments' words name, in order of the skills and their topics; empty where they name none.
    pub asked: Vec<&'a str>,
    /// Facts that the skills speak about where nothing is asked; `None` is all.
    spoken: Option<BTreeSet<&'a str>>,
    /// Every fact that some skill of the harness speaks about.
    known: BTreeSet<&'a str>,
}

impl Harness {
    /// Reads what comments ask for. Each comment activates one skill, the first in order of priority that its words
    /// trigger: a small model that follows two instructions follows neither.
    #[must_use]
    pub fn route(&self, comments: &[&str]) -> Route<'_> {
        let ranked = ranked(&self.skills);
        let mut route = Route {
            known: names(&ranked),
            ..Route::default()
        };
        for skill in &ranked {
            let is_first = |comment: &&&str| {
                let first = ranked.iter().find(|skill| skill.triggers.matches(comment));
                first.is_some_and(|first| first.name == skill.name)
            };
            let own: Vec<&str> = comments.iter().filter(is_first).copied().collect();
            if own.is_empty() {
                continue;
            }
            route.skills.push(skill);
            let topics = skill.topics.iter();
            let asked =
                topics.filter(|topic| own.iter().any(|comment| topic.asked_by.matches(comment)));
            route.asked.extend(asked.map(|topic| topic.fact.as_str()));
        }
        let all_name_facts = route.skills.iter().all(|skill| !skill.facts.is_empty());
        route.spoken = (all_name_facts && !route.skills.is_empty()).then(|| names(&route.skills));
        route
    }
}

fn names<'a>(skills: &[&'a Skill]) -> BTreeSet<&'a str> {
    skills
        .iter()
        .flat_map(|skill| &skill.facts)
        .map(String::as_str)
        .collect()
}

impl<'a> Route<'a> {
    /// Whether the fact of this name, or [`PROMOTIONS`], is told to the model. What no skill speaks about is always told:
    /// a request that brings facts of its own wants them used.
    #[must_use]
    pub fn wants(&self, fact: &str) -> bool {
        if !self.known.contains(fact) {
            return true;
        }
        match &self.spoken {
            _ if !self.asked.is_empty() => self.asked.contains(&fact),
            Some(spoken) => spoken.contains(fact),
            None => true,
        }
    }

    /// The line that is said without asking the model: where what is asked is not known (`knows` tells whether any fact
    /// is), since a model that is asked all the same makes something up, and where the one active skill has such lines.
    /// `comment` chooses among them, so that viewers do not all hear the same.
    #[must_use]
    pub fn line(&self, knows: bool, comment: &str) -> Option<&'a str> {
        let [only] = self.skills[..] else {
            return None;
        };
        if !self.asked.is_empty() && !knows {
            return only.fallback.as_deref();
        }
        let sum: usize = comment.bytes().map(usize::from).sum();
        let chosen = sum.checked_rem(only.say.len())?;
        Some(&only.say[chosen])
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::harness::{load, testing};

    fn harness(skills: &[(&str, &str)]) -> Harness {
        let mut source = testing::source("a host");
        for (name, metadata) in skills {
            let lines: Vec<_> = metadata
                .lines()
                .map(|line| format!("  avatar/{line}\n"))
                .collect();
            let text = format!(
                "---\nname: {name}\ndescription: d\nmetadata:\n{}---\nb\n",
                lines.concat()
            );
            source.insert(format!("skills/{name}/SKILL.md"), text.into_bytes());
        }
        load("live-room", &source).expect("valid").harness
    }

    fn shop() -> Harness {
        harness(&[
            (
                "price",
                "priority: 20\ntopics: 'price: cost, how much'\nfallback: I will look.",
            ),
            (
                "about",
                "priority: 10\nfacts: about\ntopics: 'rain: wet, rain'\nfallback: No idea.",
            ),
            ("hello", "priority: -1\ntriggers: hi, hello\nfacts: about"),
            (
                "else",
                "priority: -2\ntriggers: /\\S/\nsay: Ask me about it.",
            ),
        ])
    }

    fn active<'a>(route: &Route<'a>) -> Vec<&'a str> {
        route
            .skills
            .iter()
            .map(|skill| skill.name.as_str())
            .collect()
    }

    #[test]
    fn each_comment_activates_the_first_skill_that_its_words_trigger() {
        let shop = shop();
        for (comments, skills) in [
            (
                &["hi, is it for rain and what does it cost"][..],
                &["price"][..],
            ),
            (&["hello"], &["hello"]),
            (&["who are you"], &["else"]),
            (
                &["who are you", "hi", "how much"],
                &["price", "hello", "else"],
            ),
            (&[], &[]),
        ] {
            assert_eq!(active(&shop.route(comments)), skills, "{comments:?}");
        }
    }

    #[test]
    fn what_is_asked_is_told_and_what_nobody_speaks_about_is_told_always() {
        let shop = shop();
        let told = |comments: &[&str]| -> Vec<&str> {
            let route = shop.route(comments);
            let facts = ["price", "rain", "about", "origin"];
            facts.into_iter().filter(|fact| route.wants(fact)).collect()
        };
        assert_eq!(told(&["hi, how much?"]), ["price", "origin"]);
        assert_eq!(told(&["cost?", "wet?"]), ["price", "rain", "origin"]);
        assert_eq!(told(&["hello"]), ["about", "origin"]);
        assert_eq!(told(&[]), ["price", "rain", "about", "origin"]);
        // A skill that names no facts speaks about all.
        assert_eq!(told(&["who are you"]), ["price", "rain", "about", "origin"]);
    }

    #[test]
    fn a_line_is_said_for_what_is_not_known_and_by_a_skill_that_has_one() {
        let shop = shop();
        for (comment, knows, line) in [
            ("how much?", true, None),
            ("how much?", false, Some("I will look.")),
            ("is it for rain?", false, Some("No idea.")),
            ("hello", false, None),
            ("who are you", true, Some("Ask me about it.")),
        ] {
            assert_eq!(
                shop.route(&[comment]).line(knows, comment),
                line,
                "{comment}"
            );
        }
        let both = ["how much?", "who are you"];
        assert_eq!(
            shop.route(&both).line(false, both[0]),
            None,
            "one line cannot answer two"
        );
        let lines = harness(&[("else", "triggers: /\\S/\nsay: \"One.\\nTwo.\"")]);
        let said = |comment: &'static str| {
            lines
                .route(&[comment])
                .line(true, comment)
                .map(str::to_owned)
        };
        assert_ne!(said("a"), said("b"));
        assert_eq!(said("a"), said("a"));
    }
}
