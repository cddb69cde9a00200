//! Measurement signals at devices, between two network namespaces: what stands
//! in the packets, and what is left as it was.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};
use std::time::Duration;

use narrows_bpf::{BpfError, EcnFlags, SignalCounters, SignalOptions, SignalProgram, Trace};
use narrows_efm::SignalSpec;
use narrows_wire::{Profile, Signal};

use crate::rig::transfer::{Chosen, Transfer};
use crate::rig::wire::{Passed, Wire};
use crate::rig::{Namespace, control, skipped};

const V4: IpAddr = IpAddr::V4(Ipv4Addr::new(10, 9, 0, 2));
const V6: IpAddr = IpAddr::V6(Ipv6Addr::new(0xfd09, 0, 0, 0, 0, 0, 0, 2));
/// Enough that every signal is seen: about 350 packets, several round trips.
const BYTES: usize = 500_000;
const DELAY: Duration = Duration::from_millis(4);
/// The AE flag.
const AE: u8 = 1;

fn spec(words: &str) -> SignalSpec {
    SignalSpec::parse(words).expect("the words name signals")
}

/// The path, or the word that this machine has none.
fn wire(test: &str) -> Option<Wire> {
    Wire::start(DELAY).map_err(|why| skipped(test, &why)).ok()
}

fn attach(
    test: &str,
    host: &Namespace,
    words: &str,
    options: &SignalOptions,
) -> Option<SignalProgram> {
    let index = host.index("tun0");
    match host.run(|| SignalProgram::attach_with(index, &spec(words), options)) {
        Ok(mark) => Some(mark),
        Err(e @ (BpfError::NotBuilt(_) | BpfError::Kernel { .. })) => {
            skipped(test, &e);
            None
        }
        Err(e) => panic!("{words}: {e}"),
    }
}

fn send(wire: &Wire, server: IpAddr, cc: &str) {
    let transfer = Transfer {
        server,
        bytes: BYTES,
        pause: None,
        client_cc: cc,
        server_cc: cc,
        chosen: Chosen::BeforeListen,
    };
    let done = transfer.between(&wire.client, &wire.server);
    assert_eq!(done.received, BYTES);
}

/// A transfer with `words` at both ends; what passed and both hosts' counters.
fn marked(
    test: &str,
    words: &str,
    server: IpAddr,
    options: &SignalOptions,
) -> Option<(Vec<Passed>, [SignalCounters; 2])> {
    let wire = wire(test)?;
    wire.one_segment();
    let near = attach(test, &wire.client, words, options)?;
    let far = attach(test, &wire.server, words, options)?;
    send(&wire, server, "reno");
    // What is still under way is counted and passes.
    std::thread::sleep(DELAY * 5);
    let counters = [&near, &far].map(|m| m.counters().expect("counters can be read"));
    Some((wire.stop(), counters))
}

/// Lengths of the runs of one signal's value, the last one left out.
fn runs(passed: &[&Passed], mask: u8) -> Vec<usize> {
    let mut runs = vec![0];
    let mut value = None;
    for packet in passed {
        let now = packet.bits & mask != 0;
        if value.is_some_and(|v| v != now) {
            runs.push(0);
        }
        value = Some(now);
        *runs.last_mut().expect("one is there") += 1;
    }
    runs.pop();
    runs
}

