use super::*;
use crate::QueueSpec;

fn read(words: &str) -> CakeConfig {
    match QueueSpec::parse(&format!("cake {words}")) {
        Ok(QueueSpec::Cake(config)) => config,
        other => panic!("{words}: {other:?}"),
    }
}

fn refused(words: &str) -> (String, WordError) {
    let line = format!("cake {words}");
    let error = QueueSpec::parse(&line).unwrap_err();
    (line[error.span.clone()].to_owned(), error)
}

#[test]
fn keywords_of_the_overhead_are_what_tc_cake_8_says_they_equal() {
    for (keyword, equal) in [
        ("conservative", "overhead 48 atm"),
        ("pppoa-vcmux", "overhead 10 atm"),
        ("pppoa-llc", "overhead 14 atm"),
        ("pppoe-vcmux", "overhead 32 atm"),
        ("pppoe-llcsnap", "overhead 40 atm"),
        ("bridged-vcmux", "overhead 24 atm"),
        ("bridged-llcsnap", "overhead 32 atm"),
        ("ipoa-vcmux", "overhead 8 atm"),
        ("ipoa-llcsnap", "overhead 16 atm"),
        ("pppoe-ptm", "overhead 30 ptm"),
        ("bridged-ptm", "overhead 22 ptm"),
        ("docsis", "overhead 18 mpu 64 noatm"),
        ("ethernet", "overhead 38 mpu 84"),
        // They add up, in any order; a number replaces what is before it.
        ("ethernet ether-vlan ether-vlan", "overhead 46 mpu 84"),
        ("ether-vlan bridged-ptm", "overhead 26 ptm"),
        ("ethernet overhead 5", "overhead 5 mpu 84"),
        ("overhead 5 ether-vlan", "overhead 9"),
        ("pppoe-llcsnap noatm", "overhead 40"),
        ("atm docsis", "overhead 18 mpu 64"),
        ("ethernet via-ethernet", "ethernet"),
    ] {
        assert_eq!(read(keyword).framing, read(equal).framing, "{keyword}");
    }
}

#[test]
fn raw_makes_the_whole_line_count_from_what_the_link_counts() {
    assert!(!read("").framing.from_ip);
    assert!(!read("raw").framing.from_ip);
    assert!(read("overhead 0").framing.from_ip);
    for words in ["raw ethernet", "raw overhead 38 mpu 84"] {
        let framing = read(words).framing;
        assert_eq!(
            (framing.from_ip, framing.overhead, framing.mpu),
            (false, 38, 84)
        );
    }
    // It takes back what is before it, but for the smallest length.
    let framing = read("pppoe-llcsnap ethernet raw").framing;
    assert_eq!(framing, read("raw mpu 84").framing);
    // Cells alone leave the bytes as they are.
    assert!(!read("atm mpu 64").framing.from_ip);
}

#[test]
fn a_later_line_says_its_overhead_anew_and_keeps_what_it_does_not_name() {
    let spec = QueueSpec::parse("cake bandwidth 20mbit raw pppoe-ptm mpu 64 nat").unwrap();
    let QueueSpec::Cake(changed) = spec.changed("ether-vlan").unwrap() else {
        panic!("{spec}");
    };
    assert_eq!(changed.framing, read("ether-vlan ptm mpu 64").framing);
    assert!(changed.nat && changed.bandwidth.is_some());
    let QueueSpec::Cake(changed) = spec.changed("cake unlimited lan").unwrap() else {
        panic!("{spec}");
    };
    assert_eq!(changed.framing, read("raw pppoe-ptm mpu 64").framing);
    assert_eq!(
        (changed.bandwidth, changed.rtt),
        (None, Duration::from_millis(1))
    );
    // Names of round trips are counted by line.
    assert!(spec.changed("lan").unwrap().changed("metro").is_ok());
}

#[test]
fn round_trips_have_their_names_and_the_target_is_a_twentieth() {
    for (word, us, target) in [
        ("datacentre", 100, 5),
        ("lan", 1_000, 50),
        ("metro", 10_000, 500),
        ("regional", 30_000, 1_500),
        ("internet", 100_000, 5_000),
        ("oceanic", 300_000, 15_000),
        ("satellite", 1_000_000, 50_000),
        ("interplanetary", 1_000_000_000, 50_000_000),
        ("rtt 10us", 10, 1),
        ("lan rtt 40ms", 40_000, 2_000),
    ] {
        let config = read(word);
        assert_eq!(config.rtt, Duration::from_micros(us), "{word}");
        assert_eq!(config.target(), Duration::from_micros(target), "{word}");
    }
}

#[test]
fn defaults_are_those_that_tc_marks() {
    let spelt_out = "unlimited internet diffserv3 triple-isolate nonat nowash split-gso \
                     no-ack-filter noatm raw egress";
    assert_eq!(read(spelt_out), CakeConfig::default());
    assert_eq!(read("bandwidth 20mbit unlimited"), CakeConfig::default());
    assert_eq!(read("diffserv"), read("diffserv4"));
    let words = "cake bandwidth 20Mbit diffserv4 dual-srchost nat wash ingress ack-filter \
                 no-split-gso rtt 10ms overhead 18 mpu 64 atm memlimit 1Mb";
    assert_eq!(QueueSpec::parse(words).unwrap().to_string(), words);
}

#[test]
fn what_tc_refuses_is_refused_at_its_word() {
    for (words, at) in [
        ("overhead -65", "-65"),
        ("overhead 257", "257"),
        ("overhead 1.5", "1.5"),
        ("mpu 257", "257"),
        ("mpu -1", "-1"),
        ("bandwidth fast", "fast"),
        ("bandwidth", ""),
        ("rtt soon", "soon"),
        ("memlimit", ""),
        ("lan metro", "metro"),
        ("lan lan", "lan"),
        ("diffserv5", "diffserv5"),
        ("help", "help"),
        // These have their reasons.
        ("bandwidth 20mbit autorate-ingress", "autorate-ingress"),
        ("fwmark 0xff", "fwmark"),
    ] {
        assert_eq!(refused(words).0, at, "{words}");
    }
    for words in ["autorate-ingress", "fwmark 0xff"] {
        assert!(refused(words).1.help.is_some(), "{words}");
    }
    assert!(refused("lan lan").1.span.start > 6);
    for words in ["overhead -64", "overhead 256", "mpu 0", "mpu 256"] {
        read(words);
    }
}
