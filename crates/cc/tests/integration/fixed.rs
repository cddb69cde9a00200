//! Fixed point against whole numbers of 128 bits, in which every operation is exact.

use std::io::Write;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use narrows_cbuild::build_check;
use proptest::prelude::*;

const OPERATIONS: [&str; 18] = [
    "q16_mul",
    "q30_mul",
    "q16_mul_q30",
    "q16_div",
    "q30_div",
    "q16_div_q30",
    "q16_ratio",
    "q30_ratio",
    "q16_of_q30",
    "q30_of_q16",
    "sq_add",
    "sq_sub",
    "sq16_mul",
    "sq30_mul",
    "sq16_div",
    "sq30_div",
    "cube_root",
    "q16_cube_root",
];

type Case = (&'static str, u64, u64);

fn program() -> Option<PathBuf> {
    let kernel = Path::new(env!("CARGO_MANIFEST_DIR")).join("kernel");
    let scratch = Path::new(env!("CARGO_TARGET_TMPDIR"));
    let source = kernel.join("check/fixed.c");
    build_check("cc-fixed", scratch, &["-std=c11"], &[source])
}

/// What the C makes of each case.
fn results(program: &Path, cases: &[Case]) -> Vec<i128> {
    let mut child = Command::new(program)
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .spawn()
        .unwrap();
    let mut input = String::new();
    for (name, a, b) in cases {
        input += &format!("{name} {a} {b}\n");
    }
    let mut stdin = child.stdin.take().unwrap();
    let writer = std::thread::spawn(move || stdin.write_all(input.as_bytes()));
    let output = child.wait_with_output().unwrap();
    writer.join().unwrap().unwrap();
    assert!(output.status.success(), "{output:?}");
    let text = String::from_utf8(output.stdout).unwrap();
    text.lines().map(|line| line.parse().unwrap()).collect()
}

/// The exact quotient, rounded to the nearest, halves up.
fn nearest(a: u128, b: u128) -> u128 {
    (a + b / 2) / b
}

fn unsigned(value: u128) -> i128 {
    value.min(u128::from(u32::MAX)) as i128
}

fn signed(value: i128) -> i128 {
    value.clamp(i128::from(i32::MIN), i128::from(i32::MAX))
}

/// The sign of a product or quotient with its size; a divisor of 0 is the end.
fn with_sign(a: i128, b: i128, size: i128) -> i128 {
    signed(if (a < 0) == (b < 0) { size } else { -size })
}

/// What each operation should give, and by how much it may be off.
fn exact((name, a, b): Case) -> (i128, i128) {
    let (low_a, low_b) = (u128::from(a as u32), u128::from(b as u32));
    let (sa, sb) = (i128::from(a as i32), i128::from(b as i32));
    let (size_a, size_b) = (sa.unsigned_abs(), sb.unsigned_abs());
    let product = |a: u128, b: u128, bits: u32| unsigned(nearest(a * b, 1 << bits));
    let quotient = |a: u128, b: u128, bits: u32| match b {
        0 => unsigned(u128::MAX),
        b => unsigned(nearest(a << bits, b)),
    };
    let ratio = |bits: u32| match (a, b) {
        (0, 0) => (0, 0),
        (_, 0) => (unsigned(u128::MAX), 0),
        // Operands that lost bits: 30 are left of the divisor at the least.
        _ => {
            let off = if a >> (63 - bits) == 0 { 0 } else { 4 };
            (unsigned(nearest(u128::from(a) << bits, b.into())), off)
        }
    };
    let root = |of: u128| {
        // Bisection between what is too small and what is too large.
        let (mut root, mut above) = (0_u128, 1 << 23);
        while above - root > 1 {
            let middle = (root + above) / 2;
            if middle * middle * middle <= of {
                root = middle;
            } else {
                above = middle;
            }
        }
        (root as i128, 0)
    };
    match name {
        "q16_mul" => (product(low_a, low_b, 16), 0),
        "q30_mul" | "q16_mul_q30" => (product(low_a, low_b, 30), 0),
        "q16_div" => (quotient(low_a, low_b, 16), 0),
        "q30_div" | "q16_div_q30" => (quotient(low_a, low_b, 30), 0),
        "q16_ratio" => ratio(16),
        "q30_ratio" => ratio(30),
        "q16_of_q30" => (unsigned(nearest(low_a, 1 << 14)), 0),
        "q30_of_q16" => (unsigned(low_a << 14), 0),
        "sq_add" => (signed(sa + sb), 0),
        "sq_sub" => (signed(sa - sb), 0),
        "sq16_mul" => (with_sign(sa, sb, product(size_a, size_b, 16)), 0),
        "sq30_mul" => (with_sign(sa, sb, product(size_a, size_b, 30)), 0),
        "sq16_div" => (with_sign(sa, sb, quotient(size_a, size_b, 16)), 0),
        "sq30_div" => (with_sign(sa, sb, quotient(size_a, size_b, 30)), 0),
        "cube_root" => root(a.into()),
        "q16_cube_root" => root(low_a << 32),
        other => panic!("{other}"),
    }
}

fn check(program: &Path, cases: &[Case]) {
    let got = results(program, cases);
    assert_eq!(got.len(), cases.len());
    for (case, got) in cases.iter().zip(got) {
        let (exact, off) = exact(*case);
        assert!(
            (got - exact).abs() <= off,
            "{case:?}: {got}, exactly {exact}"
        );
    }
}

#[test]
fn the_ends_of_the_range_and_what_lies_beside_them() {
    let Some(program) = program_once() else {
        return;
    };
    let mut ends = vec![];
    for end in [
        0,
        1 << 14,
        1 << 16,
        1 << 30,
        1 << 31,
        1 << 32,
        1 << 46,
        1 << 62,
        1 << 63,
    ] {
        let end: u64 = end;
        ends.extend([-2, -1, 0, 1, 2].map(|by| end.wrapping_add_signed(by)));
    }
    // About cubes, where a root steps.
    for root in [2, 1625, 2_642_245_u64] {
        let cube = root.wrapping_mul(root).wrapping_mul(root);
        ends.extend([cube - 1, cube, cube.wrapping_add(1)]);
    }
    let mut cases = vec![];
    for name in OPERATIONS {
        for a in &ends {
            cases.extend(ends.iter().map(|b| (name, *a, *b)));
        }
    }
    check(program, &cases);
}

/// Of any size, as often small as large.
fn operand() -> impl Strategy<Value = u64> {
    (any::<u64>(), 0..64_u32).prop_map(|(bits, shift)| bits >> shift)
}

proptest! {
    // Each case is a run of the program over 200 operations.
    #![proptest_config(ProptestConfig::with_cases(64))]

    #[test]
    fn every_operation_is_exact_to_its_rounding(
        cases in prop::collection::vec(
            (prop::sample::select(OPERATIONS.as_slice()), operand(), operand()),
            200,
        ),
    ) {
        if let Some(program) = program_once() {
            check(program, &cases);
        }
    }
}

fn program_once() -> Option<&'static PathBuf> {
    static ONCE: std::sync::OnceLock<Option<PathBuf>> = std::sync::OnceLock::new();
    ONCE.get_or_init(program).as_ref()
}
