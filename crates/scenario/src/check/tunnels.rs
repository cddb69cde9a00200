//! Which boxes the ends of tunnels are.

use narrows_path::{TunnelSpec, TunnelWords};

use crate::names::{FAR, NEAR};
use crate::refusal::Refusal;
use crate::source::Spot;

/// The tunnels of one direction of a link, in which they lie one in the other.
pub(super) struct Tunnels {
    pub(super) up: bool,
    mtu: u32,
    /// Those that have begun and not yet ended: name, words, and the place of the element.
    open: Vec<(String, TunnelSpec, usize)>,
    begun: usize,
}

/// What was found that is no tunnel, what is allowed, and what to do.
pub(super) struct Wrong {
    found: String,
    allowed: String,
    help: &'static str,
}

impl Wrong {
    fn new(found: String, allowed: impl Into<String>, help: &'static str) -> Self {
        let allowed = allowed.into();
        Self {
            found,
            allowed,
            help,
        }
    }

    /// The refusal of what stands at `spot` under `key`.
    pub(super) fn at(self, spot: &Spot, key: &str) -> Refusal {
        let refusal = Refusal::at(spot, key, self.found, self.allowed);
        match self.help {
            "" => refusal,
            help => refusal.with_help(help),
        }
    }
}

impl Tunnels {
    /// Those of a direction of a link with this MTU.
    pub(super) fn new(up: bool, mtu: u32) -> Self {
        Self {
            up,
            mtu,
            open: Vec::new(),
            begun: 0,
        }
    }

    /// What the element in this place, with this label, is called, and its words: a beginning
    /// with the MTU said, an end with the words of its beginning.
    pub(super) fn next(
        &mut self,
        place: usize,
        label: Option<&str>,
        spec: &TunnelSpec,
    ) -> Result<(String, TunnelSpec), Wrong> {
        let TunnelSpec::Begins(words) = spec else {
            if let Some(label) = label {
                let found = format!("`{label}: tunnel end`, an end with a name");
                let help = "a tunnel has its name where it begins, `NAME: tunnel wireguard`, and \
                            its end none: it ends the one that began last";
                return Err(Wrong::new(found, "`tunnel end`", help));
            }
            let (name, spec, _) = self.open.pop().ok_or_else(|| {
                let allowed = "`tunnel wireguard`, `tunnel fou` or `tunnel ipsec` before it";
                Wrong::new("`tunnel end`, where none has begun".to_owned(), allowed, "")
            })?;
            let end = if self.up { FAR } else { NEAR };
            return Ok((format!("{name}{end}"), spec));
        };
        self.begun += 1;
        if self.begun > 1 && label.is_none() {
            let found = format!("`{spec}`, which is not the first tunnel here and has no name");
            return Err(Wrong::new(found, format!("`NAME: {spec}`"), ""));
        }
        self.has_room(words)?;
        let words = words.on_link(self.mtu).map_err(|fits| {
            let found = format!("`{spec}` on a link with an MTU of {}", self.mtu);
            let allowed = format!("`mtu {fits}` at most");
            let help = "the outer headers have to fit the link, too; without `mtu` it is what fits";
            Wrong::new(found, allowed, help)
        })?;
        let spec = TunnelSpec::Begins(words);
        let name = label.unwrap_or("tunnel").to_owned();
        let end = if self.up { NEAR } else { FAR };
        let full = format!("{name}{end}");
        self.open.push((name, spec, place));
        Ok((full, spec))
    }

    /// Refuses a tunnel that leaves those in which it lies no room: a packet that every IPv4 link
    /// takes has to fit the link with the headers of all of them.
    fn has_room(&self, words: &TunnelWords) -> Result<(), Wrong> {
        let mut open = self.open.iter().filter_map(|(_, spec, _)| spec.words());
        let needed = match open.next() {
            None => words.least_link(),
            Some(first) => {
                let around = open.fold(first.least_link(), |len, outer| outer.around(len));
                words.around(around)
            }
        };
        if needed <= self.mtu {
            return Ok(());
        }
        let tunnels = match self.open.len() + 1 {
            1 => format!("`{}`", TunnelSpec::Begins(*words)),
            count => format!("{count} tunnels one in the other"),
        };
        let found = format!("{tunnels} on a link with an MTU of {}", self.mtu);
        let allowed = format!("an MTU of at least {needed}");
        let help = "a packet of 68 bytes has to fit the link with all outer headers";
        Err(Wrong::new(found, allowed, help))
    }

