//! Compiles the algorithms natively: one unit, one table per algorithm.

use std::env;
use std::path::{Path, PathBuf};

fn main() {
    let of_tests = env::var_os("CARGO_FEATURE_TEST_CONTROLS").is_some();
    let controls = narrows_cbuild::controls(Path::new("."), of_tests);
    let out = PathBuf::from(env::var_os("OUT_DIR").expect("cargo sets OUT_DIR"));
    narrows_cbuild::write_list(&controls, &out);
    narrows_cbuild::write_models(Path::new("."), &out);
    narrows_cbuild::compile_native("narrows_cc", &["kernel", "tests/kernel"], &[&out]);
}
