//! What the parts around the model take: tokenizer, template, segmenter. Numbers to watch, without bounds.

use std::path::Path;
use std::time::Instant;

use compere::turn::segment::Segmenter;

use crate::Failure;
use crate::figure::{Figure, median};
use crate::load::scenario::{Length, Texts};
use crate::load::target::Route;
use crate::load::workload::{Language, Workload};

/// Prompts rendered in one round.
const PROMPTS: usize = 20;
/// Tokens of the harness in each.
const HARNESS: usize = 1600;
/// An answer that exercises the rules of clauses: numbers, brackets, commas, two scripts.
const ANSWER: &str = "Yes, it keeps rain out up to 10,000 mm (that is a lot), and it weighs 3.5 kg less. \
    Today it costs $79, not $89! 防水的，放心买。这件外套今天只要五百九十九元！";

/// Medians of so many rounds.
pub(crate) fn figures(model: &Path, rounds: usize) -> Result<Vec<Figure>, Failure> {
    let language = Language::of(model, 1)?;
    let texts = Texts {
        harness: Length::Tokens(HARNESS),
        ..Texts::default()
    };
    let workload = Workload::new(Route::Completions, &texts, 1, Some(&language))?;
    let (mut encode, mut prompt, mut segment) = (Vec::new(), Vec::new(), Vec::new());
    for _ in 0..rounds {
        let start = Instant::now();
        let tokens = language.count(workload.harness());
        encode.push(per_second(tokens, start) / 1e6);

        let start = Instant::now();
        let bytes: usize = (0..PROMPTS)
            .map(|index| workload.call(index).body.len())
            .sum();
        let seconds = start.elapsed().as_secs_f64();
        #[allow(clippy::cast_precision_loss, reason = "a few prompts")]
        prompt.push(seconds * 1e6 / PROMPTS as f64);
        assert!(bytes > 0, "prompts are not empty");

        segment.push(segmenter_speed());
    }
    Ok(vec![
        Figure::unbound("tokenizer_encode", median(encode), "Mtok/s"),
        Figure::unbound("prompt_of_1900_tokens", median(prompt), "us"),
        Figure::unbound("segmenter", median(segment), "Mchar/s"),
    ])
}

/// Millions of characters a second, pushed as a model says them: a few at a time.
fn segmenter_speed() -> f64 {
    const TIMES: usize = 200;
    let pieces: Vec<String> = ANSWER
        .chars()
        .collect::<Vec<_>>()
        .chunks(4)
        .map(|piece| piece.iter().collect())
        .collect();
    let start = Instant::now();
    let mut clauses = 0;
    for _ in 0..TIMES {
        let mut segmenter = Segmenter::new(usize::MAX);
        clauses += pieces
            .iter()
            .map(|piece| segmenter.push(piece).len())
            .sum::<usize>();
        clauses += segmenter.finish().len();
    }
    let speed = per_second(TIMES * ANSWER.chars().count(), start) / 1e6;
    assert!(clauses >= TIMES, "every answer has a clause");
    speed
}

#[allow(clippy::cast_precision_loss, reason = "counts are far below 2^52")]
fn per_second(count: usize, start: Instant) -> f64 {
    count as f64 / start.elapsed().as_secs_f64()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_answer_that_is_measured_is_cut_into_clauses() {
        assert!(segmenter_speed() > 0.0);
    }
}
