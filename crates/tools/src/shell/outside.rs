//! The far end of a shell's path, and the way on from there.

use std::io;
use std::net::{IpAddr, Ipv6Addr};

use narrows_linux::LinuxError;
use narrows_linux::machine::{State, Undo};
use narrows_linux::{LOOPBACK, Namespace, Route, RunId, Tun, sysctl};
use narrows_units::Rng;

use super::names::{Names, RESOLVERS};
use super::nft::{Rules, Table};
use super::user_nat::{self, UserNat};
use super::{ShellError, Subnet, subnet};

/// The largest IP packet of a path, in bytes: Ethernet's.
pub(super) const MTU: u32 = 1500;

/// How packets leave the far end.
#[derive(Debug)]
pub(super) enum Uplink {
    /// The kernel translates their addresses to this machine's.
    // Kept: dropping it removes the table.
    Kernel { _table: Table },
    /// A program makes connections of its own for them.
    UserSpace { _program: UserNat },
    /// Not at all.
    Closed,
}

/// The far end of a path: a device, addresses for both ends, and the uplink.
#[derive(Debug)]
pub(super) struct Outside {
    pub tun: Tun,
    /// What the inside is to be called, with its bits of network.
    pub inside: Vec<(IpAddr, u8)>,
    /// What the inside reaches this machine by.
    pub gateway: IpAddr,
    /// Where routes lead from the inside, beside its own networks.
    pub reach: Vec<(IpAddr, u8)>,
    pub uplink: Uplink,
    /// What names are resolved by, if not by this machine's servers.
    pub names: Option<Names>,
    /// What is not as one might expect, a sentence each.
    pub notes: Vec<String>,
}

/// Everywhere.
const ALL_IPV4: (IpAddr, u8) = (IpAddr::V4(std::net::Ipv4Addr::UNSPECIFIED), 0);
const ALL_IPV6: (IpAddr, u8) = (IpAddr::V6(Ipv6Addr::UNSPECIFIED), 0);

impl Outside {
    /// Opens the way out of the namespace that the process is in: by the
    /// kernel where this process may change it, else by a program of the
    /// user's.
    pub(super) fn open(
        run: &RunId,
        state: &State,
        wanted: Option<Subnet>,
    ) -> Result<Self, ShellError> {
        let here = Namespace::current(run, "this machine")?;
        let mut chance = Rng::for_name(0, &run.to_string());
        let (mut outside, far) = match Tun::new(&here, &run.device("out"), MTU) {
            Ok(tun) => {
                let outside = by_kernel(run, state, &here, tun, wanted, &mut chance)?;
                let gateway = outside.gateway;
                (outside, (here, gateway))
            }
            Err(LinuxError::NoPermission { .. }) => by_user_space(run, &here, wanted, &mut chance)?,
            Err(e) => return Err(e.into()),
        };
        outside.resolve(state, &far);
        Ok(outside)
    }

    /// Lets names be resolved inside, through `far`: the namespace that the
    /// path ends in, and its address there.
    fn resolve(&mut self, state: &State, (far, at): &(Namespace, IpAddr)) {
        let inside = self.inside.first().map(|(address, _)| *address);
        let (Some(inside), false) = (inside, matches!(self.uplink, Uplink::Closed)) else {
            return;
        };
        match Names::relay(far, *at, inside, state) {
            Ok(names) => self.names = names,
            Err(e) => self.notes.push(format!(
                "names are not resolved behind the path: all name servers in {RESOLVERS} have \
                 loopback addresses, the inside has a loopback of its own, and there can be no \
                 relay at {at}: {e}"
            )),
        }
    }
}

/// The addresses of `here` that others may be reached at.
fn own_addresses(here: &Namespace) -> Result<Vec<(IpAddr, u8)>, LinuxError> {
    let addresses = here.addresses()?;
    let outer = addresses.into_iter().filter(|(device, address)| {
        let local = matches!(address, IpAddr::V6(a) if a.is_unicast_link_local());
        *device != LOOPBACK && !local
    });
    Ok(outer
        .map(|(_, a)| (a, if a.is_ipv4() { 32 } else { 128 }))
        .collect())
}

