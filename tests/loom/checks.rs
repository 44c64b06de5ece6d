//! Runs the model checker's program.

use std::process::Command;

#[test]
fn every_order_of_threads_is_right() {
    let output = Command::new(env!("CARGO_BIN_EXE_compere-loom"))
        .output()
        .expect("the program was built");
    let said = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{said}");
}
