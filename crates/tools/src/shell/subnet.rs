//! The few addresses that a shell's path takes on a machine.

use std::fmt;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};
use std::str::FromStr;

use narrows_units::Rng;

use super::ShellError;

/// Where subnets are taken from by default: the addresses set aside
/// for benchmarks of networks, 198.18.0.0/15 (RFC 2544, appendix C.2.2; IANA's
/// registry of special-purpose addresses). No host of the outside has them;
/// the shared addresses of RFC 6598 are left to carriers and VPNs.
const RANGE: Subnet = Subnet {
    base: Ipv4Addr::new(198, 18, 0, 0),
    bits: 15,
};

/// How often chance is tried before all subnets count as taken.
const TRIES: u32 = 1_000;

/// An IPv4 network.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Subnet {
    base: Ipv4Addr,
    bits: u8,
}

impl Subnet {
    /// Bits of a path's network where nothing else is on it: two hosts.
    pub const POINT_TO_POINT: u8 = 30;

    fn mask(bits: u8) -> u32 {
        u32::MAX.checked_shl(32 - u32::from(bits)).unwrap_or(0)
    }

    /// Its host number `n`; of those of a small network no more than it has.
    pub fn host(&self, n: u32) -> Ipv4Addr {
        Ipv4Addr::from(u32::from(self.base) | (n & !Self::mask(self.bits)))
    }

    /// Bits of network.
    pub fn bits(&self) -> u8 {
        self.bits
    }

    fn meets(&self, to: IpAddr, bits: u8) -> bool {
        let IpAddr::V4(to) = to else {
            return false;
        };
        let mask = Self::mask(bits.min(self.bits));
        u32::from(to) & mask == u32::from(self.base) & mask
    }

    /// Takes one of `bits` bits that meets none of `taken`: from `wanted`, or
    /// else from the range for benchmarks. Which one is chance, so that two
    /// shells that start at once do not take the same.
    ///
    /// # Errors
    /// When all that were tried are taken, or `wanted` is too small.
    pub(super) fn choose(
        wanted: Option<Subnet>,
        bits: u8,
        taken: &[(IpAddr, u8)],
        chance: &mut Rng,
    ) -> Result<Self, ShellError> {
        let range = wanted.unwrap_or(RANGE);
        if range.bits > bits {
            return Err(ShellError::SmallSubnet {
                subnet: range,
                bits,
            });
        }
        let inner = !Self::mask(range.bits) & Self::mask(bits);
        let tries = (0..TRIES).map(|_| Subnet {
            base: Ipv4Addr::from(u32::from(range.base) | (chance.draw_u64() as u32 & inner)),
            bits,
        });
        tries
            .into_iter()
            .find(|s| !taken.iter().any(|(to, bits)| s.meets(*to, *bits)))
            .ok_or(ShellError::SubnetTaken { subnet: range })
    }
}

impl fmt::Display for Subnet {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}/{}", self.base, self.bits)
    }
}

/// Words that are no network.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("`{0}` is no IPv4 network of 2 to 30 bits such as 198.18.4.0/24")]
pub struct NoSubnet(String);

impl FromStr for Subnet {
    type Err = NoSubnet;

    fn from_str(text: &str) -> Result<Self, NoSubnet> {
        let read = || {
            let (base, bits) = text.split_once('/')?;
            let base: Ipv4Addr = base.parse().ok()?;
            let bits: u8 = bits.parse().ok().filter(|b| (2..=30).contains(b))?;
            let fits = u32::from(base) & !Self::mask(bits) == 0;
            fits.then_some(Self { base, bits })
        };
        read().ok_or_else(|| NoSubnet(text.to_owned()))
    }
}

/// A network of 64 bits from those for private use (RFC 4193, section 3.2:
/// `fd` and 40 bits of chance, here 56), that meets none of `taken`.
pub(super) fn private_ipv6(taken: &[(IpAddr, u8)], chance: &mut Rng) -> Option<Ipv6Addr> {
    let meets = |base: u128| {
        taken.iter().any(|(to, bits)| match to {
            IpAddr::V6(to) => {
                let shift = 128 - u32::from((*bits).min(64));
                (u128::from(*to) ^ base).checked_shr(shift).unwrap_or(0) == 0
            }
            IpAddr::V4(_) => false,
        })
    };
    (0..TRIES)
        .map(|_| 0xfd << 120 | u128::from(chance.draw_u64() & 0x00ff_ffff_ffff_ffff) << 64)
        .find(|base| !meets(*base))
        .map(Ipv6Addr::from)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn networks_are_read_and_wrong_ones_are_not() {
        let subnet: Subnet = "198.18.4.0/30".parse().expect("a network");
        assert_eq!(subnet.host(1), Ipv4Addr::new(198, 18, 4, 1));
        assert_eq!(subnet.host(2), Ipv4Addr::new(198, 18, 4, 2));
        assert_eq!(subnet.to_string(), "198.18.4.0/30");
        for wrong in [
            "",
            "10.0.0.0",
            "10.0.0.1/24",
            "10.0.0.0/31",
            "10.0.0.0/1",
            "::/64",
        ] {
            assert!(wrong.parse::<Subnet>().is_err(), "{wrong}");
        }
    }

    #[test]
    fn what_is_taken_is_not_chosen() {
        let mut chance = Rng::for_name(1, "test");
        let wanted: Subnet = "10.1.0.0/28".parse().expect("a network");
        let taken = |all: &[(&str, u8)]| -> Vec<(IpAddr, u8)> {
            let parse = |a: &str| a.parse().expect("an address");
            all.iter().map(|(a, b)| (parse(a), *b)).collect()
        };
        // Three of its four are taken: by a host, by a network, by a part.
        let three = taken(&[
            ("10.1.0.1", 32),
            ("10.1.0.4", 30),
            ("10.1.0.8", 31),
            ("::", 8),
        ]);
        let free = Subnet::choose(Some(wanted), 30, &three, &mut chance).expect("one is free");
        assert_eq!(free.to_string(), "10.1.0.12/30");
        let all = taken(&[("10.0.0.0", 8)]);
        assert!(Subnet::choose(Some(wanted), 30, &all, &mut chance).is_err());
        assert!(Subnet::choose(Some(wanted), 24, &[], &mut chance).is_err());
        let any = Subnet::choose(None, 30, &[], &mut chance).expect("one is free");
        assert!(RANGE.meets(any.base.into(), 30));
        let six = private_ipv6(&taken(&[("fe00::", 7)]), &mut chance).expect("one is free");
        assert_eq!(
            (six.octets()[0], six.segments()[4..].to_vec()),
            (0xfd, vec![0; 4])
        );
        assert_eq!(private_ipv6(&taken(&[("fc00::", 7)]), &mut chance), None);
    }
}
