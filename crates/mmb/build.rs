//! Compiles the box natively.

fn main() {
    narrows_cbuild::compile_native("narrows_mmb", &["kernel"], &[]);
}
