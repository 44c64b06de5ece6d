//! A vocabulary of single bytes and a plain chat template: all that prompts need.

use std::sync::Arc;

use compere::template::ChatTemplate;
use compere::tokenizer::{TokenId, Tokenizer, TokenizerParts};

const TEMPLATE: &str = "{% for message in messages %}<|im_start|>{{ message.role }}\n{{ message.content }}<|im_end|>\n\
     {% endfor %}{% if add_generation_prompt %}<|im_start|>assistant\n{% endif %}";

/// The token that ends a message.
pub(crate) const END: TokenId = 257;

/// Every byte is a token of its own; two control tokens follow.
pub(crate) fn template() -> Arc<ChatTemplate> {
    let mut shifted = 0x100;
    let mut tokens: Vec<String> = (0..=255_u8)
        .map(|byte| {
            let letter = if matches!(byte, b'!'..=b'~' | 0xA1..=0xAC | 0xAE..=0xFF) {
                char::from(byte)
            } else {
                shifted += 1;
                char::from_u32(shifted - 1).unwrap()
            };
            letter.to_string()
        })
        .collect();
    let mut kinds = vec![1; 256];
    for control in ["<|im_start|>", "<|im_end|>"] {
        tokens.push(control.to_owned());
        kinds.push(3);
    }
    let tokenizer = Tokenizer::new(TokenizerParts {
        model: "gpt2".to_owned(),
        pre: "smollm".to_owned(),
        tokens,
        kinds,
        eos: Some(END),
        ..TokenizerParts::default()
    });
    let template = ChatTemplate::new(TEMPLATE, Arc::new(tokenizer.unwrap()));
    Arc::new(template.unwrap())
}