fn check(words: &str, passed: &[Passed], counters: &[SignalCounters; 2]) {
    let first = words.split(' ').next().expect("a first word");
    let profile: Profile = first.parse().expect("a profile");
    let code = profile.code().unwrap_or(0);
    let all: u8 = Signal::ALL.iter().fold(0, |all, s| all | profile.mask(*s));
    assert!(passed.iter().all(|p| p.sound), "{words}: checksums");
    for (forth, counters) in [(true, &counters[0]), (false, &counters[1])] {
        let of_host: Vec<_> = passed.iter().filter(|p| p.forth == forth).collect();
        let (opening, rest): (Vec<_>, Vec<_>) = of_host.into_iter().partition(|p| p.is_syn());
        assert_eq!(opening.len(), 1, "{words}");
        assert_eq!(opening[0].bits, code << 1, "{words}: the code");
        assert_eq!(counters.announced, u64::from(code != 0), "{words}");
        assert!(rest.iter().all(|p| p.bits & !all == 0), "{words}: {all:#x}");
        assert_eq!(counters.marked, rest.len() as u64, "{words}: {counters:?}");
        assert_eq!(counters.segmented + counters.refused, 0, "{words}");
        for signal in Signal::ALL {
            let mask = profile.mask(signal);
            let set = rest.iter().filter(|p| p.bits & mask != 0).count() as u64;
            assert_eq!(counters.set(signal), set, "{words}: {signal:?}");
        }
        let spin = runs(&rest, profile.mask(Signal::Spin));
        assert!(
            !profile.has(Signal::Spin) || spin.len() >= 3,
            "{words}: {spin:?}"
        );
        assert!(!profile.has(Signal::Vec) || counters.set(Signal::Vec) >= 3);
        assert!(!profile.has(Signal::Delay) || counters.set(Signal::Delay) >= 1);
        if profile.has(Signal::Square) && forth {
            let blocks = runs(&rest, profile.mask(Signal::Square));
            assert!(blocks.len() >= 4, "{words}: {blocks:?}");
            assert!(blocks.iter().all(|b| *b == 64), "{words}: {blocks:?}");
        }
    }
}

#[test]
fn every_profile_with_a_code_stands_in_the_packets_of_both_ends() {
    let test = "every_profile_with_a_code_stands_in_the_packets_of_both_ends";
    // A busy machine holds samples for longer than a millisecond.
    for words in [
        "d hold off",
        "s",
        "d+q hold off",
        "s+vec",
        "s+d+q hold off",
        "d+q+l hold off",
        "d+q+r hold off",
    ] {
        let Some((passed, counters)) = marked(test, words, V4, &SignalOptions::default()) else {
            return;
        };
        check(words, &passed, &counters);
    }
}

#[test]
fn profiles_without_a_code_mark_and_leave_syns_alone() {
    let test = "profiles_without_a_code_mark_and_leave_syns_alone";
    for words in ["s+t", "d+q+e hold off"] {
        let Some((passed, counters)) = marked(test, words, V4, &SignalOptions::default()) else {
            return;
        };
        check(words, &passed, &counters);
    }
}

#[test]
fn ipv6_and_clsact_mark_alike() {
    let test = "ipv6_and_clsact_mark_alike";
    for (server, clsact) in [(V6, false), (V4, true)] {
        let options = SignalOptions {
            clsact,
            ..SignalOptions::default()
        };
        let Some((passed, counters)) = marked(test, "s+d+q hold off", server, &options) else {
            return;
        };
        check("s+d+q", &passed, &counters);
    }
}

#[test]
fn accurate_ecn_negotiates_and_counts_beside_marks() {
    let test = "accurate_ecn_negotiates_and_counts_beside_marks";
    let Some(prague) = control(test, "prague", EcnFlags::AccEcn, Trace::Off) else {
        return;
    };
    if prague.ecn() != EcnFlags::AccEcn {
        return skipped(test, &"this kernel has no Accurate ECN");
    }
    let Some(wire) = wire(test) else {
        return;
    };
    wire.one_segment();
    let options = SignalOptions::default();
    let Some(_near) = attach(test, &wire.client, "s+vec", &options) else {
        return;
    };
    let Some(_far) = attach(test, &wire.server, "s+vec", &options) else {
        return;
    };
    send(&wire, V4, prague.name());
    let passed = wire.stop();
    let syn: Vec<_> = passed.iter().filter(|p| p.is_syn()).collect();
    // AE, CWR and ECE ask for Accurate ECN (RFC 9768 §3.1.1); 100 is S+VEC.
    assert_eq!((syn[0].bits, syn[0].flags & 0xc0), (0x08 | AE, 0xc0));
    assert_eq!(syn[1].bits >> 1, 0b100);
    // With no CE the field ACE stays at its start, 5 of 8: AE and ECE.
    let rest: Vec<_> = passed.iter().filter(|p| !p.is_syn()).collect();
    let ace = |p: &Passed| (p.bits & AE) << 2 | p.flags >> 6;
    let initial = rest.iter().filter(|p| ace(p) == 5).count();
    assert!(initial + 1 >= rest.len(), "{initial} of {}", rest.len());
    assert!(rest.iter().all(|p| p.sound));
    assert!(rest.iter().any(|p| p.bits & 0x08 != 0));
}

