//! The program; the only place that exits the process.
fn main() {}
