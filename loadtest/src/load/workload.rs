//! The texts of a scenario, the same for the same seed: one harness, some rooms with facts of their own, many comments.

use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use compere::template::{ChatTemplate, Message};
use compere::tokenizer::Tokenizer;
use serde_json::{Value, json};

use super::drive::Call;
use super::random::Random;
use super::scenario::{Length, Texts};
use super::target::Route;
use crate::Failure;

/// The stream of random numbers that texts take.
const STREAM: u64 = 2;
/// Words that texts are made of: what is said in a shop.
const WORDS: [&str; 48] = [
    "jacket", "colour", "price", "water", "light", "warm", "size", "today", "order", "pocket",
    "zip", "fabric", "travel", "winter", "soft", "strong", "offer", "ship", "return", "week",
    "black", "blue", "green", "cotton", "wool", "sleeve", "hood", "rain", "wind", "trail", "city",
    "gift", "parcel", "wash", "dry", "iron", "stock", "small", "large", "model", "layer", "seam",
    "button", "collar", "care", "weight", "quality", "season",
];
/// Words of a line.
const LINE: usize = 12;

/// A model's tokenizer and template: what counts and renders prompts.
#[derive(Clone)]
pub(crate) struct Language {
    tokenizer: Arc<Tokenizer>,
    template: Arc<ChatTemplate>,
}

impl Language {
    /// Those of a model file.
    pub(crate) fn of(model: &Path, threads: usize) -> Result<Self, Failure> {
        let loaded = compere::model::load(model, &crate::ours::options(threads))?;
        let tokenizer = Arc::new(Tokenizer::new(loaded.tokenizer)?);
        let source = loaded
            .chat_template
            .ok_or_else(|| format!("{}: no chat template", model.display()))?;
        let template = Arc::new(ChatTemplate::new(&source, Arc::clone(&tokenizer))?);
        Ok(Self {
            tokenizer,
            template,
        })
    }

    /// Tokens of a text.
    pub(crate) fn count(&self, text: &str) -> usize {
        self.tokenizer.encode(text).len()
    }
}

/// Everything that is asked in a run.
pub(crate) struct Workload {
    route: Route,
    texts: Texts,
    seed: u64,
    language: Option<Language>,
    harness: String,
    rooms: Vec<String>,
}

impl Workload {
    /// Makes the texts. `language` is needed where lengths are in tokens, and for raw prompts.
    ///
    /// # Errors
    /// Says what needs a model.
    pub(crate) fn new(
        route: Route,
        texts: &Texts,
        seed: u64,
        language: Option<&Language>,
    ) -> Result<Self, Failure> {
        if route == Route::Completions && language.is_none() {
            return Err(
                "target = \"completions\" needs --model, whose template renders its prompts".into(),
            );
        }
        let mut random = Random::new(seed, STREAM);
        let mut text = |length| passage(&mut random, length, language);
        let harness = text(texts.harness)?;
        let rooms = (0..texts.rooms)
            .map(|_| text(texts.room_facts))
            .collect::<Result<_, _>>()?;
        Ok(Self {
            route,
            texts: texts.clone(),
            seed,
            language: language.cloned(),
            harness,
            rooms,
        })
    }

    /// What every request begins with.
    pub(crate) fn harness(&self) -> &str {
        &self.harness
    }

    /// The request with this number. The first ones visit each room once.
    pub(crate) fn call(&self, index: usize) -> Call {
        let mut random = Random::new(self.seed, STREAM + 1 + index as u64);
        let room = if index < self.rooms.len() {
            index
        } else {
            random.below(self.rooms.len())
        };
        let comment = format!("{}?", words(&mut random, self.texts.comment_words));
        let leaves = (random.unit() < self.texts.disconnect_share).then(|| {
            let within = Duration::from_millis(self.texts.disconnect_within_ms);
            within.mul_f64(random.unit())
        });
        let body = match self.route {
            Route::Respond => self.turn(index, room, &comment),
            Route::Completions => json!({
                "prompt": self.prompt(room, &comment),
                "max_tokens": self.texts.answer_tokens,
                "temperature": 0,
                "ignore_eos": true,
                "stream": true,
            }),
            Route::Chat => json!({
                "messages": [
                    {"role": "system", "content": self.harness},
                    {"role": "user", "content": self.question(room, &comment)},
                ],
                "max_tokens": self.texts.answer_tokens,
                "temperature": 0,
                "stream": true,
            }),
        };
        Call {
            body: body.to_string(),
            leaves,
        }
    }

