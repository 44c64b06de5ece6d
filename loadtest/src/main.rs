//! Measures compere beside its peers.
fn main() {}
