//! Keys and texts of one line of a frontmatter: bare, in quotes, or in a list or map in brackets.

/// Why a line cannot be read.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Fault {
    /// From 1, in the file; absent where it is the line of the key.
    pub(super) line: Option<usize>,
    pub(super) reason: String,
}

impl Fault {
    /// Sets the line, unless it is known.
    pub(super) fn at(self, line: usize) -> Self {
        Self {
            line: self.line.or(Some(line)),
            ..self
        }
    }

    /// Says in which field.
    pub(super) fn within(self, key: &str) -> Self {
        Self {
            reason: format!("{key}: {}", self.reason),
            ..self
        }
    }
}

impl<T: Into<String>> From<T> for Fault {
    fn from(reason: T) -> Self {
        Self {
            line: None,
            reason: reason.into(),
        }
    }
}

/// The key of a line, and what follows its colon, trimmed.
pub(super) fn key(line: &str) -> Result<(String, &str), Fault> {
    let line = line.trim();
    let (key, rest) = match line.chars().next() {
        Some(quote @ ('"' | '\'')) => {
            let (key, rest) = open_quoted(line, quote)?;
            (
                key,
                rest.trim_start()
                    .strip_prefix(':')
                    .ok_or("a text in quotes, and no colon after it")?,
            )
        }
        _ => {
            refuse(line)?;
            let at = colon(line).ok_or("is no `key: value`")?;
            (line[..at].trim_end().to_owned(), &line[at + 1..])
        }
    };
    if key.is_empty() {
        return Err("has no key before its colon".into());
    }
    if key == "<<" {
        return Err("merge keys (<<) are not supported".into());
    }
    if !rest.is_empty() && !rest.starts_with([' ', '\t']) {
        return Err(format!("{key}: needs a space after its colon").into());
    }
    Ok((key, rest.trim()))
}

/// Where the first colon is that ends a key.
fn colon(text: &str) -> Option<usize> {
    text.match_indices(':').map(|(at, _)| at).find(|at| {
        let after = text[at + 1..].chars().next();
        after.is_none_or(|c| c == ' ' || c == '\t')
    })
}

/// Refuses what begins with a sign that has a meaning in YAML.
fn refuse(text: &str) -> Result<(), Fault> {
    let mut chars = text.chars();
    let Some(first) = chars.next() else {
        return Ok(());
    };
    let spaced = chars.next().is_none_or(|c| c == ' ' || c == '\t');
    let reason = match first {
        '&' => "anchors (&) are not supported",
        '*' => "aliases (*) are not supported; quote a text that begins with *",
        '!' => "tags (!) are not supported; quote a text that begins with !",
        '?' if spaced => "keys after ? are not supported",
        '-' if spaced => "a list item where a text belongs",
        ':' if spaced => "has no key before its colon",
        '[' | ']' | '{' | '}' | ',' | '#' | '|' | '>' | '%' | '@' | '`' => {
            return Err(format!("quote a text that begins with {first}").into());
        }
        _ => return Ok(()),
    };
    Err(reason.into())
}

/// A bare text up to its comment.
pub(super) fn plain(text: &str) -> Result<&str, Fault> {
    refuse(text)?;
    continued(text)
}

/// A further line of a bare text, up to its comment.
pub(super) fn continued(text: &str) -> Result<&str, Fault> {
    let comment = text
        .match_indices('#')
        .map(|(at, _)| at)
        .find(|at| *at == 0 || text[..*at].ends_with([' ', '\t']));
    let text = text[..comment.unwrap_or(text.len())].trim_end();
    if colon(text).is_some() {
        return Err("holds a colon before a space: put the value in quotes".into());
    }
    Ok(text)
}

/// A text in quotes that is the whole value.
pub(super) fn quoted(text: &str) -> Result<String, Fault> {
    let quote = if text.starts_with('"') { '"' } else { '\'' };
    let (value, rest) = open_quoted(text, quote)?;
    ends(rest)?;
    Ok(value)
}

/// A text of one line, bare or in quotes.
pub(super) fn single(text: &str) -> Result<String, Fault> {
    if text.starts_with(['"', '\'']) {
        quoted(text)
    } else {
        plain(text).map(str::to_owned)
    }
}

