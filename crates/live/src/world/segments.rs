//! How long the bursts are that a host's TCP hands to its devices.

use narrows_scenario::{HostIndex, Plan};
use narrows_tcp::Segmentation;

/// `GSO_LEGACY_MAX_SIZE`, what a device takes by default, in bytes (Linux
/// include/linux/netdevice.h).
pub(crate) const LINUX_GSO_MAX_BYTES: u32 = 65_536;

/// Bytes of an IPv4 header (RFC 791) and a TCP header (RFC 9293) with
/// timestamps (RFC 7323 appendix A).
const IPV4_AND_TCP_WITH_TIMESTAMPS: u32 = 20 + 20 + 12;

/// The most segments of one burst (`gso_max_segs`) for a device of `host` with
/// an MTU of `mtu` bytes, if all of the TCP flows that it sends agree on bursts
/// of fewer bytes than Linux's.
pub(crate) fn most_segments(plan: &Plan, host: HostIndex, mtu: u32) -> Option<u32> {
    let sent = plan.flows.iter().filter(|f| f.from == host);
    let sent = sent.filter_map(|f| f.transport.tcp());
    let mut bytes = sent.map(|tcp| match tcp.host.segmentation {
        Segmentation::Tso { gso_max_bytes, .. } => Some(gso_max_bytes),
        Segmentation::OneSegment => None,
    });
    let first = bytes.next()??;
    let shorter = first < LINUX_GSO_MAX_BYTES && bytes.all(|b| b == Some(first));
    let segment = mtu.saturating_sub(IPV4_AND_TCP_WITH_TIMESTAMPS).max(1);
    shorter.then_some((first / segment).max(1))
}

#[cfg(test)]
mod tests {
    use narrows_scenario::Draft;

    use super::*;

    fn plan(flows: &str) -> Plan {
        let text = format!(
            "version = 1\nname = \"t\"\nduration = \"1s\"\n[[link]]\nname = \"l\"\nends = [\"a\", \"b\"]\n{flows}"
        );
        let draft = Draft::read("t.toml", text.as_bytes()).expect("a scenario");
        draft.check().expect("a plan")
    }

    fn flow(name: &str, segmentation: &str) -> String {
        format!(
            "[[flow]]\nname = \"{name}\"\nfrom = \"a\"\nto = \"b\"\ncc = \"reno\"\n\
             host_model = {{ segmentation = \"{segmentation}\" }}\n"
        )
    }

    #[test]
    fn bursts_are_limited_where_all_flows_of_a_host_agree_on_fewer_bytes() {
        let short = "tso gso_max_bytes 15000";
        for (flows, expected) in [
            (flow("f", short), Some(10)),
            (flow("f", "tso gso_max_bytes 100"), Some(1)),
            (flow("f", short) + &flow("g", short), Some(10)),
            (flow("f", short) + &flow("g", "tso"), None),
            (flow("f", "tso"), None),
            (flow("f", "one"), None),
        ] {
            let plan = plan(&flows);
            assert_eq!(
                most_segments(&plan, HostIndex(0), 1500),
                expected,
                "{flows}"
            );
            assert_eq!(
                most_segments(&plan, HostIndex(1), 1500),
                None,
                "it sends nothing"
            );
        }
    }
}