fn by_kernel(
    run: &RunId,
    state: &State,
    here: &Namespace,
    tun: Tun,
    wanted: Option<Subnet>,
    chance: &mut Rng,
) -> Result<Outside, ShellError> {
    let taken = here.destinations()?;
    let own = own_addresses(here)?;
    let subnet = Subnet::choose(wanted, Subnet::POINT_TO_POINT, &taken, chance)?;
    let gateway = IpAddr::V4(subnet.host(1));
    here.add_address(tun.index(), gateway, subnet.bits())?;
    let mut inside = vec![(IpAddr::V4(subnet.host(2)), subnet.bits())];
    let mut notes = Vec::new();

    let mut six = Six::of(here, &tun, &taken, chance);
    if let Some(network) = six.network {
        inside.push((host(network, 2), 64));
    }
    let forwarding = Forwarding::plan(here, &tun, six.switch)?;
    let rules = Rules {
        run,
        device: tun.name(),
        inside: subnet,
        inside_ipv6: six.network,
        opened: &forwarding.opened(),
    };
    let mut reach = Vec::new();
    let uplink = match Table::new(here, &rules, state) {
        Ok(table) => {
            forwarding.apply(here, state)?;
            reach.push(ALL_IPV4);
            Uplink::Kernel { _table: table }
        }
        Err(e) => {
            notes.push(closed(&format!("{e}"), "apt-get install nftables"));
            six.closed = None;
            six.switch = None;
            Uplink::Closed
        }
    };
    let open = matches!(uplink, Uplink::Kernel { .. });
    if open && six.switch.is_some() {
        reach.push(ALL_IPV6);
    }
    notes.extend(six.closed.filter(|_| open));
    // What has no way out reaches this machine all the same.
    let missing = own.into_iter().filter(|(a, _)| {
        let family = reach.iter().any(|(to, _)| to.is_ipv4() == a.is_ipv4());
        !family && (a.is_ipv4() || six.network.is_some())
    });
    let missing: Vec<_> = missing.collect();
    reach.extend(missing);
    Ok(Outside {
        tun,
        inside,
        gateway,
        reach,
        uplink,
        names: None,
        notes,
    })
}

fn closed(reason: &str, command: &str) -> String {
    format!("the outside is closed: {reason}; `{command}` may open it")
}

fn host(network: Ipv6Addr, n: u128) -> IpAddr {
    IpAddr::V6(Ipv6Addr::from(u128::from(network) | n))
}

/// The path's IPv6.
struct Six {
    /// Its network, if it has any.
    network: Option<Ipv6Addr>,
    /// The switch of a device that lets packets on.
    switch: Option<&'static str>,
    /// Why there is no way on.
    closed: Option<String>,
}

impl Six {
    fn of(here: &Namespace, tun: &Tun, taken: &[(IpAddr, u8)], chance: &mut Rng) -> Self {
        let mut six = Self {
            network: None,
            switch: None,
            closed: None,
        };
        let off = |name: &str| here.sysctl(name).is_ok_and(|v| v != "0");
        if !sysctl::has_ipv6() || off("net/ipv6/conf/default/disable_ipv6") {
            return six;
        }
        let name = |what: &str| format!("net/ipv6/conf/{}/{what}", tun.name());
        let quiet = [("accept_ra", "0"), ("router_solicitations", "0")];
        let set = |network: Ipv6Addr| -> Result<Ipv6Addr, LinuxError> {
            for (what, value) in quiet {
                here.set_sysctl(&name(what), value)?;
            }
            here.add_address(tun.index(), host(network, 1), 64)?;
            Ok(network)
        };
        six.network = subnet::private_ipv6(taken, chance).and_then(|n| set(n).ok());
        if six.network.is_none() {
            return six;
        }
        let everywhere = |r: &Route| r.prefix_len == 0 && r.to.is_ipv6();
        if !here.routes().is_ok_and(|all| all.iter().any(everywhere)) {
            // There is no IPv6 outside either.
            return six;
        }
        if off("net/ipv6/conf/all/forwarding") {
            six.switch = Some("forwarding");
        } else if here.sysctl(&name("force_forwarding")).is_ok() {
            // Since Linux 6.17: one device forwards, the others stay hosts.
            six.switch = Some("force_forwarding");
        } else {
            six.closed = Some(
                "IPv6 reaches this machine and no further: it forwards none, and would no longer \
                 listen to its router if it did (sysctl net.ipv6.conf.all.forwarding)"
                    .to_owned(),
            );
        }
        six
    }
}