/// Only a comment may follow a value.
fn ends(rest: &str) -> Result<(), Fault> {
    let after = rest.trim_start();
    if after.is_empty() || (after.starts_with('#') && after.len() < rest.len()) {
        return Ok(());
    }
    let shown: String = after.chars().take(20).collect();
    Err(format!("{shown:?} stands after the value").into())
}

/// The text in quotes that `text` begins with, and what follows it.
fn open_quoted(text: &str, quote: char) -> Result<(String, &str), Fault> {
    let mut value = String::new();
    let mut chars = text[1..].char_indices();
    while let Some((at, c)) = chars.next() {
        match c {
            '\'' if quote == '\'' && text[1 + at + 1..].starts_with('\'') => {
                chars.next();
                value.push('\'');
            }
            c if c == quote => return Ok((value, &text[1 + at + 1..])),
            '\\' if quote == '"' => value.push(escape(&mut chars)?),
            c => value.push(c),
        }
    }
    Err("the quote is not closed on its line".into())
}

fn escape(chars: &mut std::str::CharIndices<'_>) -> Result<char, Fault> {
    let (_, c) = chars.next().ok_or("ends in a backslash")?;
    let digits = match c {
        'x' => 2,
        'u' => 4,
        'U' => 8,
        'n' => return Ok('\n'),
        't' => return Ok('\t'),
        '"' | '\\' | '/' | ' ' => return Ok(c),
        other => return Err(format!("\\{other} is no escape that is supported").into()),
    };
    let hex: String = chars.take(digits).map(|(_, c)| c).collect();
    let whole = hex.len() == digits && hex.bytes().all(|byte| byte.is_ascii_hexdigit());
    let code = whole.then(|| u32::from_str_radix(&hex, 16).ok()).flatten();
    code.and_then(char::from_u32)
        .filter(|c| !c.is_control() || *c == '\n' || *c == '\t')
        .ok_or_else(|| format!("\\{c}{hex} is no character that a text may hold").into())
}

/// `[a, "b"]`, on one line.
pub(super) fn flow_list(text: &str) -> Result<Vec<String>, Fault> {
    let parts = flow(text, '[', ']')?;
    parts.into_iter().map(single).collect()
}

/// `{a: 1, b: "c"}`, on one line.
pub(super) fn flow_map(text: &str) -> Result<Vec<(String, String)>, Fault> {
    let mut pairs: Vec<(String, String)> = Vec::new();
    for part in flow(text, '{', '}')? {
        let (key, rest) = key(part)?;
        if pairs.iter().any(|(other, _)| *other == key) {
            return Err(format!("{key}: is there twice").into());
        }
        let value = single(rest).map_err(|fault| fault.within(&key))?;
        pairs.push((key, value));
    }
    Ok(pairs)
}

/// The parts between brackets, split at commas outside quotes. One comma may follow the last part.
fn flow(text: &str, open: char, close: char) -> Result<Vec<&str>, Fault> {
    let inner = &text[open.len_utf8()..];
    let (mut parts, mut start, mut quote) = (Vec::new(), 0, None);
    // A quote opens a text only where a part or a value begins: `it's` is bare.
    let mut fresh = true;
    let mut escaped = false;
    for (at, c) in inner.char_indices() {
        if let Some(open) = quote {
            match c {
                _ if escaped => escaped = false,
                '\\' if open == '"' => escaped = true,
                c if c == open => quote = None,
                _ => {}
            }
            continue;
        }
        match c {
            '"' | '\'' if fresh => quote = Some(c),
            '[' | '{' => return Err("holds more than texts".into()),
            ',' => {
                parts.push(inner[start..at].trim());
                start = at + 1;
            }
            c if c == close => {
                ends(&inner[at + 1..])?;
                let last = inner[start..at].trim();
                if !last.is_empty() {
                    parts.push(last);
                }
                if parts.iter().any(|part| part.is_empty()) {
                    return Err("has an empty place between commas".into());
                }
                return Ok(parts);
            }
            ']' | '}' => return Err(format!("{c} closes nothing").into()),
            _ => {}
        }
        fresh = matches!(c, ',' | ':') || (fresh && c.is_whitespace());
    }
    Err(format!("{open} is not closed on its line").into())
}
