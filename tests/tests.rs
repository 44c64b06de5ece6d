//! Behaviour of the whole program, one module per subject.

mod tidy;
