//! Load without coordinated omission: what is asked (`scenario`, `workload`), when (`arrivals`), of whom (`target`), and
//! what came of it (`answer`, `summary`).

pub(crate) mod answer;
pub(crate) mod arrivals;
pub(crate) mod drive;
pub(crate) mod progress;
pub(crate) mod random;
pub(crate) mod scenario;
mod sse;
pub(crate) mod summary;
pub(crate) mod target;
pub(crate) mod workload;
