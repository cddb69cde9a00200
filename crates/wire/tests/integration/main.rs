//! Header bytes, read and written.

mod fuzz;
mod properties;
mod targets;
mod tshark;
