//! The description for people.

use super::super::testing::GgufBuilder;
use super::*;

#[test]
fn a_description_shows_what_matters() {
    let template: String = (0..9).map(|line| format!("line {line}\n")).collect();
    let builder = with_vocabulary(GgufBuilder::new())
        .text("general.name", "tiny")
        .text("general.architecture", "llama")
        .u32("llama.context_length", 8192)
        .u32("llama.block_count", 2)
        .f32("llama.rope.freq_base", 1e5)
        .text("llama.rope.scaling.type", "yarn")
        .f32("llama.rope.scaling.factor", 2.5)
        .u32("llama.rope.scaling.original_context_length", 4096)
        .u32("llama.attention.sliding_window", 512)
        .text("tokenizer.chat_template", &template)
        .f32_tensor("norm", &[4], &[1.0; 4])
        .tensor("weight", &[32, 2], TensorKind::Q8_0, vec![0; 68]);
    let text = describe(&open(&builder).unwrap());
    let rest = text.split_once('\n').expect("more than a line").1;
    assert!(text.starts_with("file:            /"), "{text}");
    assert_eq!(
        rest,
        "\
name:            tiny
license:         not stated
architecture:    llama
context:         8192
layers:          2
rope base:       100000
rope scaling:    yarn
scaled by:       2.5
scaled from:     4096
sliding window:  512
parameters:      68 in 2 tensors
stored as:       Q8_0     0.1 kB, 81.0 %
stored as:       F32      0.0 kB, 19.0 %
tokenizer:       gpt2, words by smollm, 3 tokens, 1 merges
begins a text:   not stated
ends a turn:     0 <|end|>
chat template:   9 lines, 63 characters
    line 0
    line 1
    line 2
    line 3
    line 4
    line 5
    ... and 3 lines more
"
    );
}

#[test]
fn a_description_of_a_strange_file_neither_fails_nor_obeys_it() {
    let builder = GgufBuilder::new()
        .text("general.name", "a\u{1b}[2Jb\nc")
        .u32("general.architecture", 5)
        .i32s("tokenizer.chat_template", &[1]);
    let text = describe(&open(&builder).unwrap());
    assert!(
        text.contains("name:            a\\u{1b}[2Jb\\nc\n"),
        "{text}"
    );
    assert!(text.contains("architecture:    5\n"));
    assert!(text.contains("chat template:   array of i32 of 1 entries\n"));
}
