//! The fake notices what it is there to notice.

use super::*;

const LIMITS: RunnerLimits = RunnerLimits {
    vocab: 257,
    max_context: 64,
    block_tokens: 2,
    blocks: 4,
};

/// One sequence's rows from `position` on, over `blocks`; logits of the last row.
fn batch(text: &str, position: usize, blocks: &[u32]) -> Batch {
    let tokens: Vec<TokenId> = text.bytes().map(TokenId::from).collect();
    Batch {
        sequences: vec![BatchSequence {
            row: 0,
            rows: tokens.len(),
            position,
            block: 0,
            blocks: blocks.len(),
        }],
        logit_rows: vec![tokens.len() - 1],
        tokens,
        blocks: blocks.iter().copied().map(BlockId).collect(),
    }
}

fn logits(runner: &mut FakeRunner, batch: &Batch) -> Result<Vec<f32>, RunnerError> {
    let mut logits = Vec::new();
    runner.forward(batch, &mut logits)?;
    Ok(logits)
}

#[test]
fn the_context_decides_wherever_its_blocks_are() {
    let whole = logits(&mut FakeRunner::hashing(LIMITS), &batch("abc", 0, &[0, 1])).unwrap();
    let mut runner = FakeRunner::hashing(LIMITS);
    logits(&mut runner, &batch("ab", 0, &[3])).unwrap();
    assert_eq!(logits(&mut runner, &batch("c", 2, &[3, 1])).unwrap(), whole);
    assert_ne!(
        logits(&mut runner, &batch("xbc", 0, &[0, 1])).unwrap(),
        whole
    );
}

#[test]
fn a_block_of_another_sequence_changes_what_is_said() {
    let mut runner = FakeRunner::hashing(LIMITS);
    logits(&mut runner, &batch("ab", 0, &[0])).unwrap();
    logits(&mut runner, &batch("xy", 0, &[1])).unwrap();
    let right = logits(&mut runner, &batch("c", 2, &[0, 2])).unwrap();
    assert_ne!(logits(&mut runner, &batch("c", 2, &[1, 2])).unwrap(), right);
}

#[test]
fn what_no_runner_could_compute_is_an_error() {
    let mut runner = FakeRunner::hashing(LIMITS);
    logits(&mut runner, &batch("ab", 0, &[0])).unwrap();
    let mut nobody = batch("ab", 0, &[0]);
    nobody.tokens.push(1);
    let mut twice = batch("ab", 0, &[0]);
    twice.tokens.extend_from_within(..);
    twice.sequences.push(BatchSequence {
        row: 2,
        ..twice.sequences[0].clone()
    });
    let faults = [
        ("no room", batch("abc", 0, &[0])),
        ("outside the pool", batch("ab", 0, &[4])),
        ("position 0 reads None", batch("c", 2, &[1, 2])),
        ("position 2 reads", batch("e", 4, &[0, 0, 2])),
        ("belong to nobody", nobody),
        ("written twice", twice),
    ];
    for (expected, fault) in faults {
        let error = logits(&mut runner, &fault).unwrap_err().0;
        assert!(error.contains(expected), "{error}");
    }
}

/// What a script says to a prompt, and what it says after that.
fn answer(script: &Script, prompt: &[TokenId]) -> String {
    let mut context = prompt.to_vec();
    loop {
        match script.next(&context) {
            END => break,
            token => context.push(token),
        }
        assert!(context.len() < 200, "the answer does not end");
    }
    let said = context[prompt.len()..].iter().map(|token| *token as u8);
    String::from_utf8(said.collect()).unwrap()
}

fn bytes(text: &str) -> Vec<TokenId> {
    text.bytes().map(TokenId::from).collect()
}

#[test]
fn a_script_answers_the_cue_that_comes_last_before_the_end_of_the_prompt() {
    let script = Script::new(byte_tokenizer(), bytes("\nhost:"), END)
        .when("", "What?")
        .when("price", "It costs 5.")
        .when("waterproof", "Yes.");
    let prompts = [
        ("is it waterproof?\nhost:", "Yes."),
        (
            "waterproof?\nhost:Yes.\nviewer: the price?\nhost:",
            "It costs 5.",
        ),
        ("price?\nhost:It costs 5.\nwaterproof?\nhost:", "Yes."),
        ("hello\nhost:", "What?"),
        ("no end of a prompt", ""),
    ];
    for (prompt, expected) in prompts {
        assert_eq!(answer(&script, &bytes(prompt)), expected, "{prompt}");
    }
}

#[test]
fn without_a_mark_the_cue_ends_the_prompt() {
    let script = Script::new(byte_tokenizer(), Vec::new(), END).when("go", "gone");
    assert_eq!(answer(&script, &bytes("let us go")), "gone");
    assert_eq!(answer(&script, &bytes("go on")), "");
}