    /// Refuses a `nat` in a tunnel that does not find its other end behind it.
    pub(super) fn translated(&self) -> Result<(), Wrong> {
        let Some((_, spec, _)) = self.open.last() else {
            return Ok(());
        };
        if spec.words().is_none_or(TunnelWords::passes_nat) {
            return Ok(());
        }
        let found =
            format!("`nat` in `{spec}`, whose far end would answer to the near end's own address");
        let allowed = "`nat` before the tunnel begins or behind its end, or `tunnel wireguard` with one source port";
        let help = "WireGuard alone sends to where the latest packet of the other end came from";
        Err(Wrong::new(found, allowed, help))
    }

    /// The place of a tunnel that does not end, if there is one.
    pub(super) fn endless(self) -> Option<(usize, Wrong)> {
        let (_, spec, place) = self.open.into_iter().next()?;
        let found = format!("`{spec}`, which does not end");
        Some((place, Wrong::new(found, "`tunnel end` after it", "")))
    }
}

#[cfg(test)]
mod tests {
    use std::net::IpAddr;

    use crate::{Draft, Plan};

    /// A link of these elements and this MTU.
    fn checked(up: &str, down: &str, mtu: u32) -> Result<Plan, String> {
        let text = format!(
            "version = 1\nname = \"t\"\nduration = \"1s\"\n[[link]]\nname = \"l\"\n\
             ends = [\"a\", \"b\"]\nmtu = {mtu}\nup = [{up}]\ndown = [{down}]\n\
             [[flow]]\nname = \"f\"\nfrom = \"a\"\nto = \"b\"\ncc = \"reno\"\n"
        );
        let draft = Draft::read("t.toml", text.as_bytes()).expect("a document");
        draft.check().map_err(|refusal| refusal.to_string())
    }

    const WG6: &str = r#""tunnel wireguard ipv6", "tunnel end""#;
    const FOU: &str = r#""tunnel fou", "rate 1Mbit", "tunnel end""#;

    #[test]
    fn a_tunnel_has_a_box_at_each_end_which_is_the_same_in_both_directions() {
        let names = |elements: &[crate::NamedElement]| {
            let names = elements.iter().map(|e| e.name.clone());
            names.collect::<Vec<_>>()
        };
        let plan = checked(FOU, FOU, 1500).unwrap();
        let up = ["link/l/tunnel-near", "link/l/up/rate", "link/l/tunnel-far"];
        let down = [
            "link/l/tunnel-far",
            "link/l/down/rate",
            "link/l/tunnel-near",
        ];
        assert_eq!(names(&plan.links[0].up), up);
        assert_eq!(names(&plan.links[0].down), down);
        let boxes = plan.boxes();
        assert_eq!(boxes.len(), 2);
        let differ = |v: usize| boxes[0].addresses[v] != boxes[1].addresses[v];
        assert!(differ(0) && differ(1));
        assert!(
            boxes
                .iter()
                .all(|b| matches!(b.addresses[0], IpAddr::V4(_)))
        );
        // The end has the words of the beginning, with the MTU.
        for element in [&plan.links[0].up[2], &plan.links[0].down[2]] {
            assert_eq!(element.spec.to_string(), "tunnel fou mtu 1472");
        }
        assert!(checked(FOU, "", 1500).is_ok(), "one direction alone");
    }

    #[test]
    fn tunnels_that_are_written_are_read_as_they_were() {
        let within = r#""tunnel fou", "x-far: tunnel ipsec", "tunnel end", "tunnel end", "y: tunnel wireguard", "tunnel end""#;
        let plan = checked(within, FOU, 1500).unwrap();
        let file = plan.to_toml();
        let again = Draft::read("t.toml", file.as_bytes()).and_then(|draft| draft.check());
        assert_eq!(again.map_err(|e| e.to_line()), Ok(plan), "{file}");
    }

    #[test]
    fn tunnels_lie_one_in_the_other_or_one_behind_the_other() {
        let within = r#""tunnel fou", "vpn: tunnel ipsec", "tunnel end", "tunnel end""#;
        let plan = checked(within, within, 1500).unwrap();
        let names: Vec<_> = plan.links[0].up.iter().map(|e| e.short_name()).collect();
        assert_eq!(names, ["tunnel-near", "vpn-near", "vpn-far", "tunnel-far"]);
        let one_behind = r#""a: tunnel fou", "tunnel end", "b: tunnel fou", "tunnel end""#;
        let the_other = r#""b: tunnel fou", "tunnel end", "a: tunnel fou", "tunnel end""#;
        let plan = checked(one_behind, the_other, 1500).unwrap();
        let names: Vec<_> = plan.links[0].down.iter().map(|e| e.short_name()).collect();
        assert_eq!(names, ["b-far", "b-near", "a-far", "a-near"]);
    }

