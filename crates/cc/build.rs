//! Compiles the algorithms natively: one unit, one table per algorithm.

fn main() {
    narrows_freestanding::compile_native("narrows_cc");
}