    /// Token ids of the whole prompt.
    fn prompt(&self, room: usize, comment: &str) -> Vec<u32> {
        let language = self
            .language
            .as_ref()
            .expect("raw prompts were refused without one");
        let messages = [
            Message::new("system", self.harness.as_str()),
            Message::new("user", self.question(room, comment)),
        ];
        let prompt = language.template.render(&messages);
        prompt
            .expect("a template renders what it was tried on")
            .tokens
    }

    fn question(&self, room: usize, comment: &str) -> String {
        format!(
            "Product facts:\n{}\n\nUsing the facts, answer this question from a viewer: {comment}",
            self.rooms[room]
        )
    }

    /// Rooms share facts; each question is heard in a room of its own, since one room's answers follow one another.
    fn turn(&self, index: usize, room: usize, comment: &str) -> Value {
        let facts: serde_json::Map<String, Value> = self.rooms[room]
            .lines()
            .enumerate()
            .map(|(line, fact)| (format!("fact {}", line + 1), json!(fact)))
            .collect();
        json!({
            "room_id": format!("room-{room}-{index}"),
            "stream": true,
            "deadline_ms": self.texts.deadline_ms,
            "comments": [{"text": comment}],
            "context": {"product_id": format!("product-{room}"), "facts": facts},
            "policy": {"max_chars": self.texts.answer_chars},
        })
    }
}

fn words(random: &mut Random, count: usize) -> String {
    let words: Vec<&str> = (0..count)
        .map(|_| WORDS[random.below(WORDS.len())])
        .collect();
    words.join(" ")
}

/// Lines of words, as long as asked: of tokens at most a word's less.
fn passage(
    random: &mut Random,
    length: Length,
    language: Option<&Language>,
) -> Result<String, Failure> {
    let mut text = String::new();
    match length {
        Length::Words(count) => {
            for at in 0..count {
                push_word(&mut text, at, random);
            }
        }
        Length::Tokens(tokens) => {
            let language = language.ok_or("a length in tokens needs --model")?;
            // A word has one token or more, so this many words are enough; they are counted once and cut.
            for at in 0..tokens {
                push_word(&mut text, at, random);
            }
            let ids = language.tokenizer.encode(&text);
            text = language.tokenizer.decode(&ids[..tokens.min(ids.len())]);
        }
    }
    Ok(text)
}

fn push_word(text: &mut String, at: usize, random: &mut Random) {
    if at > 0 {
        text.push(if at.is_multiple_of(LINE) { '\n' } else { ' ' });
    }
    text.push_str(WORDS[random.below(WORDS.len())]);
}

#[cfg(test)]
mod tests {
    use std::collections::HashSet;

    use super::*;

    fn workload(route: Route, texts: &Texts) -> Workload {
        Workload::new(route, texts, 5, None).expect("needs no model")
    }

    #[test]
    fn texts_are_as_long_as_asked_and_follow_from_the_seed() {
        let texts = Texts::default();
        let made = workload(Route::Chat, &texts);
        assert_eq!(made.harness().split_whitespace().count(), 1000);
        assert_eq!(made.rooms.len(), 8);
        let bodies = |seed| -> Vec<String> {
            let made = Workload::new(Route::Chat, &texts, seed, None).expect("needs no model");
            (0..20).map(|index| made.call(index).body).collect()
        };
        assert_eq!(bodies(1), bodies(1));
        assert_ne!(bodies(1), bodies(2));
        assert_eq!(bodies(1).into_iter().collect::<HashSet<_>>().len(), 20);
    }

    #[test]
    fn the_first_requests_visit_each_room_once() {
        let made = workload(Route::Respond, &Texts::default());
        let rooms: HashSet<String> = (0..made.rooms.len())
            .map(|index| {
                let body: Value = serde_json::from_str(&made.call(index).body).expect("JSON");
                body["room_id"].to_string()
            })
            .collect();
        assert_eq!(rooms.len(), 8);
    }

    #[test]
    fn as_many_callers_leave_as_asked() {
        let texts = Texts {
            disconnect_share: 0.25,
            ..Texts::default()
        };
        let made = workload(Route::Respond, &texts);
        let leaving: Vec<Duration> = (0..1000)
            .filter_map(|index| made.call(index).leaves)
            .collect();
        assert!((200..300).contains(&leaving.len()), "{}", leaving.len());
        assert!(leaving.iter().all(|after| *after < Duration::from_secs(1)));
    }

    #[test]
    fn what_needs_a_model_says_so() {
        let tokens = Texts {
            harness: Length::Tokens(10),
            ..Texts::default()
        };
        for (route, texts) in [
            (Route::Completions, &Texts::default()),
            (Route::Chat, &tokens),
        ] {
            let error = Workload::new(route, texts, 1, None).err().expect("refused");
            assert!(error.to_string().contains("--model"), "{error}");
        }
    }
}
