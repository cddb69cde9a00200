//! Measurement signals by their rules.

mod compiled;
mod fuzz;
mod marker;
mod rules;
