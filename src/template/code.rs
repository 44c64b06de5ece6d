//! Cuts the code of a template, what is inside `{{ }}` or `{% %}`, into tokens.

/// Words that are no operand, so that what follows them starts one.
const KEYWORDS: [&str; 17] = [
    "and",
    "or",
    "not",
    "in",
    "is",
    "if",
    "elif",
    "else",
    "for",
    "set",
    "do",
    "call",
    "filter",
    "with",
    "recursive",
    "block",
    "return",
];

/// What the place of an operator depends on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Kind {
    /// A literal or a name.
    Operand,
    Keyword,
    Open,
    Close,
    Operator,
}

/// A piece of code.
#[derive(Clone, Copy, Debug)]
pub(super) struct Token<'a> {
    pub(super) text: &'a str,
    /// In bytes of the code.
    pub(super) start: usize,
    pub(super) kind: Kind,
}

impl Token<'_> {
    pub(super) fn end(&self) -> usize {
        self.start + self.text.len()
    }

    /// Whether it stands for a value that the code does not spell out.
    pub(super) fn is_name(&self) -> bool {
        let constant = matches!(
            self.text,
            "true" | "false" | "none" | "True" | "False" | "None"
        );
        let letter = |c: char| c.is_alphabetic() || c == '_';
        self.kind == Kind::Operand && self.text.starts_with(letter) && !constant
    }

    pub(super) fn ends_operand(&self) -> bool {
        matches!(self.kind, Kind::Operand | Kind::Close)
    }
}

/// All tokens, blanks left out.
pub(super) fn tokens(code: &str) -> Vec<Token<'_>> {
    let bytes = code.as_bytes();
    let mut tokens = Vec::new();
    let mut at = 0;
    while at < bytes.len() {
        let (end, kind) = match bytes[at] {
            space if space.is_ascii_whitespace() => {
                at += 1;
                continue;
            }
            quote @ (b'\'' | b'"') => (string_end(code, at, quote), Kind::Operand),
            b'(' | b'[' | b'{' => (at + 1, Kind::Open),
            b')' | b']' | b'}' => (at + 1, Kind::Close),
            byte if is_word(byte) => word(code, at, tokens.last()),
            byte => {
                let double = matches!(byte, b'*' | b'/' | b'=') && bytes.get(at + 1) == Some(&byte);
                (at + 1 + usize::from(double), Kind::Operator)
            }
        };
        tokens.push(Token {
            text: &code[at..end],
            start: at,
            kind,
        });
        at = end;
    }
    tokens
}

fn is_word(byte: u8) -> bool {
    byte.is_ascii_alphanumeric() || byte == b'_' || !byte.is_ascii()
}

/// A name or a number with its fraction.
fn word(code: &str, start: usize, before: Option<&Token<'_>>) -> (usize, Kind) {
    let bytes = code.as_bytes();
    let run = |from: usize| {
        bytes[from..]
            .iter()
            .take_while(|&&byte| is_word(byte))
            .count()
    };
    let mut end = start + run(start);
    let fraction = bytes.get(end + 1).is_some_and(u8::is_ascii_digit);
    if bytes[start].is_ascii_digit() && bytes.get(end) == Some(&b'.') && fraction {
        end += 1 + run(end + 1);
    }
    let attribute = before.is_some_and(|before| matches!(before.text, "." | "|"));
    if !attribute && KEYWORDS.contains(&&code[start..end]) {
        return (end, Kind::Keyword);
    }
    (end, Kind::Operand)
}

/// One past the closing quote of the string that opens at `start`, or the end of the code.
pub(super) fn string_end(code: &str, start: usize, quote: u8) -> usize {
    let bytes = code.as_bytes();
    let mut at = start + 1;
    while at < bytes.len() {
        match bytes[at] {
            b'\\' => at += 1,
            byte if byte == quote => return at + 1,
            _ => {}
        }
        at += 1;
    }
    bytes.len()
}
