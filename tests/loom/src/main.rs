//! The parts that several threads touch, built over a model checker's atomics and threads and run in every order that
//! the memory model allows, up to a bound on preemptions. Arguments that are not options choose checks by name.
#![allow(clippy::print_stdout, reason = "it reports as tests do")]

mod paged;
mod regions;
mod threads;

#[path = "../../../src/model/cpu/src/pool.rs"]
#[allow(
    dead_code,
    unreachable_pub,
    clippy::reversed_empty_ranges,
    reason = "it is public where it belongs, not all of it is used here, and nobody spins here"
)]
mod pool;

/// Stands for the engine's border.
mod engine {
    /// Identifies one pinned prefix.
    #[derive(Clone, Copy, Debug, PartialEq, Eq)]
    pub(crate) struct PinId(pub(crate) u64);
}

/// A check by name.
type Check = (&'static str, fn());

fn main() {
    let names: Vec<String> = std::env::args()
        .skip(1)
        .filter(|argument| !argument.starts_with('-'))
        .collect();
    for (name, run) in regions::CHECKS.iter().chain(paged::CHECKS) {
        if names.is_empty() || names.iter().any(|wanted| name.contains(wanted.as_str())) {
            run();
            println!("loom {name} ... ok");
        }
    }
}

/// Runs `body` in all orders with at most `preemptions` preemptions. It panics in the first one that is wrong, also
/// when all threads sleep for ever or two use a [`threads::Slot`] at once.
fn check(preemptions: usize, body: impl Fn() + Sync + Send + 'static) {
    let mut model = loom::model::Builder::new();
    model.preemption_bound = Some(preemptions);
    model.check(body);
}
