//! Rules for tests: drawn.

use narrows_mmb::{Field, Rule};
use narrows_units::Rng;

/// A value of `field` as a rule may write it; often one that packets have.
fn value(rng: &mut Rng, field: Field) -> String {
    let values = field.values();
    let number = |rng: &mut Rng| {
        let raw = rng.draw_u64();
        match rng.below(3) {
            0 => ["80", "443", "0", "5000", "1460", "7", "64"][rng.below(7) as usize].to_owned(),
            1 => format!("{}", raw >> 56),
            _ => format!("x{:x}", raw >> rng.below(64)),
        }
    };
    match () {
        () if values.contains("0 or 1") => rng.below(2).to_string(),
        () if values.contains("no value") => String::new(),
        () if values.contains("IPv4") => {
            let length = ["", "/24", "/31", "/0"][rng.below(4) as usize];
            format!("10.0.{}.{}{length}", rng.below(2), rng.below(3))
        }
        () if values.contains("IPv6") => {
            let length = ["", "/127", "/64"][rng.below(3) as usize];
            format!("2001:db8::{}{length}", rng.below(3))
        }
        () if values.contains("protocol") => {
            ["tcp", "udp", "icmp", "47"][rng.below(4) as usize].to_owned()
        }
        () if values.contains("ip4 or ip6") => ["ip4", "ip6"][rng.below(2) as usize].to_owned(),
        () if values.contains("interface") => {
            ["inside", "outside"][rng.below(2) as usize].to_owned()
        }
        () if values.contains("hexadecimal") => {
            ["x0102", "x00", "x09090909", "x05b4aa"][rng.below(4) as usize].to_owned()
        }
        () => number(rng),
    }
}

/// A field, with a kind where one may follow.
fn field(rng: &mut Rng, fits: impl Fn(Field) -> bool) -> (Field, String) {
    loop {
        let all = super::naive::fields();
        let field = all[rng.below(all.len() as u32) as usize];
        if !fits(field) {
            continue;
        }
        let kind = match field.name() {
            "tcp-opt" => format!(" {}", [2, 22, 34, 8][rng.below(4) as usize]),
            "ip6-eh" => format!(" {}", [0, 60, 44][rng.below(3) as usize]),
            _ => String::new(),
        };
        return (field, format!("{}{kind}", field.name()));
    }
}

fn constraint(rng: &mut Rng) -> String {
    let (of, name) = field(rng, |_| true);
    let bang = ["", "", "", "! "][rng.below(4) as usize];
    let condition = ["", "==", "!=", "<", ">", "<=", ">="][rng.below(7) as usize];
    match rng.below(3) {
        0 => format!("{bang}{name}"),
        _ => format!("{bang}{name} {condition} {}", value(rng, of)),
    }
}

fn target(rng: &mut Rng) -> String {
    // Checksums that rules set, and payloads that hold them, are tests of their own.
    let settable = |f: Field| {
        let odd =
            f.name().ends_with("checksum") || ["ip-payload", "ip6-payload"].contains(&f.name());
        f.can_be_set() && !odd
    };
    match rng.below(12) {
        0 => "drop".to_owned(),
        1 => "accept".to_owned(),
        2 => "strip all".to_owned(),
        3 => format!("strip {}", field(rng, Field::is_option).1),
        4 => format!("strip ! {}", field(rng, Field::is_option).1),
        5 | 6 => {
            let (of, name) = field(rng, Field::is_option);
            format!("add {name} {}", value(rng, of))
        }
        _ => {
            let (of, name) = field(rng, settable);
            format!("mod {name} {}", value(rng, of))
        }
    }
}

/// A rule that is one; what is drawn often is not.
pub fn drawn(rng: &mut Rng) -> Rule {
    loop {
        let mut line = "add".to_owned();
        match rng.below(8) {
            0 => line += " all",
            _ => {
                for _ in 0..=rng.below(3) {
                    line += " ";
                    line += &constraint(rng);
                }
            }
        }
        for _ in 0..=rng.below(2) {
            line += " ";
            line += &target(rng);
        }
        if let Ok(rule) = Rule::parse(&line) {
            let written = rule.to_string();
            assert_eq!(Rule::parse(&written).as_ref(), Ok(&rule), "{line}");
            return rule;
        }
    }
}
