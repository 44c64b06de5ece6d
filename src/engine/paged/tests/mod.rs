//! The engine as a whole, driven step by step.
