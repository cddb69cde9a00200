//! The same C under sanitizers, with pseudo-random packets.

use std::path::Path;

use narrows_cbuild::run_check;

#[test]
fn random_packets_meet_no_undefined_behaviour_and_keep_right_checksums_right() {
    let kernel = Path::new(env!("CARGO_MANIFEST_DIR")).join("kernel");
    let sources = [kernel.join("native.c"), kernel.join("check/harness.c")];
    let scratch = Path::new(env!("CARGO_TARGET_TMPDIR"));
    run_check("mmb-harness", scratch, &["-std=c11"], &sources);
}
