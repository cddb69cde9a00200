//! QUIC endpoints without I/O, and flows that show a path what QUIC or its
//! relatives would show it.
//!
//! Time is an argument everywhere, and every random draw comes from a seed, so
//! that a run repeats byte for byte.

#![forbid(unsafe_code)]
