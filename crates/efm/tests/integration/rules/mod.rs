//! Every rule of RFC 9506, and those of the thesis, on real headers.

mod delay;
mod ends;
mod handshake;
mod header;
mod reflection;
mod round_trip;
mod spin;
mod square;
mod unreported;
