//! Impairments in netem's words and by netem's rules (Linux
//! `net/sched/sch_netem.c` and iproute2 `tc/q_netem.c`, v6.17): delay and
//! jitter with distributions and correlation, loss (random, Gilbert-Elliott,
//! four states), duplication, corruption, reordering, slots; and delays
//! that a recording gives, which netem lacks.
//!
//! Deviations, each on purpose: there is no limit unless one is given (netem's
//! 1000 packets silently cut fast long paths); a random word becomes a delay
//! by its quantile instead of by a remainder, so that a correlation between
//! words is one between delays; distributions are computed instead of read
//! from tables of 4096 steps.

mod element;
mod law;
mod loss;
mod recorded;
mod spec;
#[cfg(test)]
mod tests;

pub use element::Netem;
pub use law::Distribution;
pub use loss::LossSpec;
pub use recorded::DelayTraceSpec;
pub use spec::{NetemSpec, SlotGap, SlotSpec};
