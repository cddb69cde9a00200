//! Connections of QUIC in virtual time.

mod model;
mod pair;
