//! Passive observers: round-trip times and loss as a point on the path can
//! know them, each estimate with its uncertainty.

#![forbid(unsafe_code)]