#[test]
fn packets_that_will_be_cut_stay_unmarked_and_are_counted() {
    let test = "packets_that_will_be_cut_stay_unmarked_and_are_counted";
    let Some(wire) = wire(test) else {
        return;
    };
    let options = SignalOptions::default();
    let Some(near) = attach(test, &wire.client, "d+q", &options) else {
        return;
    };
    send(&wire, V4, "reno");
    std::thread::sleep(DELAY * 5);
    let counters = near.counters().expect("counters can be read");
    let passed = wire.stop();
    let forth = passed.iter().filter(|p| p.forth && !p.is_syn());
    assert!(counters.segmented > 0, "{counters:?}");
    assert!(counters.segments > 2 * counters.segmented - 1);
    assert_eq!(
        counters.marked + counters.segments,
        forth.clone().count() as u64
    );
    let q = forth.filter(|p| p.bits & 0x04 != 0).count() as u64;
    assert_eq!(counters.set(Signal::Square), q);
    assert!(passed.iter().all(|p| p.sound));
}

#[test]
fn what_the_filter_leaves_out_and_what_comes_after_detaching_is_unmarked() {
    let test = "what_the_filter_leaves_out_and_what_comes_after_detaching_is_unmarked";
    let not_here = IpAddr::V4(Ipv4Addr::new(10, 9, 0, 9));
    for (host, port, fits) in [
        (None, Some(5001), true),
        (None, Some(5002), false),
        (Some(V4), Some(5001), true),
        (Some(not_here), None, false),
    ] {
        let options = SignalOptions {
            host,
            ports: port.into_iter().collect(),
            ..SignalOptions::default()
        };
        let Some((passed, counters)) = marked(test, "s", V4, &options) else {
            return;
        };
        let marked = passed.iter().any(|p| p.bits & 0x0e != 0);
        assert_eq!(marked, fits, "{host:?} {port:?}");
        assert_eq!(counters[0].flows, u64::from(fits));
    }
    for clsact in [false, true] {
        let options = SignalOptions {
            clsact,
            ..SignalOptions::default()
        };
        let Some(wire) = wire(test) else {
            return;
        };
        drop(attach(test, &wire.client, "s", &options));
        send(&wire, V4, "reno");
        assert!(wire.stop().iter().all(|p| p.bits == 0), "clsact {clsact}");
    }
}

#[test]
fn signals_of_the_socket_are_refused_where_packets_of_others_pass() {
    let test = "signals_of_the_socket_are_refused_where_packets_of_others_pass";
    let Some(wire) = wire(test) else {
        return;
    };
    let host = &wire.client;
    let index = host.index("tun0");
    let forward = || std::fs::write("/proc/sys/net/ipv4/conf/tun0/forwarding", "1");
    host.run(forward).expect("the switch is there");
    for (words, refused) in [("d+q+l", true), ("d+q+e", true), ("d+q+r", false)] {
        match host.run(|| SignalProgram::attach(index, &spec(words))) {
            Err(BpfError::NotBuilt(why)) => return skipped(test, &why),
            Err(e) => assert!(refused && e.to_string().contains("forwards"), "{e}"),
            Ok(_) => assert!(!refused, "{words}"),
        }
    }
}
