//! The price guard: what a sentence says of prices and discounts must be in the facts or the tool results, or be a
//! sum, a multiple, a difference or a discount of those. Figures and number words, English and Chinese.

mod founded;
mod numerals;
mod spoken;

use serde_json::Value;

use self::founded::Founded;
use self::spoken::{Claim, claims};

/// Money in ten-thousandths, so that sums are exact.
type Amount = i64;
const ONE: Amount = 10_000;

/// The first price or discount in `text` that neither the facts nor the tool results bear out, as it was said.
pub(super) fn unfounded(text: &str, facts: &Value, tool_results: &[Value]) -> Option<String> {
    let claims = claims(text);
    if claims.is_empty() {
        return None;
    }
    let founded = Founded::of(std::iter::once(facts).chain(tool_results));
    let wrong = claims.into_iter().find(|claim| match claim {
        Claim::Price { readings, step, .. } => {
            !readings.iter().any(|amount| founded.bears(*amount, *step))
        }
        Claim::Rate { paid, .. } => !founded.bears_rate(*paid),
    });
    wrong.map(|claim| match claim {
        Claim::Price { said, .. } | Claim::Rate { said, .. } => said,
    })
}

#[cfg(test)]
mod tests;
