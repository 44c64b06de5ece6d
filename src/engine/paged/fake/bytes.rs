//! A vocabulary in which a token is a byte: any text, also half a character, can be said token by token.

use std::sync::Arc;

use crate::tokenizer::{TokenId, Tokenizer, TokenizerParts};

/// The control token that ends a turn; those before it are the bytes 0 to 255.
pub const END: TokenId = 256;

/// A byte-level tokenizer without merges, of 257 tokens.
///
/// # Panics
/// Never: its parts are complete.
#[must_use]
pub fn byte_tokenizer() -> Arc<Tokenizer> {
    let mut tokens: Vec<String> = (0..=255).map(|byte| spelling(byte).to_string()).collect();
    tokens.push("<|end|>".to_owned());
    let mut kinds = vec![1; 256];
    kinds.push(3);
    let parts = TokenizerParts {
        model: "gpt2".to_owned(),
        pre: "gpt-2".to_owned(),
        tokens,
        kinds,
        eos: Some(END),
        ..TokenizerParts::default()
    };
    Arc::new(Tokenizer::new(parts).expect("one spelling for each byte and the end"))
}

/// How byte-level vocabularies write a byte: printable Latin-1 as itself, the others from U+0100 on, in order.
fn spelling(byte: u8) -> char {
    let plain = |byte: u8| matches!(byte, b'!'..=b'~' | 0xa1..=0xac | 0xae..=0xff);
    if plain(byte) {
        return char::from(byte);
    }
    let before = (0..byte).filter(|other| !plain(*other)).count();
    u32::try_from(before)
        .ok()
        .and_then(|index| char::from_u32(0x100 + index))
        .expect("at most 68 bytes are not printable")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn tokens_are_bytes() {
        let tokenizer = byte_tokenizer();
        for byte in 0..=255_u8 {
            assert_eq!(tokenizer.token_bytes(byte.into()), [byte]);
        }
        let text = "crème 优惠价 👍🏽 \n";
        let bytes: Vec<TokenId> = text.bytes().map(TokenId::from).collect();
        assert_eq!(tokenizer.encode(text), bytes);
        assert!(tokenizer.is_end(END));
        assert!(tokenizer.token_bytes(END).is_empty());
    }
}
