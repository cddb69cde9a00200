//! Names of hosts in the hosts: `/etc/hosts` of a topology.

use std::fmt::Write;

use super::record::HostRecord;

/// Where programs look names up before they ask anybody (hosts(5)).
pub(super) const HOSTS: &str = "/etc/hosts";

/// What the hosts of a topology see there: their own names first, then what `machines`, the
/// file of this machine, says of others.
pub(super) fn file(hosts: &[HostRecord], machines: &str) -> String {
    let mut text = String::new();
    let names = |host: &HostRecord| match is_word(&host.name) {
        true => format!("{} {}", host.name, host.full_name),
        false => host.full_name.clone(),
    };
    for host in hosts {
        let names = names(host);
        // Writing to a string does not fail.
        let _ = writeln!(text, "{} {names}", host.ipv4);
        if let Some(ipv6) = host.ipv6 {
            let _ = writeln!(text, "{ipv6} {names}");
        }
    }
    let is_ours = |word: &str| {
        let same = |host: &HostRecord| host.name == word || host.full_name == word;
        hosts.iter().any(same)
    };
    let mut has_localhost = false;
    for line in machines.lines() {
        let words = line.split('#').next().unwrap_or_default();
        let names = || words.split_whitespace().skip(1);
        if names().any(is_ours) {
            continue;
        }
        has_localhost |= names().any(|name| name == "localhost");
        text.push_str(line);
        text.push('\n');
    }
    if !has_localhost && !is_ours("localhost") {
        text.push_str("127.0.0.1 localhost\n::1 localhost\n");
    }
    text
}

/// Whether the file can have `name` in it.
fn is_word(name: &str) -> bool {
    !name.is_empty() && !name.contains(|c: char| c.is_whitespace() || c == '#' || c.is_control())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn host(name: &str, last: u8, ipv6: bool) -> HostRecord {
        HostRecord {
            name: name.to_owned(),
            full_name: format!("lab-{}", super::super::name::plain(name)),
            router: false,
            ipv4: [10, 0, 0, last].into(),
            ipv6: ipv6.then_some([0xfd00, 0, 0, 0, 0, 0, 0, u16::from(last)].into()),
            network: 3,
            inode: 1,
            mounts: None,
            named: false,
        }
    }

    #[test]
    fn hosts_are_found_by_both_names_and_the_machine_names_no_host_of_the_topology() {
        let machines =
            "127.0.0.1 localhost\n192.0.2.7 server web # ours is another\n192.0.2.8 db\n";
        let text = file(
            &[host("client", 1, true), host("server", 2, false)],
            machines,
        );
        let expected = "10.0.0.1 client lab-client\nfd00::1 client lab-client\n\
                        10.0.0.2 server lab-server\n127.0.0.1 localhost\n192.0.2.8 db\n";
        assert_eq!(text, expected);
    }

    #[test]
    fn a_name_that_the_file_cannot_have_is_left_out() {
        let text = file(&[host("a b\n6.6.6.6 c", 1, false)], "");
        let expected = "10.0.0.1 lab-a-b-6.6.6.6-c\n127.0.0.1 localhost\n::1 localhost\n";
        assert_eq!(text, expected);
    }
}
