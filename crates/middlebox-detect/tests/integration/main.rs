//! Detection on simulated paths.

mod boxes;
mod clean_paths;
mod simulated;
