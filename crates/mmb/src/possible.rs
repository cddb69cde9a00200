//! Whether any packet can match a rule.

use crate::field::{Field, Layer, most};
use crate::rule::{Condition, Constraint, Named, Rule, Test};
use crate::value::Value;

/// EtherTypes of frames that are IP.
const IP: [u128; 2] = [0x0800, 0x86dd];

/// What the constraints of a rule leave of a field's numbers.
struct Left {
    named: Named,
    least: u128,
    most: u128,
    /// Numbers that it must not have.
    without: Vec<u128>,
}

impl Left {
    fn of(named: Named) -> Self {
        Self {
            named,
            least: 0,
            most: most(named.field.width().max(1)),
            without: Vec::new(),
        }
    }

    /// Takes what a comparison leaves; whether that is anything.
    fn take(&mut self, condition: Condition, number: u128) -> bool {
        match condition {
            Condition::Equal => {
                self.least = self.least.max(number);
                self.most = self.most.min(number);
            }
            Condition::NotEqual => self.without.push(number),
            Condition::Less if number == 0 => return false,
            Condition::Less => self.most = self.most.min(number - 1),
            Condition::AtMost => self.most = self.most.min(number),
            Condition::Greater if number >= self.most => return false,
            Condition::Greater => self.least = self.least.max(number + 1),
            Condition::AtLeast => self.least = self.least.max(number),
        }
        let one = self.least == self.most;
        self.least <= self.most && !(one && self.without.contains(&self.least))
    }
}

/// The protocol that packets with that layer have.
fn protocol(layer: Layer) -> Option<u128> {
    match layer {
        Layer::Icmp => Some(1),
        Layer::Tcp => Some(6),
        Layer::Udp | Layer::UdpData => Some(17),
        Layer::Icmp6 => Some(58),
        Layer::Meta | Layer::Frame | Layer::Ip | Layer::Ip4 | Layer::Ip6 => None,
    }
}

impl Rule {
    /// The constraint that no packet meets which meets those before it, if there is one: `tcp-dport 443`
    /// behind `tcp-dport 80`, or `ip-ttl > 255`.
    pub fn never_matches(&self) -> Option<Constraint> {
        let all: Vec<Constraint> = self.constraints().filter(|c| !c.negated).collect();
        let mut left: Vec<Left> = Vec::new();
        for constraint in &all {
            let named = constraint.named;
            let (condition, number) = match &constraint.test {
                Test::Is(condition, Value::Number(number)) => (*condition, *number),
                Test::Alone if named.field.values().starts_with("0 or 1") => (Condition::Equal, 1),
                Test::Alone | Test::Is(..) => continue,
            };
            let known = left.iter().position(|left| left.named == named);
            let at = known.unwrap_or_else(|| {
                left.push(Left::of(named));
                left.len() - 1
            });
            let of_ip = named.field.layer() == Layer::Frame && IP.contains(&number);
            if !left[at].take(condition, number) || of_ip && condition == Condition::Equal {
                return Some(constraint.clone());
            }
        }
        // A header above IP has its protocol.
        let says = |field: Field| ["ip-proto", "ip6-proto"].contains(&field.name());
        let mut protocols = left.iter_mut().filter(|left| says(left.named.field));
        protocols.find_map(|left| {
            let beside = |c: &&Constraint| {
                protocol(c.named.field.layer())
                    .is_some_and(|number| !left.take(Condition::Equal, number))
            };
            all.iter().find(beside).cloned()
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_no_packet_meets_is_found_and_what_one_can_meet_is_not() {
        for (line, wrong) in [
            ("tcp-dport 80 tcp-dport 443", "tcp-dport 443"),
            ("ip-ttl > 255", "ip-ttl > 255"),
            ("ip-ttl > 5 ip-ttl < 6", "ip-ttl < 6"),
            ("ip-ttl 5 ip-ttl != 5", "ip-ttl != 5"),
            ("tcp-win < 0", "tcp-win < 0"),
            (
                "ip6-saddr > ffff:ffff:ffff:ffff:ffff:ffff:ffff:ffff",
                "ip6-saddr > ffff:ffff:ffff:ffff:ffff:ffff:ffff:ffff",
            ),
            ("ip-ttl <= 9 ip-ttl > 9", "ip-ttl > 9"),
            ("tcp-syn tcp-syn 0", "tcp-syn 0"),
            ("ip-proto udp tcp-syn", "tcp-syn"),
            ("tcp-opt-mss > 1500 tcp-opt-mss 1400", "tcp-opt-mss 1400"),
            ("ip-proto != tcp tcp-syn", "tcp-syn"),
            ("eth-type x0800", "eth-type x0800"),
            ("eth-type arp eth-type mpls", "eth-type mpls"),
        ] {
            let rule = Rule::parse(&format!("add {line} drop")).expect(line);
            let found = rule.never_matches().map(|c| c.to_string());
            assert_eq!(found.as_deref(), Some(wrong), "{line}");
        }
        for line in [
            "all",
            "tcp-dport 80 ! tcp-dport 443",
            "ip-ttl > 254",
            "ip-ttl < 1",
            "tcp-opt-mss tcp-opt-mss 1400",
            "ip-ttl >= 5 ip-ttl <= 5",
            "tcp-opt 22 tcp-opt 23",
            "ip-proto tcp tcp-syn",
            "ip-saddr 10.0.0.0/8 ip-saddr 10.1.0.0/16",
            "in inside tcp-syn ! tcp-ack",
            "in inside eth-type > arp eth-type != qinq",
        ] {
            let rule = Rule::parse(&format!("add {line} drop")).expect(line);
            assert_eq!(rule.never_matches(), None, "{line}");
        }
    }
}
