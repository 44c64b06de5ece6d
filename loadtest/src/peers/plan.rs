//! How long each part is measured: all of it in about 15 minutes, or a glance in about 3.

/// Rounds and seconds.
pub(super) struct Plan {
    /// Of prefill and decode.
    pub(super) kernel_rounds: usize,
    /// Whether a few sets of llama-server's flags are tried.
    pub(super) try_flags: bool,
    /// Closed loop, each round both sides.
    pub(super) capacity_rounds: usize,
    pub(super) capacity_s: u64,
    /// Open loop at a share of the peer's capacity, each round.
    pub(super) open_s: u64,
    pub(super) open_rounds: u64,
    /// Open loop at the same share of our own, each round.
    pub(super) own_s: u64,
    /// Loads of the curve as shares of the side's own capacity.
    pub(super) curve: &'static [f64],
    pub(super) curve_s: u64,
    /// Tokens of the harness, growing.
    pub(super) harness: &'static [usize],
    pub(super) growth_s: u64,
}

pub(super) const FULL: Plan = Plan {
    kernel_rounds: 2,
    try_flags: true,
    capacity_rounds: 3,
    capacity_s: 10,
    open_s: 45,
    open_rounds: 2,
    own_s: 30,
    curve: &[0.1, 0.3, 0.7, 1.0, 1.5, 3.0],
    curve_s: 10,
    harness: &[500, 1500, 3000, 6000],
    growth_s: 5,
};

pub(super) const QUICK: Plan = Plan {
    kernel_rounds: 1,
    try_flags: false,
    capacity_rounds: 1,
    capacity_s: 10,
    open_s: 20,
    open_rounds: 1,
    own_s: 10,
    curve: &[0.3, 3.0],
    curve_s: 6,
    harness: &[500, 6000],
    growth_s: 4,
};
