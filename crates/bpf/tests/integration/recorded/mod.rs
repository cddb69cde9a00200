//! Recordings of kernels, kept in files, and their replay through the native build:
//! the calls of congestion controls, what was marked at a device, and packets as TCP
//! has them.

pub mod calls;
mod file;
pub mod marks;
pub mod packets;
