//! Compiles the state machines natively.

fn main() {
    narrows_cbuild::compile_native("narrows_efm", &["kernel"], &[]);
}
