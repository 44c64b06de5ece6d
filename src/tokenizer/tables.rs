//! Checks what a model file says of its tokenizer and turns it into lookup tables.

use std::collections::HashMap;

use super::added::{BYTE, CONTROL, UNKNOWN, UNUSED, USER_DEFINED, is_added};
use super::bpe::Merges;
use super::decode::TokenBytes;
use super::{TokenId, TokenizerError, TokenizerParts, alphabet};

pub(super) const MODEL: &str = "tokenizer.ggml.model";
pub(super) const TOKENS: &str = "tokenizer.ggml.tokens";
/// What stands for a space in pieces.
pub(super) const SPACE: char = '\u{2581}';
const KINDS: &str = "tokenizer.ggml.token_type";
const MERGES: &str = "tokenizer.ggml.merges";

pub(super) fn fault(field: &'static str, reason: String) -> TokenizerError {
    TokenizerError::at(field, reason)
}

/// Checks lengths and ids and finds the id of each spelling.
pub(super) fn index(parts: &TokenizerParts) -> Result<HashMap<&str, TokenId>, TokenizerError> {
    let count = parts.tokens.len();
    if count == 0 {
        return Err(fault(TOKENS, "is missing or empty".to_owned()));
    }
    if u32::try_from(count).is_err() {
        return Err(fault(TOKENS, format!("{count} tokens are too many")));
    }
    if parts.kinds.len() != count {
        let reason = format!("{} entries for {count} tokens", parts.kinds.len());
        return Err(fault(KINDS, reason));
    }
    let special = [
        ("tokenizer.ggml.bos_token_id", parts.bos),
        ("tokenizer.ggml.eos_token_id", parts.eos),
        ("tokenizer.ggml.unknown_token_id", parts.unknown),
        (
            "tokenizer.ggml.eot_token_id",
            parts.ends.iter().copied().max(),
        ),
    ];
    for (field, id) in special {
        if let Some(id) = id.filter(|&id| id as usize >= count) {
            return Err(fault(
                field,
                format!("{id} is not below {count}, the number of tokens"),
            ));
        }
    }
    let mut index = HashMap::with_capacity(count);
    for (id, token) in (0..).zip(&parts.tokens) {
        // A number that the file leaves out.
        if token.is_empty() && parts.kinds[id as usize] == UNUSED {
            continue;
        }
        if let Some(first) = index.insert(token.as_str(), id) {
            let reason = format!("`{}` is both token {first} and token {id}", shown(token));
            return Err(fault(TOKENS, reason));
        }
    }
    Ok(index)
}

/// The bytes of each token: those of its letters, the text of a user-defined one, nothing of a control token.
pub(super) fn bytes(parts: &TokenizerParts) -> Result<TokenBytes, TokenizerError> {
    let mut bytes = TokenBytes::with_capacity(parts.tokens.len());
    for (id, (token, &kind)) in parts.tokens.iter().zip(&parts.kinds).enumerate() {
        match kind {
            CONTROL => {}
            USER_DEFINED => bytes.extend(token.as_bytes()),
            _ => {
                for letter in token.chars() {
                    let byte = alphabet::byte_of(letter).ok_or_else(|| {
                        let reason = format!(
                            "token {id} `{}` is not byte-level: `{letter}`",
                            shown(token)
                        );
                        fault(TOKENS, reason)
                    })?;
                    bytes.extend(&[byte]);
                }
            }
        }
        bytes.end();
    }
    Ok(bytes)
}

/// The bytes of each piece: its text, one byte of a byte token, nothing of a control token or the unknown.
pub(super) fn piece_bytes(parts: &TokenizerParts) -> Result<TokenBytes, TokenizerError> {
    let mut bytes = TokenBytes::with_capacity(parts.tokens.len());
    for (id, (token, &kind)) in parts.tokens.iter().zip(&parts.kinds).enumerate() {
        match kind {
            CONTROL | UNKNOWN => {}
            BYTE => {
                let byte = spelled_byte(token).ok_or_else(|| {
                    let reason = format!("token {id} `{}` is no byte like `<0x0A>`", shown(token));
                    fault(TOKENS, reason)
                })?;
                bytes.extend(&[byte]);
            }
            _ => bytes.extend(token.replace(SPACE, " ").as_bytes()),
        }
        bytes.end();
    }
    Ok(bytes)
}

/// The byte that `<0x0A>` spells.
pub(super) fn spelled_byte(token: &str) -> Option<u8> {
    let digits = token.strip_prefix("<0x")?.strip_suffix('>')?;
    let two = digits.len() == 2 && digits.bytes().all(|digit| digit.is_ascii_hexdigit());
    two.then(|| u8::from_str_radix(digits, 16).ok())?
}

/// The merge rules by ids. Rules that would make an added token out of ordinary text are left out.
pub(super) fn merges(
    parts: &TokenizerParts,
    index: &HashMap<&str, TokenId>,
) -> Result<Merges, TokenizerError> {
    let mut merges = Merges::with_capacity(parts.merges.len());
    for (number, rule) in parts.merges.iter().enumerate() {
        let wrong = |what: &str| fault(MERGES, format!("rule {number} `{}`: {what}", shown(rule)));
        let (left, right) = rule
            .split_once(' ')
            .filter(|(left, right)| !left.is_empty() && !right.is_empty())
            .ok_or_else(|| wrong("not two tokens with a space between them"))?;
        let whole = [left, right].concat();
        let id = |token: &str| {
            let unknown = || wrong(&format!("`{}` is not a token", shown(token)));
            index.get(token).copied().ok_or_else(unknown)
        };
        let (left, right, whole) = (id(left)?, id(right)?, id(&whole)?);
        if !is_added(parts.kinds[whole as usize]) {
            merges.push(left, right, whole);
        }
    }
    Ok(merges)
}

/// The token of each byte, for the bytes that have one that is ordinary text.
pub(super) fn byte_tokens(
    parts: &TokenizerParts,
    index: &HashMap<&str, TokenId>,
) -> [Option<TokenId>; 256] {
    let mut tokens = [None; 256];
    let mut letter = [0; 4];
    for (byte, token) in (0..=u8::MAX).zip(&mut tokens) {
        let spelling = alphabet::letter_of(byte).encode_utf8(&mut letter);
        let ordinary = |id: &TokenId| !is_added(parts.kinds[*id as usize]);
        *token = index.get(&*spelling).copied().filter(ordinary);
    }
    tokens
}

/// Every ordinary token by its bytes.
pub(super) fn whole_words(parts: &TokenizerParts, bytes: &TokenBytes) -> HashMap<Vec<u8>, TokenId> {
    (0..)
        .zip(&parts.kinds)
        .filter(|(_, kind)| !is_added(**kind))
        .map(|(id, _)| (bytes.get(id).to_vec(), id))
        .collect()
}

/// The spelling of a token that a template may name; empty where the model has none.
pub(super) fn spelling(parts: &TokenizerParts, token: Option<TokenId>) -> String {
    let spelling = token.and_then(|token| parts.tokens.get(token as usize));
    spelling.cloned().unwrap_or_default()
}

/// The start of a spelling, for messages: a broken file may hold very long ones.
pub(super) fn shown(spelling: &str) -> String {
    spelling.chars().take(40).collect()
}
