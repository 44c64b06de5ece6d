//! Built-in rules at work: on the text, and at tool points on every string of the call.

use std::time::Duration;

use serde_json::Value;

use super::{Abnormal, Ended, Event, ToolUse, Wish, price};
use crate::harness::hook::script::OPERATIONS_PER_MS;
use crate::harness::hook::{Action, Check, Point, Rule};
use crate::turn::read_aloud;

/// Rules are linear in the text; so many bytes count as one operation.
const BYTES_PER_OPERATION: usize = 16;
/// Substitutions may not blow a text up beyond this.
const MOST_TEXT: usize = 64 << 10;

/// What is being looked at, as the rules before left it.
struct Subject {
    text: String,
    tool: Option<ToolUse>,
    point: Point,
    changed: bool,
}

pub(super) fn wish(
    rules: &[Rule],
    event: &Event,
    point: Point,
    budget: Duration,
) -> Result<Wish, Abnormal> {
    let mut left =
        usize::try_from(budget.as_millis() * u128::from(OPERATIONS_PER_MS)).unwrap_or(usize::MAX);
    let mut subject = Subject {
        text: event.text.clone(),
        tool: event.tool.clone(),
        point,
        changed: false,
    };
    for rule in rules {
        let cost = subject.bytes() / BYTES_PER_OPERATION + 1;
        left = left.checked_sub(cost).ok_or_else(|| Abnormal {
            ended: Ended::Timeout,
            reason: format!(
                "the text is too long for {} ms of {}",
                budget.as_millis(),
                rule.check.word()
            ),
        })?;
        if let Some(wish) = subject.apply(rule, event)? {
            return Ok(wish);
        }
    }
    Ok(subject.wish(event))
}

impl Subject {
    /// The strings that rules look at.
    fn strings(&self) -> Vec<&str> {
        let mut found = Vec::new();
        match (self.point, &self.tool) {
            (Point::PreTool, Some(tool)) => strings(&tool.input, &mut found),
            (Point::PostTool, Some(tool)) => tool
                .result
                .iter()
                .for_each(|result| strings(result, &mut found)),
            _ => found.push(&self.text),
        }
        found
    }

    fn bytes(&self) -> usize {
        self.strings().iter().map(|text| text.len()).sum()
    }

    /// A wish ends the hook.
    fn apply(&mut self, rule: &Rule, event: &Event) -> Result<Option<Wish>, Abnormal> {
        if let Check::ReadAloud = rule.check {
            let spoken = read_aloud::normalise(
                &self.text,
                read_aloud::Language::of(event.language.as_deref(), &self.text),
            );
            self.changed |= spoken != self.text;
            self.text = spoken;
            return Ok(None);
        }
        if !self
            .strings()
            .iter()
            .any(|text| finds(&rule.check, text, event))
        {
            return Ok(None);
        }
        match &rule.action {
            Action::Block => Ok(Some(Wish::Block {
                reason: rule.reason.clone(),
            })),
            Action::Replace(text) => Ok(Some(Wish::Replace {
                text: text.clone(),
                reason: rule.reason.clone(),
            })),
            Action::Substitute(with) => self.substitute(&rule.check, with),
        }
    }

    fn substitute(&mut self, check: &Check, with: &str) -> Result<Option<Wish>, Abnormal> {
        self.changed = true;
        match (self.point, &mut self.tool) {
            (Point::PreTool, Some(tool)) => {
                each_string(&mut tool.input, &mut |text| substituted(check, text, with))
            }
            (Point::PostTool, Some(tool)) => {
                let result = tool.result.as_mut();
                result.into_iter().for_each(|result| {
                    each_string(result, &mut |text| substituted(check, text, with))
                });
            }
            _ => self.text = substituted(check, &self.text, with),
        }
        if self.bytes() > MOST_TEXT {
            return Err(Abnormal {
                ended: Ended::Error,
                reason: format!("substitutions grew the text beyond {MOST_TEXT} bytes"),
            });
        }
        let silent =
            self.point == Point::PreSegment && !self.text.chars().any(char::is_alphanumeric);
        Ok(silent.then(|| Wish::Block {
            reason: "a substitution left nothing to say".to_owned(),
        }))
    }

    fn wish(self, event: &Event) -> Wish {
        if !self.changed {
            return Wish::Allow { context: None };
        }
        let (input, result) = match (self.point, self.tool) {
            (Point::PreTool, Some(tool)) => (Some(tool.input), None),
            (Point::PostTool, Some(tool)) => (None, tool.result),
            _ => (None, None),
        };
        let text = (self.text != event.text).then_some(self.text);
        Wish::Modify {
            text,
            input,
            result,
            context: None,
        }
    }
}

fn finds(check: &Check, text: &str, event: &Event) -> bool {
    match check {
        Check::Words(words) => !words.find(text).is_empty(),
        Check::Regex(regex) => regex.is_match(text),
        Check::PriceGuard => price::unfounded(text, &event.facts, &event.tool_results).is_some(),
        Check::ReadAloud => false,
    }
}

fn substituted(check: &Check, text: &str, with: &str) -> String {
    match check {
        Check::Words(words) => {
            let mut out = String::with_capacity(text.len());
            let mut end = 0;
            for found in words.find(text) {
                out.push_str(&text[end..found.start]);
                out.push_str(with);
                end = found.end;
            }
            out.push_str(&text[end..]);
            out
        }
        Check::Regex(regex) => regex.replace_all(text, with).into_owned(),
        Check::PriceGuard | Check::ReadAloud => text.to_owned(),
    }
}

/// Every string and key of a JSON value.
fn strings<'a>(value: &'a Value, found: &mut Vec<&'a str>) {
    match value {
        Value::String(text) => found.push(text),
        Value::Array(items) => items.iter().for_each(|item| strings(item, found)),
        Value::Object(fields) => fields.iter().for_each(|(key, item)| {
            found.push(key);
            strings(item, found);
        }),
        _ => {}
    }
}

fn each_string(value: &mut Value, change: &mut impl FnMut(&str) -> String) {
    match value {
        Value::String(text) => *text = change(text),
        Value::Array(items) => items.iter_mut().for_each(|item| each_string(item, change)),
        Value::Object(fields) => fields
            .values_mut()
            .for_each(|item| each_string(item, change)),
        _ => {}
    }
}
