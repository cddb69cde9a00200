//! Who may use a proxy, and where it may lead them.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};
use std::ops::RangeInclusive;
use std::str::FromStr;

/// Addresses whose first bits are alike.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Network {
    address: IpAddr,
    /// How many bits.
    prefix: u8,
}

/// What a network is written like, for error messages.
pub const NETWORK: &str = "an address, or a network such as 192.0.2.0/24 or 2001:db8::/32 with no bit set behind its prefix";

impl Network {
    /// All of IPv4 and of IPv6.
    pub const ALL: [Self; 2] = [
        Self::new(IpAddr::V4(Ipv4Addr::UNSPECIFIED), 0),
        Self::new(IpAddr::V6(Ipv6Addr::UNSPECIFIED), 0),
    ];

    const fn new(address: IpAddr, prefix: u8) -> Self {
        Self { address, prefix }
    }

    /// Whether `address` is in it. One that maps IPv4 into IPv6 is the IPv4 one.
    pub fn contains(&self, address: IpAddr) -> bool {
        match (self.address, address.to_canonical()) {
            (IpAddr::V4(own), IpAddr::V4(other)) => {
                let differ = u32::from(own) ^ u32::from(other);
                differ.leading_zeros() >= u32::from(self.prefix)
            }
            (IpAddr::V6(own), IpAddr::V6(other)) => {
                let differ = u128::from(own) ^ u128::from(other);
                differ.leading_zeros() >= u32::from(self.prefix)
            }
            _ => false,
        }
    }

    /// Whether all of it is in `other`.
    fn is_within(&self, other: &Self) -> bool {
        self.prefix >= other.prefix && other.contains(self.address)
    }

    /// Whether it is `address` and nothing else.
    fn is_host(&self, address: IpAddr) -> bool {
        self.prefix == bits(self.address) && self.address == address
    }
}

fn bits(address: IpAddr) -> u8 {
    if address.is_ipv4() { 32 } else { 128 }
}

impl FromStr for Network {
    type Err = ();

    fn from_str(word: &str) -> Result<Self, ()> {
        let (address, prefix) = match word.split_once('/') {
            Some((address, prefix)) => (address, Some(prefix.parse::<u8>().map_err(drop)?)),
            None => (word, None),
        };
        let written: IpAddr = address.parse().map_err(drop)?;
        let prefix = prefix.unwrap_or(bits(written));
        if prefix > bits(written) {
            return Err(());
        }
        // A network of mapped addresses is one of IPv4, if it has the whole of what maps.
        let address = written.to_canonical();
        let mapping = bits(written) - bits(address);
        let prefix = prefix.checked_sub(mapping).ok_or(())?;
        let behind = match address {
            IpAddr::V4(a) => u32::from(a).trailing_zeros().min(32),
            IpAddr::V6(a) => u128::from(a).trailing_zeros().min(128),
        };
        let free = u32::from(bits(address) - prefix);
        (behind >= free)
            .then_some(Self { address, prefix })
            .ok_or(())
    }
}

impl std::fmt::Display for Network {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        if self.prefix == bits(self.address) {
            self.address.fmt(f)
        } else {
            write!(f, "{}/{}", self.address, self.prefix)
        }
    }
}

const fn v4(a: u8, b: u8, c: u8, d: u8, prefix: u8) -> Network {
    Network::new(IpAddr::V4(Ipv4Addr::new(a, b, c, d)), prefix)
}

const fn v6(first: [u16; 4], last: [u16; 4], prefix: u8) -> Network {
    let ([a, b, c, d], [e, f, g, h]) = (first, last);
    Network::new(IpAddr::V6(Ipv6Addr::new(a, b, c, d, e, f, g, h)), prefix)
}