    #[test]
    fn tunnels_that_leave_each_other_no_room_are_refused() {
        let nested = |count: usize| {
            let begun = (0..count).map(|n| format!("\"t{n}: tunnel fou\", "));
            begun.collect::<String>() + &"\"tunnel end\", ".repeat(count)
        };
        // 68 bytes and 28 for each.
        for (count, mtu, fits) in [
            (3, 152, true),
            (3, 151, false),
            (9, 320, true),
            (9, 319, false),
        ] {
            let tunnels = nested(count);
            assert_eq!(
                checked(&tunnels, &tunnels, mtu).is_ok(),
                fits,
                "{count} in {mtu}"
            );
        }
        let refusal = checked(&nested(9), "", 300).unwrap_err();
        let said = "9 tunnels one in the other on a link with an MTU of 300";
        assert!(
            refusal.contains(said) && refusal.contains("at least 320"),
            "{refusal}"
        );
    }

    #[test]
    fn a_nat_stands_in_a_tunnel_of_wireguard_and_outside_all_of_them() {
        let before = r#""nat", "tunnel fou", "tunnel end""#;
        let behind = r#""tunnel fou", "tunnel end", "nat""#;
        let in_it = r#""tunnel wireguard", "nat", "tunnel end""#;
        let from_a_port = r#""tunnel wireguard sport 7", "nat", "tunnel end""#;
        let in_both = r#""tunnel fou", "vpn: tunnel wireguard", "nat", "tunnel end", "tunnel end""#;
        for (up, down) in [
            (in_it, in_it),
            (from_a_port, from_a_port),
            (before, behind),
            (behind, before),
            (in_both, in_both),
        ] {
            if let Err(refusal) = checked(up, down, 1500) {
                panic!("{up}: {refusal}");
            }
        }
    }

    #[test]
    fn what_is_no_tunnel_is_refused() {
        for (up, down, mtu, reason) in [
            (
                r#""tunnel end""#,
                "",
                1500,
                "`tunnel end`, where none has begun",
            ),
            (r#""tunnel fou""#, "", 1500, "which does not end"),
            (
                r#""tunnel fou", "x: tunnel end""#,
                "",
                1500,
                "`x: tunnel end`, an end with a name",
            ),
            (
                WG6,
                WG6,
                128,
                "`tunnel wireguard ipv6` on a link with an MTU of 128",
            ),
            (WG6, WG6, 147, "an MTU of at least 148"),
            (
                r#""tunnel fou mtu 1473", "tunnel end""#,
                "",
                1500,
                "`mtu 1472` at most",
            ),
            (
                r#""tunnel wireguard mtu 65535", "tunnel end""#,
                "",
                1500,
                "`mtu 1440` at most",
            ),
            (
                r#""tunnel fou", "nat", "tunnel end""#,
                r#""tunnel fou", "nat", "tunnel end""#,
                1500,
                "`nat` in `tunnel fou mtu 1472`, whose far end would answer to the near end's own address",
            ),
            (
                r#""tunnel wireguard", "vpn: tunnel ipsec", "nat", "tunnel end", "tunnel end""#,
                "",
                1500,
                "`nat` in `tunnel ipsec",
            ),
            (
                r#""tunnel wireguard sport auto", "nat", "tunnel end""#,
                "",
                1500,
                "`tunnel wireguard` with one source port",
            ),
            (
                r#""tunnel fou", "tunnel end", "tunnel fou", "tunnel end""#,
                "",
                1500,
                "`NAME: tunnel fou`",
            ),
            (
                r#""tunnel-far: remark ecn ce", "tunnel fou", "tunnel end""#,
                "",
                1500,
                "the element `tunnel-far` for the second time",
            ),
            (
                FOU,
                r#""tunnel ipsec", "tunnel end""#,
                1500,
                "`tunnel ipsec mtu 1446`, as `tunnel-near` is in `down`",
            ),
            (r#""by dscp cs1 (tunnel fou)""#, "", 1500, "tunnel"),
        ] {
            match checked(up, down, mtu) {
                Err(refusal) => assert!(refusal.contains(reason), "{refusal}"),
                Ok(_) => panic!("{up} is accepted"),
            }
        }
    }
}
