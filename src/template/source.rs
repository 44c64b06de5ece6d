//! Rewrites a template's source, keeping its lines, so that an ordinary template engine renders it within limits.
//!
//! `{% generation %}` marks what a model is trained on and is transparent here. The operators that make long values
//! out of short ones (`*`, `+`, `~`) get their operands checked, since the engine has no hook on operators.

use super::{code, operators};

/// What the scanner found at a place of the source.
enum Part<'a> {
    /// Text and comments, as they are.
    Text(&'a str),
    /// The inside of `{{ }}` or `{% %}`, without the delimiters and their whitespace marks.
    Code(&'a str),
}

/// The source to compile in place of `source`.
pub(super) fn rewrite(source: &str) -> String {
    let mut rewritten = String::with_capacity(source.len() + source.len() / 8);
    for part in parts(source) {
        match part {
            Part::Text(text) => rewritten.push_str(text),
            Part::Code(code) => match code.trim() {
                "generation" => rewritten.push_str(&code.replace("generation", "if true")),
                "endgeneration" => rewritten.push_str(&code.replace("endgeneration", "endif")),
                _ => rewritten.push_str(&operators::guard(code)),
            },
        }
    }
    rewritten
}

/// Cuts a source into text and code. Together the parts are the source, also where it is broken: finding errors is
/// the compiler's work.
fn parts(source: &str) -> Vec<Part<'_>> {
    let mut parts = Vec::new();
    let mut rest = source;
    while let Some((text, after)) = text_before_code(rest) {
        parts.push(Part::Text(text));
        let end = code_end(after);
        let (inside, tail) = after.split_at(end);
        let body = inside.trim_end_matches(['-', '+']);
        // `x +}}` has no mark but an operator without its operand, which stays an error.
        let body = if inside.len() - body.len() == 1 {
            body
        } else {
            inside
        };
        parts.push(Part::Code(body));
        parts.push(Part::Text(&inside[body.len()..]));
        rest = tail;
        if body.trim() == "raw" {
            let raw = raw_end(rest);
            parts.push(Part::Text(&rest[..raw]));
            rest = &rest[raw..];
        }
    }
    parts.push(Part::Text(rest));
    parts
}

/// Splits after the next delimiter that opens code, with its whitespace mark; `None` where no code follows.
fn text_before_code(source: &str) -> Option<(&str, &str)> {
    let mut from = 0;
    loop {
        let at = from + source[from..].find('{')?;
        let open = &source[at..];
        if open.starts_with("{#") {
            from = at + open.find("#}")? + 2;
        } else if open.starts_with("{{") || open.starts_with("{%") {
            let mark = usize::from(open[2..].starts_with(['-', '+']));
            return Some(source.split_at(at + 2 + mark));
        } else {
            from = at + 1;
        }
    }
}

/// Where code ends: before the closing delimiter, its whitespace mark included in the code.
fn code_end(source: &str) -> usize {
    let bytes = source.as_bytes();
    let (mut at, mut depth) = (0, 0_usize);
    while at < bytes.len() {
        match bytes[at] {
            quote @ (b'\'' | b'"') => at = code::string_end(source, at, quote) - 1,
            b'(' | b'[' | b'{' => depth += 1,
            b'}' | b'%' if depth == 0 && bytes.get(at + 1) == Some(&b'}') => return at,
            b')' | b']' | b'}' => depth = depth.saturating_sub(1),
            _ => {}
        }
        at += 1;
    }
    bytes.len()
}

/// Where the `endraw` tag of a raw block starts.
fn raw_end(source: &str) -> usize {
    source
        .match_indices("{%")
        .map(|(at, _)| at)
        .find(|&at| {
            let tag = source[at + 2..].trim_start_matches(['-', '+']).trim_start();
            tag.starts_with("endraw")
        })
        .unwrap_or(source.len())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn generation_tags_keep_their_lines_and_whitespace_marks() {
        let source = "a\n{%- generation -%}\n b {% endgeneration %}\n{{ x }}";
        assert_eq!(
            rewrite(source),
            "a\n{%- if true -%}\n b {% endif %}\n{{ x }}"
        );
    }

    #[test]
    fn only_code_is_rewritten() {
        for source in [
            "a * b {# c * d {{ e * f }} #} { g",
            "{% raw %}{{ a * b }}{% endraw %}",
            "{%- raw -%}{% generation %}{%- endraw -%}",
            "{{ 'a * b }}' }}{{ {'k': {'a': 1}} }}",
            "{{ 'open",
            "{{- x +}}",
        ] {
            assert_eq!(rewrite(source), source);
        }
        assert_eq!(rewrite("{{- a*b -}}"), "{{- _times(a,b) -}}");
    }
}
