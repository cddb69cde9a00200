//! Flows over QUIC in scenario files.

use narrows_scenario::{Draft, Plan, Refusal, SpinUse, Transport};

fn check(mtu: u32, keys: &str) -> Result<Plan, Refusal> {
    let text = format!(
        "version = 1\nname = \"one\"\nduration = \"10s\"\n\
         [[link]]\nname = \"access\"\nends = [\"client\", \"server\"]\nmtu = {mtu}\n\
         [[flow]]\nname = \"one\"\nfrom = \"client\"\nto = \"server\"\n{keys}\n"
    );
    Draft::read("quic.toml", text.as_bytes())?.check()
}

fn plan(keys: &str) -> Plan {
    check(1500, keys).unwrap_or_else(|e| panic!("{keys}: {e}"))
}

#[test]
fn control_or_transport_make_a_flow_one_over_quic() {
    for (keys, control) in [
        ("cc = \"quic:newreno\"", "quic:newreno"),
        ("transport = \"quic\"", "quic:cubic"),
        ("transport = \"quic\"\ncc = \"quic:bbr\"", "quic:bbr"),
    ] {
        let flow = &plan(keys).flows[0];
        let quic = flow.transport.quic().expect(keys);
        assert_eq!(quic.cc.to_string(), control);
        assert_eq!((quic.ecn, quic.spin), (true, SpinUse::Seed));
    }
    for keys in ["cc = \"cubic\"", "cc = \"cubic\"\ntransport = \"tcp\""] {
        assert!(plan(keys).flows[0].transport.tcp().is_some());
    }
    let datagrams = plan("traffic = \"cbr rate 1Mbit\"");
    assert_eq!(datagrams.flows[0].transport, Transport::Datagrams);
}

#[test]
fn a_plan_over_quic_is_written_down_as_it_was_read() {
    for keys in [
        "cc = \"quic:cubic\"",
        "cc = \"quic:newreno\"\nspin = \"greased\"\necn = false\nip = 6",
        "transport = \"quic\"\nspin = true\nopens = \"server\"\nbytes = \"1Mb\"",
    ] {
        let plan = plan(keys);
        let text = plan.to_toml();
        let again = Draft::read("again.toml", text.as_bytes())
            .and_then(|d| d.check())
            .unwrap_or_else(|e| panic!("{text}\n{e}"));
        assert_eq!(again, plan, "{text}");
    }
}

#[test]
fn a_flow_over_quic_may_stand_in_a_line() {
    let owned = |words: &[&str]| words.iter().map(|w| (*w).to_owned()).collect::<Vec<_>>();
    let draft = Draft::from_words(&owned(&["rate 10Mbit"]), &owned(&["quic:cubic spin on"]));
    let plan = draft.and_then(|d| d.check()).unwrap();
    let quic = plan.flows[0].transport.quic().expect("QUIC");
    assert_eq!(quic.spin, SpinUse::On);
}

#[test]
fn what_quic_or_tcp_cannot_have_is_refused_in_words() {
    for (keys, key, allowed) in [
        ("cc = \"cubic\"\ntransport = \"quic\"", "cc", "quic:cubic"),
        (
            "cc = \"quic:cubic\"\ntransport = \"tcp\"",
            "transport",
            "quic",
        ),
        ("cc = \"quic:vegas\"", "cc", "quic:newreno"),
        ("cc = \"cubic\"\ntransport = \"sctp\"", "transport", "tcp"),
        ("cc = \"cubic\"\nspin = \"on\"", "spin", "QUIC"),
        ("cc = \"quic:cubic\"\nspin = \"fast\"", "spin", "greased"),
        ("cc = \"quic:cubic\"\necn = \"accecn\"", "ecn", "`true`"),
        ("cc = \"quic:cubic\"\nfast_open = true", "fast_open", "TCP"),
        ("cc = \"quic:cubic\"\nmark = \"s\"", "mark", "TCP"),
        (
            "cc = \"quic:cubic\"\nhost_model = { gro = true }",
            "host_model",
            "TCP",
        ),
        (
            "cc = \"quic:cubic\"\ntraffic = \"cbr rate 1Mbit\"",
            "traffic",
            "bulk",
        ),
    ] {
        let refusal = check(1500, keys).expect_err(keys).to_line();
        assert!(refusal.contains(&format!("flow/one/{key}:")), "{refusal}");
        assert!(refusal.contains(allowed), "{refusal}");
    }
}

#[test]
fn a_path_that_is_too_narrow_for_quic_is_refused() {
    assert!(check(1228, "cc = \"quic:cubic\"").is_ok());
    for (mtu, more) in [(1227, ""), (1247, "\nip = 6")] {
        let keys = format!("cc = \"quic:cubic\"{more}");
        let refusal = check(mtu, &keys).expect_err(&keys).to_line();
        assert!(refusal.contains("an MTU of at least"), "{refusal}");
    }
}