/// Networks that a larger one does not bring with it: whoever wants them names them, or a
/// part of them. That of a cloud's metadata answers whoever asks with the machine's
/// credentials; addresses that hold an IPv4 address go past what is said of that.
const APART: [Network; 18] = [
    // IANA, IPv4 and IPv6 Special-Purpose Address Registries (RFC 6890).
    v4(0, 0, 0, 0, 8),
    v4(127, 0, 0, 0, 8),
    v4(169, 254, 0, 0, 16),
    v4(240, 0, 0, 0, 4),
    v6([0, 0, 0, 0], [0, 0, 0, 0], 96), // "::", "::1", and IPv4-compatible (RFC 4291)
    v6([0xfe80, 0, 0, 0], [0; 4], 10),
    v6([0xfec0, 0, 0, 0], [0; 4], 10),    // site-local (RFC 3879)
    v6([0x64, 0xff9b, 0, 0], [0; 4], 96), // NAT64 (RFC 6052)
    v6([0x64, 0xff9b, 1, 0], [0; 4], 48), // the same, local (RFC 8215)
    v6([0, 0, 0, 0], [0xffff, 0, 0, 0], 96), // IPv4-translated (RFC 7915)
    v6([0x2001, 0, 0, 0], [0; 4], 32),    // Teredo (RFC 4380)
    v6([0x2002, 0, 0, 0], [0; 4], 16),    // 6to4 (RFC 3056)
    // Metadata outside of 169.254.0.0/16, as their providers document: Alibaba Cloud,
    // Azure (its wire server), Oracle Cloud, AWS, Google Cloud and Scaleway by IPv6.
    v4(100, 100, 100, 200, 32),
    v4(168, 63, 129, 16, 32),
    v4(192, 0, 0, 192, 32),
    v6([0xfd00, 0xec2, 0, 0], [0, 0, 0, 0x254], 128),
    v6([0xfd20, 0xce, 0, 0], [0, 0, 0, 0x254], 128),
    v6([0xfd00, 0x42, 0, 0], [0, 0, 0, 0x42], 128),
];

/// Where clients may be led.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Destinations {
    /// To these addresses,
    pub network: Network,
    /// and these ports of theirs.
    pub ports: RangeInclusive<u16>,
}

impl From<Network> for Destinations {
    fn from(network: Network) -> Self {
        let ports = 1..=u16::MAX;
        Self { network, ports }
    }
}

/// Who may use a listener, and for what. What is not listed is refused.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Policy {
    /// Who may use it.
    pub clients: Vec<Network>,
    /// Where to. Addresses of the machine itself, of loopback, of a link, of a cloud's
    /// metadata, and those that hold an IPv4 address must be listed as such or as a part
    /// of such: a larger network does not bring them with it.
    pub destinations: Vec<Destinations>,
    /// Whether that is not asked: clients that are on this machine could as well go there
    /// themselves.
    pub anywhere: bool,
}

impl Default for Policy {
    /// Everybody, to everywhere where nothing has to be named, as in a laboratory.
    fn default() -> Self {
        Self {
            clients: Network::ALL.to_vec(),
            destinations: Network::ALL.map(Destinations::from).to_vec(),
            anywhere: false,
        }
    }
}

impl Policy {
    /// Whether `client` may use it.
    pub fn admits(&self, client: IpAddr) -> bool {
        self.clients.iter().any(|network| network.contains(client))
    }

