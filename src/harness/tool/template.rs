//! Texts with places in braces, such as `https://shop.example/items/{sku}?lang={lang}`, cut into pieces at load.

/// A piece of a template.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Piece {
    /// As written.
    Text(String),
    /// The argument or secret of this name goes here.
    Place(String),
}

/// Cuts `text` at its places. Names are letters, digits, `_`, `-`, and `:` in front of a secret's name.
///
/// # Errors
/// A brace that opens or closes nothing, or a name that is none.
pub fn pieces(text: &str) -> Result<Vec<Piece>, String> {
    let mut found = Vec::new();
    let mut rest = text;
    while let Some(open) = rest.find(['{', '}']) {
        if rest.as_bytes()[open] == b'}' {
            return Err(format!("{text:?} closes a brace that was not opened"));
        }
        if open > 0 {
            found.push(Piece::Text(rest[..open].to_owned()));
        }
        let inside = &rest[open + 1..];
        let close = inside
            .find('}')
            .ok_or_else(|| format!("{text:?} opens a brace and never closes it"))?;
        let name = &inside[..close];
        let fits = |c: char| c.is_ascii_alphanumeric() || matches!(c, '_' | '-' | ':');
        if name.is_empty() || !name.chars().all(fits) {
            return Err(format!("{name:?} is no name of a place"));
        }
        found.push(Piece::Place(name.to_owned()));
        rest = &inside[close + 1..];
    }
    if !rest.is_empty() {
        found.push(Piece::Text(rest.to_owned()));
    }
    Ok(found)
}

/// The names of the places.
pub fn places(pieces: &[Piece]) -> impl Iterator<Item = &str> {
    pieces.iter().filter_map(|piece| match piece {
        Piece::Place(name) => Some(name.as_str()),
        Piece::Text(_) => None,
    })
}
