//! What is written for containerlab and NEMO and read again is the same plan.

use narrows_descriptors::{Format, Target, export};
use narrows_scenario::Plan;
use proptest::prelude::*;

use crate::{plan, read, written};

/// Names of hosts, among them those that other tools do not take.
const NAMES: [&str; 8] = [
    "client",
    "a",
    "Ürsula",
    "_x",
    "r.1",
    "A",
    "node",
    "a-very-long-name-of-a-host-in-a-lab-with-many-words-in-its-name",
];

const ELEMENTS: [&str; 10] = [
    "netem delay 10ms 1ms loss random 0.5%",
    "bottleneck: rate 50Mbit queue dualpi2",
    "rate 1.5Mbit overhead 38 queue pfifo limit 200",
    "remark if dscp cs1 ecn not-ect",
    "by dscp 8 (netem delay 5ms) else (netem delay 10ms)",
    "rate 100Mbit queue cake bandwidth 20Mbit dual-srchost",
    "police rate 10Mbit burst 20kb",
    "mmb add ip-proto udp drop; add tcp-syn mod ip-ecn 0",
    "mtu 1400 silent",
    "wifi mcs 7 queue fq_codel",
];

/// Those of [`ELEMENTS`] that see both directions.
const TWO_WAY: std::ops::Range<usize> = 7..9;

/// The elements of a direction. Of two that see both, `down` meets first what `up` meets last.
fn elements(which: &[usize], up: bool, tap: Option<String>) -> String {
    let mut which = which.to_vec();
    let mut two_way: Vec<usize> = which.clone();
    two_way.retain(|element| TWO_WAY.contains(element));
    two_way.sort_unstable();
    if up {
        two_way.reverse();
    }
    for element in which.iter_mut().filter(|e| TWO_WAY.contains(e)) {
        *element = two_way.pop().unwrap_or(*element);
    }
    // A name stands once in a direction.
    let mut chosen: Vec<String> = Vec::new();
    for element in &which {
        let element = format!("{:?}", ELEMENTS[*element]);
        if !chosen.contains(&element) {
            chosen.push(element);
        }
    }
    chosen.extend(tap.map(|name| format!("\"tap {name}\"")));
    format!("[{}]", chosen.join(", "))
}

prop_compose! {
    /// A tree of hosts, with whatever elements, and a flow from the first to the last.
    fn scenario()(
        parents in prop::collection::vec(any::<prop::sample::Index>(), 1..7),
        up in prop::collection::vec(prop::collection::vec(0..ELEMENTS.len(), 0..4), 7),
        down in prop::collection::vec(prop::collection::vec(0..ELEMENTS.len(), 0..4), 7),
        mtu in prop::collection::vec(prop::option::of(1400_u32..9000), 7),
        kernel in prop::collection::vec(any::<bool>(), 7),
        turned in prop::collection::vec(any::<bool>(), 7),
        addressed in any::<bool>(),
        title in "[ -~äö\"'\\\\\n]{0,40}",
        cc in prop::sample::select(vec!["cubic", "prague variant 2020", "quic:cubic"]),
    ) -> String {
        let mut file = format!(
            "version = 1\nname = \"{}\"\ntitle = {}\nduration = \"9s\"\nseed = 7\n",
            if addressed { "a lab" } else { "Lab: ünder_test" },
            toml::Value::String(title),
        );
        if addressed {
            file += "[[host]]\nname = \"client\"\nipv4 = \"192.0.2.77\"\nipv6 = \"fd00::77\"\n";
        }
        for (child, parent) in parents.iter().enumerate() {
            let (here, there) = (NAMES[child + 1], NAMES[parent.index(child + 1)]);
            let ends = if turned[child] { [here, there] } else { [there, here] };
            file += &format!(
                "[[link]]\nname = \"l{child}\"\nends = {ends:?}\nup = {}\ndown = {}\n",
                elements(&up[child], true, kernel[child].then(|| format!("t{child}"))),
                elements(&down[child], false, None),
            );
            if let Some(mtu) = mtu[child] {
                file += &format!("mtu = {mtu}\n");
            }
            if kernel[child] {
                file += "datapath = \"kernel\"\n";
            }
        }
        let last = NAMES[parents.len()];
        file += &format!(
            "[[flow]]\nname = \"f\"\nfrom = \"client\"\nto = {last:?}\ncc = \"{cc}\"\ndscp = 46\n\
             [[probe]]\nname = \"p\"\nfrom = {last:?}\nto = \"client\"\n"
        );
        file
    }
}

/// The plan that comes back.
pub(crate) fn back(plan: &Plan, target: Target) -> Plan {
    let text = export(plan, target).text;
    let format = match target {
        Target::Nemo => Format::Nemo,
        _ => Format::Containerlab,
    };
    assert_eq!(narrows_descriptors::guess(&text), Some(format), "{text}");
    read(&text, format).plan
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 200, ..ProptestConfig::default() })]
    #[test]
    fn a_scenario_comes_back_as_it_was(file in scenario()) {
        let plan = written(&plan(&file));
        for target in [Target::Containerlab, Target::Nemo] {
            let back = back(&plan, target);
            prop_assert_eq!(&back, &plan, "{:?}\n{}", target, export(&plan, target).text);
        }
    }
}

#[test]
fn a_router_that_is_a_switch_comes_back() {
    let plan = plan(
        "version = 1\nname = \"s\"\nduration = \"5s\"\n[[router]]\nname = \"s\"\n\
         is = \"switch buffer 200kb rate 1Gbit queue dualpi2\"\n[[link]]\nname = \"a\"\nends = [\"x\", \"s\"]\n\
         [[link]]\nname = \"b\"\nends = [\"s\", \"y\"]\nup = [\"s: rate 10Mbit\"]\n\
         [[flow]]\nname = \"f\"\nfrom = \"x\"\nto = \"y\"\ncc = \"cubic\"\n",
    );
    let plan = written(&plan);
    for target in [Target::Containerlab, Target::Nemo] {
        assert_eq!(back(&plan, target), plan, "{target:?}");
    }
}