/// The switches by which devices pass on what they receive.
struct Forwarding {
    /// Device, switch, and what it is.
    others: Vec<(String, String, String)>,
    own: Vec<String>,
}

impl Forwarding {
    /// Of the devices that answers may come by: all but `lo` and other runs'.
    /// Each has a switch of its own; that of all devices together would change
    /// others with it.
    fn plan(here: &Namespace, tun: &Tun, six: Option<&str>) -> Result<Self, LinuxError> {
        let switches = |device: &str| {
            let mut all = vec![format!("net/ipv4/conf/{device}/forwarding")];
            all.extend(six.map(|s| format!("net/ipv6/conf/{device}/{s}")));
            all
        };
        let mut others = Vec::new();
        for device in here.devices()? {
            if device.index == LOOPBACK || device.index == tun.index() || !device.up {
                continue;
            }
            for switch in switches(&device.name) {
                // A device without IPv6 has none of its switches.
                if let Ok(value) = here.sysctl(&switch) {
                    others.push((device.name.clone(), switch, value));
                }
            }
        }
        let own = switches(tun.name());
        Ok(Self { others, own })
    }

    /// The devices that did not forward IPv4 or IPv6 before.
    fn opened(&self) -> Vec<String> {
        let off = self.others.iter().filter(|(_, _, value)| value == "0");
        let mut names: Vec<_> = off.map(|(device, _, _)| device.clone()).collect();
        names.dedup();
        names
    }

    fn apply(&self, here: &Namespace, state: &State) -> Result<(), LinuxError> {
        for switch in &self.own {
            here.set_sysctl(switch, "1")?;
        }
        for (_, name, value) in &self.others {
            // That it was on is written down as well: another run may have put
            // it on, and hands over to this one what it was before both.
            state.record(&Undo::Sysctl {
                name: name.clone(),
                value: value.clone(),
            })?;
            if value == "0" {
                here.set_sysctl(name, "1")?;
            }
        }
        Ok(())
    }
}

/// Bits of network of what a user-space program translates.
const USER_NETWORK: u8 = 24;

fn by_user_space(
    run: &RunId,
    here: &Namespace,
    wanted: Option<Subnet>,
    chance: &mut Rng,
) -> Result<(Outside, (Namespace, IpAddr)), ShellError> {
    let outside = Namespace::new(run, "outside")?;
    outside.set_sysctls(sysctl::OF_A_ROUTER)?;
    let taken = here.destinations()?;
    let subnet = Subnet::choose(wanted, USER_NETWORK, &taken, chance)?;
    let tun = Tun::new(&outside, &run.device("out"), MTU)?;
    let inside = IpAddr::V4(subnet.host(user_nat::INSIDE));
    let mut notes = Vec::new();
    let (uplink, gateway, reach) = match UserNat::start(&outside, subnet) {
        Ok(program) => {
            let gateway = subnet.host(user_nat::ROUTER).into();
            (Uplink::UserSpace { _program: program }, gateway, ALL_IPV4)
        }
        Err(e) => {
            notes.push(match e.kind() {
                io::ErrorKind::NotFound => closed(
                    "a user may not change this machine's network, and there is neither \
                     slirp4netns nor pasta, which do without",
                    "sudo apt-get install slirp4netns",
                ),
                _ => format!("the outside is closed: {e}"),
            });
            let gateway = IpAddr::V4(subnet.host(1));
            outside.add_address(tun.index(), gateway, 32)?;
            (Uplink::Closed, gateway, (gateway, 32))
        }
    };
    // More precise than the program's own network, of which it is a part.
    outside.add_route(&Route {
        to: inside,
        prefix_len: 32,
        device: tun.index(),
        via: None,
        source: None,
        mtu: None,
    })?;
    let far = (outside, subnet.host(user_nat::BETWEEN).into());
    let outside = Outside {
        tun,
        inside: vec![(inside, 32)],
        gateway,
        reach: vec![reach],
        uplink,
        names: None,
        notes,
    };
    Ok((outside, far))
}
