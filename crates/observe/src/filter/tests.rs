use super::*;
use crate::classify::classify;
use narrows_wire::{IpFields, UdpFields};

/// A datagram from 10.0.0.1:1000 to 10.0.0.2:2000.
fn packet() -> Vec<u8> {
    let (source, destination) = ([10, 0, 0, 1].into(), [10, 0, 0, 2].into());
    let mut bytes = Vec::new();
    let ip = IpFields {
        source,
        destination,
        traffic_class: 0,
        ttl: 64,
        protocol: ip::UDP,
        ident: 0,
    };
    ip.write(&mut bytes, 8);
    let udp = UdpFields {
        source_port: 1000,
        destination_port: 2000,
    };
    udp.write(&mut bytes, source, destination, &[], 0);
    bytes
}

#[test]
fn tests_hold_or_not_as_they_read() {
    let bytes = packet();
    let packet = classify(&bytes).unwrap();
    for (text, holds) in [
        ("", true),
        ("udp", true),
        ("tcp", false),
        ("ip6", false),
        ("not tcp and ip", true),
        ("host 10.0.0.2", true),
        ("src host 10.0.0.2", false),
        ("dst host 10.0.0.2", true),
        ("net 10.0.0.0/8 and port 1000", true),
        ("net 10.0.0.2/31", true),
        ("net 10.0.0.4/30", false),
        ("net 0.0.0.0/0", true),
        ("host ::1", false),
        ("dst port 1000", false),
        ("port 1500-2500", true),
        ("tcp or udp and port 7", false),
        ("(tcp or udp) and port 2000", true),
        ("!(tcp||port 7)&&udp", true),
        ("udp port 2000", true),
        ("tcp port 2000", false),
        ("udp src port 2000", false),
        ("ip host 10.0.0.1 and udp dst port 2000", true),
        ("ip6 net ::/0", false),
        ("icmp or icmp6", false),
        ("vlan", true),
        ("vlan 7 and udp", true),
        ("not vlan 8", true),
        ("vlan 8 or tcp", false),
    ] {
        let filter: Filter = text.parse().unwrap_or_else(|e| panic!("{text}: {e:?}"));
        assert_eq!(filter.takes(&packet, Some(7)), holds, "{text}");
        assert_eq!(filter.needs_vlan(), text.contains("vlan"), "{text}");
        assert!(!filter.takes(&packet, None) || !text.starts_with("vlan"));
        let again: Filter = filter.to_string().parse().unwrap();
        assert_eq!(again, filter, "{text}");
    }
}

#[test]
fn packets_of_no_flow_are_asked_for_addresses_and_protocol_and_have_no_ports() {
    let mut ping = packet();
    ping[9] = ip::ICMP;
    for (text, holds) in [
        ("", true),
        ("icmp", true),
        ("icmp6", false),
        ("udp", false),
        ("ip host 10.0.0.2", true),
        ("icmp src host 10.0.0.2", false),
        ("port 0-65535", false),
        ("not port 2000", true),
        ("vlan 3", true),
    ] {
        let filter: Filter = text.parse().unwrap_or_else(|e| panic!("{text}: {e:?}"));
        assert_eq!(filter.takes_other(&ping, Some(3)), holds, "{text}");
    }
    let all = Filter::default();
    let tcp: Filter = "ip".parse().unwrap();
    assert!(all.takes_other(&[], None) && !tcp.takes_other(&[], None));
}

#[test]
fn a_file_is_told_from_a_filter_by_its_first_word() {
    for word in ["tcp", "not udp", "!tcp", "(tcp or udp)", "port 80", "vlan"] {
        assert!(Filter::begins(word), "{word}");
    }
    for word in ["", "tcp.pcap", "./tcp", "a.pcapng", "-", "80"] {
        assert!(!Filter::begins(word), "{word}");
    }
}

#[test]
fn what_is_no_filter_is_refused() {
    for text in [
        "tcp and",
        "port",
        "port 70000",
        "port 5-4",
        "host x",
        "net 10.0.0.0",
        "net 1.2.3.4/33",
        "(tcp",
        "tcp)",
        "tcp udp",
        "src tcp",
        "tcp src",
        "vlan 4095",
        "tcp vlan",
        "&",
        "or tcp",
    ] {
        assert!(text.parse::<Filter>().is_err(), "{text}");
    }
    assert!("(".repeat(100_000).parse::<Filter>().is_err());
}
