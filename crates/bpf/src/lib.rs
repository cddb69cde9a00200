//! Loads Narrows' congestion controls and host hooks into the Linux kernel.

#![forbid(unsafe_code)]