    /// Whether it leads to `destination`, which is an address of the machine's `own` or
    /// not.
    pub fn leads_to(&self, destination: SocketAddr, own: bool) -> bool {
        let (address, port) = (destination.ip().to_canonical(), destination.port());
        // No connection can be made to these (RFC 8803 §4.2.5).
        let broadcast = matches!(address, IpAddr::V4(address) if address.is_broadcast());
        if port == 0 || address.is_unspecified() || address.is_multicast() || broadcast {
            return false;
        }
        if self.anywhere {
            return true;
        }
        let listed = self.destinations.iter().filter(|d| d.ports.contains(&port));
        let mut listed = listed.map(|d| &d.network).filter(|n| n.contains(address));
        let apart = APART.iter().filter(|network| network.contains(address));
        let unnamed = own && !address.is_loopback();
        listed.any(|network| {
            let mut apart = apart.clone();
            network.is_host(address) || (!unnamed && apart.all(|a| network.is_within(a)))
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn network(word: &str) -> Network {
        word.parse().unwrap_or_else(|()| panic!("{word}"))
    }

    fn policy(destinations: &[&str]) -> Policy {
        let to = |word: &&str| Destinations::from(network(word));
        Policy {
            clients: Vec::new(),
            destinations: destinations.iter().map(to).collect(),
            anywhere: false,
        }
    }

    fn leads(policy: &Policy, to: &str) -> bool {
        policy.leads_to(to.parse().unwrap_or_else(|_| panic!("{to}")), false)
    }

    #[test]
    fn networks_are_read_exactly() {
        for (word, said) in [
            ("10.0.0.0/8", "10.0.0.0/8"),
            ("10.1.2.3", "10.1.2.3"),
            ("0.0.0.0/0", "0.0.0.0/0"),
            ("2001:db8::/32", "2001:db8::/32"),
            ("::ffff:10.0.0.0/104", "10.0.0.0/8"),
            ("::ffff:10.0.0.1", "10.0.0.1"),
        ] {
            assert_eq!(network(word).to_string(), said);
        }
        for wrong in [
            "10.0.0.1/8",
            "10.0.0.0/33",
            "10.0.0/8",
            "",
            "::/129",
            "::ffff:0:0/90",
            "host",
        ] {
            assert_eq!(wrong.parse::<Network>(), Err(()), "{wrong}");
        }
    }

    #[test]
    fn what_is_not_listed_is_refused() {
        let policy = Policy {
            clients: vec![network("10.0.0.0/8")],
            destinations: vec![Destinations {
                network: network("192.0.2.0/24"),
                ports: 80..=443,
            }],
            anywhere: false,
        };
        assert!(policy.admits([10, 200, 0, 1].into()));
        assert!(policy.admits("::ffff:10.0.0.1".parse().unwrap()));
        assert!(!policy.admits([11, 0, 0, 1].into()));
        assert!(!policy.admits("2001:db8::1".parse().unwrap()));
        assert!(leads(&policy, "192.0.2.9:443"));
        assert!(leads(&policy, "[::ffff:192.0.2.9]:80"));
        for other in [
            "192.0.2.9:79",
            "192.0.2.9:444",
            "192.0.3.9:443",
            "[2001:db8::1]:443",
        ] {
            assert!(!leads(&policy, other), "{other}");
        }
    }

    #[test]
    fn a_large_network_does_not_bring_dangerous_ones_with_it() {
        let everywhere = Policy::default();
        assert!(leads(&everywhere, "203.0.113.5:443"));
        assert!(leads(&everywhere, "10.0.0.5:443"));
        assert!(leads(&everywhere, "[2001:db8::5]:443"));
        for dangerous in [
            "127.0.0.1:22",
            "127.9.9.9:22",
            "0.0.0.0:22",
            "0.1.2.3:22",
            "[::1]:22",
            "[::]:22",
            "[::ffff:127.0.0.1]:22",
            "[::127.0.0.1]:22",
            "169.254.169.254:80",
            "[::ffff:169.254.169.254]:80",
            "[::ffff:a9fe:a9fe]:80",
            "[64:ff9b::169.254.169.254]:80",
            "[64:ff9b:1::a9fe:a9fe]:80",
            "[2002:a9fe:a9fe::1]:80",
            "[::ffff:0:169.254.169.254]:80",
            "[fd00:ec2::254]:80",
            "[fd20:ce::254]:80",
            "[fd00:42::42]:80",
            "100.100.100.200:80",
            "168.63.129.16:80",
            "[fe80::1]:80",
            "[fec0::1]:80",
            "224.0.0.1:80",
            "[ff02::1]:80",
            "255.255.255.255:80",
            "203.0.113.5:0",
        ] {
            assert!(!leads(&everywhere, dangerous), "{dangerous}");
        }
    }

    #[test]
    fn what_is_named_is_reached_and_its_neighbours_are_not() {
        let named = policy(&["127.0.0.1", "fe80::/64", "169.254.7.0/24", "0.0.0.0/0"]);
        for (to, allowed) in [
            ("127.0.0.1:22", true),
            ("[::ffff:127.0.0.1]:22", true),
            ("127.0.0.2:22", false),
            ("[fe80::1]:22", true),
            ("[fe80:1::1]:22", false),
            ("169.254.7.7:80", true),
            ("169.254.169.254:80", false),
            ("224.0.0.1:80", false),
        ] {
            assert_eq!(leads(&named, to), allowed, "{to}");
        }
    }

    #[test]
    fn the_machine_s_own_addresses_are_named_one_by_one() {
        let to = "192.0.2.9:443".parse().unwrap();
        assert!(!policy(&["0.0.0.0/0", "192.0.2.0/24"]).leads_to(to, true));
        assert!(policy(&["192.0.2.9"]).leads_to(to, true));
        assert!(policy(&["192.0.2.0/24"]).leads_to(to, false));
        // The first address of a network, written as the network is, is not named by it.
        let first = "192.0.2.0:443".parse().unwrap();
        assert!(!policy(&["192.0.2.0/24"]).leads_to(first, true));
        // Loopback, of which all are its own, is named as a network.
        let lo = "127.0.0.9:443".parse().unwrap();
        assert!(policy(&["127.0.0.0/8"]).leads_to(lo, true));
        assert!(!policy(&["0.0.0.0/0"]).leads_to(lo, true));
    }

    #[test]
    fn where_everything_is_allowed_what_cannot_be_connected_to_is_still_refused() {
        let anywhere = Policy {
            anywhere: true,
            ..policy(&[])
        };
        assert!(leads(&anywhere, "127.0.0.1:22") && leads(&anywhere, "192.0.2.1:1"));
        for none in ["192.0.2.1:0", "0.0.0.0:22", "[::]:22"] {
            assert!(!leads(&anywhere, none), "{none}");
        }
        for none in ["224.0.0.1:80", "[ff02::1]:80", "255.255.255.255:80"] {
            assert!(!leads(&anywhere, none), "{none}");
        }
    }
}
