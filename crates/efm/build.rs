//! Compiles the state machines natively.

fn main() {
    narrows_freestanding::compile_native("narrows_efm", &["kernel"], &[]);
}
