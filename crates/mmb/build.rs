//! Compiles the box natively.

fn main() {
    narrows_freestanding::compile_native("narrows_mmb", &["kernel"], &[]);
}
