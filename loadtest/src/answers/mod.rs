//! How many of sixty viewers' questions a server answers rightly with a harness: at temperature 0, one turn after
//! another, each in a room of its own, judged by patterns that an answer must and must not hold.

mod question;
mod server;

use std::path::{Path, PathBuf};

use serde_json::{Value, json};

use self::question::Question;
use self::server::{Server, Start};
use crate::Failure;
use crate::figure::{Bound, Figure};

/// What is asked, and of whom.
pub(crate) struct Options {
    /// A server that runs; else one is started.
    pub(crate) url: Option<String>,
    /// The compere program.
    pub(crate) program: PathBuf,
    /// The model's file.
    pub(crate) model: PathBuf,
    /// Compute threads.
    pub(crate) threads: usize,
    /// Folder of the harness.
    pub(crate) harness: PathBuf,
    /// File of questions.
    pub(crate) questions: PathBuf,
    /// The persona alone, and every fact of the product in the request.
    pub(crate) plain: bool,
    /// Fewest right answers.
    pub(crate) least: u32,
}

/// Long enough for any machine: it is the words that are measured here.
const DEADLINE_MS: u64 = 60_000;
/// Longest answer, in characters.
const MAX_CHARS: usize = 160;

/// Asks everything, prints the wrong answers and each kind's count; the figure of all.
pub(crate) fn figures(options: &Options) -> Result<Vec<Figure>, Failure> {
    let questions = question::read(&options.questions)?;
    let server = match &options.url {
        Some(url) => Server::at(url),
        None => Server::start(&Start {
            program: &options.program,
            model: &options.model,
            threads: options.threads,
            harness: &options.harness,
            plain: options.plain,
        })?,
    };
    if !server.is_own() && options.plain {
        return Err("--plain needs a server of its own: leave --url out".into());
    }
    let mut tally = Tally::default();
    for (index, question) in questions.iter().enumerate() {
        let context = context(question, options)?;
        let reply = server.ask(&request(index, question, &context))?;
        let answer = text(&reply);
        let right = question.is_right(&answer);
        if !right {
            println!(
                "wrong {} {:?} about {}: {answer:?}",
                question.kind, question.text, question.product_id
            );
        }
        tally.add(&question.kind, right);
    }
    for (kind, right, all) in &tally.kinds {
        println!("answers {kind} {right}/{all}");
    }
    Ok(vec![Figure::new(
        "answers_right",
        f64::from(tally.right()),
        "of60",
        Bound::AtLeast(f64::from(options.least)),
    )])
}

/// Right answers and all answers of each kind, in order of appearance.
#[derive(Default)]
struct Tally {
    kinds: Vec<(String, u32, u32)>,
}

impl Tally {
    fn add(&mut self, kind: &str, right: bool) {
        let at = self.kinds.iter().position(|(known, ..)| known == kind);
        let at = at.unwrap_or_else(|| {
            self.kinds.push((kind.to_owned(), 0, 0));
            self.kinds.len() - 1
        });
        let (_, count, all) = &mut self.kinds[at];
        *count += u32::from(right);
        *all += 1;
    }

    fn right(&self) -> u32 {
        self.kinds.iter().map(|(_, right, _)| right).sum()
    }
}

/// What the request says of the product: its id, from which the server finds the rest, or everything.
fn context(question: &Question, options: &Options) -> Result<Value, Failure> {
    let id = &question.product_id;
    if !options.plain {
        return Ok(json!({"product_id": id}));
    }
    let product = product(&options.harness, id)?;
    let promotions = product.get("promotions").cloned().unwrap_or(json!([]));
    Ok(json!({"product_id": id, "facts": product["facts"], "promotions": promotions}))
}

fn product(harness: &Path, id: &str) -> Result<Value, Failure> {
    let path = harness.join(format!("catalog/{id}.json"));
    let text =
        std::fs::read_to_string(&path).map_err(|error| format!("{}: {error}", path.display()))?;
    Ok(serde_json::from_str(&text)?)
}

fn request(index: usize, question: &Question, context: &Value) -> Value {
    json!({
        "room_id": format!("answers-{index}"),
        "stream": false,
        "deadline_ms": DEADLINE_MS,
        "comments": [{"text": question.text}],
        "context": context,
        "policy": {"max_chars": MAX_CHARS},
    })
}

/// The segments' texts as one.
fn text(reply: &Value) -> String {
    let segments = reply["segments"].as_array().into_iter().flatten();
    segments
        .filter_map(|segment| segment["text"].as_str())
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_tally_counts_by_kind_in_order_of_appearance() {
        let mut tally = Tally::default();
        for (kind, right) in [
            ("b", true),
            ("a", false),
            ("b", false),
            ("a", true),
            ("b", true),
        ] {
            tally.add(kind, right);
        }
        let expected = [("b".to_owned(), 2, 3), ("a".to_owned(), 1, 2)];
        assert_eq!(tally.kinds, expected);
        assert_eq!(tally.right(), 3);
    }

    #[test]
    fn an_answer_is_its_segments_in_order() {
        let reply =
            json!({"segments": [{"seq": 0, "text": "Yes, "}, {"seq": 1, "text": "it is."}]});
        assert_eq!(text(&reply), "Yes, it is.");
        assert_eq!(text(&json!({})), "");
    }
}
