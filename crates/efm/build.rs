//! Compiles the state machines natively.

fn main() {
    println!("cargo::rerun-if-changed=kernel");
    cc::Build::new()
        .file("kernel/native.c")
        .std("c11")
        // Debug builds run whole scenarios too.
        .opt_level(2)
        .flag("-ffreestanding")
        .flag_if_supported("-Wdeclaration-after-statement")
        .warnings(true)
        .extra_warnings(true)
        .warnings_into_errors(true)
        .compile("narrows_efm");
}
