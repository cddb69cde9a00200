//! Kernels, from their settings.

mod build;
mod changes;
