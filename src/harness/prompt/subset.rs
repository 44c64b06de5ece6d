//! What a prompt may say: it places values, with `if`, `for`, `include`, `extends` and `block`. It computes no texts and
//! keeps none, so no template can grow without bounds, and it calls nothing, so none can be volatile.

use super::filters::{FILTERS, TESTS};

const STATEMENTS: [&str; 13] = [
    "if", "elif", "else", "endif", "for", "endfor", "include", "extends", "block", "endblock",
    "raw", "break", "continue",
];
/// Words after which a value begins.
const WORDS: [&str; 8] = ["in", "not", "and", "or", "if", "else", "is", "elif"];

/// What the check has seen of a template.
#[derive(Debug, Default)]
pub(super) struct Tokens {
    /// Names of variables and their lines, attributes left out.
    pub(super) names: Vec<(usize, String)>,
    /// Files that it includes or extends, and where.
    pub(super) includes: Vec<(usize, String)>,
}

#[derive(Clone, Copy, Debug, PartialEq)]
enum Token<'a> {
    Name(&'a str),
    Text(&'a str),
    Number,
    Sign(char),
}

/// Checks a template that compiles.
///
/// # Errors
/// Line and reason of everything that a prompt may not say.
pub(super) fn check(text: &str) -> Result<Tokens, Vec<(usize, String)>> {
    let mut check = Check {
        tokens: Tokens::default(),
        faults: Vec::new(),
    };
    let mut at = 0;
    while let Some(open) = text[at..].find('{').map(|found| at + found) {
        let kind = text[open + 1..].chars().next();
        at = open + 1;
        match kind {
            Some('#') => {
                at = text[open..]
                    .find("#}")
                    .map_or(text.len(), |end| open + end + 2)
            }
            Some(kind @ ('{' | '%')) => {
                let (tokens, end) = tokens(text, open + 2, kind);
                let statement = kind == '%';
                check.tag(text, &tokens, statement);
                at = end;
                if statement && tokens.first().map(|(_, token)| *token) == Some(Token::Name("raw"))
                {
                    at = end_of_raw(text, end);
                }
            }
            _ => {}
        }
    }
    if check.faults.is_empty() {
        Ok(check.tokens)
    } else {
        Err(check.faults)
    }
}

/// Past the tag that ends a raw block.
fn end_of_raw(text: &str, from: usize) -> usize {
    let mut at = from;
    while let Some(open) = text[at..].find("{%").map(|found| at + found) {
        let inner = text[open + 2..].trim_start_matches(['-', '+']).trim_start();
        if inner.starts_with("endraw") {
            return text[open..]
                .find("%}")
                .map_or(text.len(), |end| open + end + 2);
        }
        at = open + 2;
    }
    text.len()
}

/// The tokens of a tag and where it ends.
fn tokens(text: &str, start: usize, kind: char) -> (Vec<(usize, Token<'_>)>, usize) {
    let mut tokens = Vec::new();
    let close = if kind == '{' { "}}" } else { "%}" };
    let mut at = start;
    while let Some(c) = text[at..].chars().next() {
        let rest = &text[at..];
        if rest.starts_with(close) {
            return (tokens, at + 2);
        }
        let length = match c {
            '"' | '\'' => {
                let length = string(rest, c);
                let inner = &rest[1..length.saturating_sub(1).max(1)];
                tokens.push((at, Token::Text(inner)));
                length
            }
            c if c.is_alphabetic() || c == '_' => {
                let length = rest
                    .find(|c: char| !c.is_alphanumeric() && c != '_')
                    .unwrap_or(rest.len());
                tokens.push((at, Token::Name(&rest[..length])));
                length
            }
            c if c.is_ascii_digit() => {
                tokens.push((at, Token::Number));
                rest.find(|c: char| !c.is_alphanumeric() && c != '_' && c != '.')
                    .unwrap_or(rest.len())
            }
            c => {
                if !c.is_whitespace() {
                    tokens.push((at, Token::Sign(c)));
                }
                c.len_utf8()
            }
        };
        at += length;
    }
    (tokens, text.len())
}

/// Bytes of the quoted text that `rest` begins with.
fn string(rest: &str, quote: char) -> usize {
    let mut escaped = false;
    for (at, c) in rest.char_indices().skip(1) {
        match c {
            _ if escaped => escaped = false,
            '\\' => escaped = true,
            c if c == quote => return at + 1,
            _ => {}
        }
    }
    rest.len()
}

struct Check {
    tokens: Tokens,
    faults: Vec<(usize, String)>,
}

impl Check {
    fn tag(&mut self, text: &str, tokens: &[(usize, Token<'_>)], statement: bool) {
        let line = |at: usize| {
            1 + text.as_bytes()[..at]
                .iter()
                .filter(|byte| **byte == b'\n')
                .count()
        };
        // The signs that trim white space around a tag are no operators.
        let edge =
            |token: Option<&(usize, Token<'_>)>| matches!(token, Some((_, Token::Sign('-' | '+'))));
        let tokens = if edge(tokens.first()) {
            &tokens[1..]
        } else {
            tokens
        };
        let tokens = if edge(tokens.last()) {
            &tokens[..tokens.len() - 1]
        } else {
            tokens
        };
        let rest = if statement {
            self.statement(&line, tokens)
        } else {
            tokens
        };
        for index in 0..rest.len() {
            let (at, token) = rest[index];
            let before = index.checked_sub(1).map(|index| rest[index].1);
            let after = rest.get(index + 1).map(|(_, token)| *token);
            match token {
                Token::Name(name) => self.name(line(at), name, before, after, &rest[..index]),
                Token::Sign(sign @ ('~' | '+' | '*')) => {
                    self.fault(
                        line(at),
                        format!("{sign} is not for prompts: write the parts one after another"),
                    );
                }
                Token::Sign('{') => {
                    self.fault(line(at), "a map written in a prompt is not supported")
                }
                Token::Sign('[') if begins_value(before) && !is_plain_list(&rest[index + 1..]) => {
                    self.fault(
                        line(at),
                        "a list written in a prompt may hold only texts and numbers",
                    );
                }
                _ => {}
            }
        }
    }

    /// Checks the word of a statement; the expression after it, empty where there is none to check.
    fn statement<'t, 'a>(
        &mut self,
        line: &dyn Fn(usize) -> usize,
        tokens: &'t [(usize, Token<'a>)],
    ) -> &'t [(usize, Token<'a>)] {
        let [(at, Token::Name(word)), rest @ ..] = tokens else {
            return &[];
        };
        if !STATEMENTS.contains(word) {
            let reason = "they place values with if, for, include, extends and block";
            self.fault(
                line(*at),
                format!("{{% {word} %}} is not for prompts: {reason}"),
            );
            return &[];
        }
        match (*word, rest) {
            ("include" | "extends", [(at, Token::Text(name))]) => {
                self.tokens.includes.push((line(*at), (*name).to_owned()));
                &[]
            }
            ("include" | "extends", _) => {
                self.fault(line(*at), format!("{word} takes one name in quotes"));
                &[]
            }
            ("block" | "endblock" | "raw", _) => &[],
            _ => rest,
        }
    }

    fn name(
        &mut self,
        line: usize,
        name: &str,
        before: Option<Token<'_>>,
        after: Option<Token<'_>>,
        all: &[(usize, Token<'_>)],
    ) {
        let call = after == Some(Token::Sign('('));
        let test = match before {
            Some(Token::Name("is")) => true,
            Some(Token::Name("not")) => matches!(all, [.., (_, Token::Name("is")), _]),
            _ => false,
        };
        match before {
            Some(Token::Sign('|')) if FILTERS.contains(&name) => {}
            Some(Token::Sign('|')) => {
                self.fault(line, format!("there is no filter {name}; there are {}", FILTERS.join(", ")));
            }
            _ if test && (name == "not" || TESTS.contains(&name)) => {}
            _ if test => self.fault(line, format!("there is no test {name}; there are {}", TESTS.join(", "))),
            _ if WORDS.contains(&name) => {}
            _ if call && name == "range" => self.fault(line, "range() is not for prompts: loop over values"),
            _ if call => self.fault(line, format!("{name}() is a call: prompts call nothing, so that equal content gives equal bytes")),
            _ if matches!(name, "self" | "super") => self.fault(line, format!("{name} is not for prompts")),
            Some(Token::Sign('.')) => {}
            _ => self.tokens.names.push((line, name.to_owned())),
        }
    }

    fn fault(&mut self, line: usize, reason: impl Into<String>) {
        self.faults.push((line, reason.into()));
    }
}

/// Whether what follows `before` is a new value, not part of one.
fn begins_value(before: Option<Token<'_>>) -> bool {
    match before {
        None => true,
        Some(Token::Name(name)) => WORDS.contains(&name),
        Some(Token::Sign(sign)) => !matches!(sign, ')' | ']' | '}'),
        Some(Token::Text(_) | Token::Number) => false,
    }
}

/// Whether a list, whose bracket has been read, holds only texts and numbers.
fn is_plain_list(tokens: &[(usize, Token<'_>)]) -> bool {
    for (_, token) in tokens {
        match token {
            Token::Sign(']') => return true,
            Token::Text(_) | Token::Number | Token::Sign(',' | '-') => {}
            _ => return false,
        }
    }
    false
}
