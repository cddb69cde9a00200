//! Proxies, and the flows that go by them.

use narrows_core::WRITE_AHEAD;
use narrows_path::routes::Routes;
use narrows_pep::{FirstData, Layout, Limits, RATE_OPTION, in_flight, standing_backlog};
use narrows_units::{Duration, Value};

use super::{Check, Names, needed_ecn, ways};
use crate::document::{At, Flow, Optional, Proxy, SizeInBytes, Words};
use crate::parts::Control;
use crate::plan::{HostIndex, IpVersion, LegPlan, NamedElement, ProxyPlan, ViaPlan};
use crate::refusal::{Refusal, one_of};
use crate::transport::Transport;

/// The congestion control of a leg that says none: Linux's default.
const DEFAULT_CONTROL: &str = "cubic";

/// What a flow says that goes by no proxy, and a leg that is given no rate, for campaigns that
/// have both kinds.
const NONE: &str = "none";

/// The smallest window: four segments of the largest size, so that acknowledgements are
/// not delayed.
const LEAST_WINDOW: u64 = 4 * 1_460;

impl Check<'_> {
    /// Reads the proxies.
    pub(super) fn proxies(&mut self) -> Result<(), Refusal> {
        let mut names = Names::default();
        for table in &self.scenario.proxy {
            let name = names.required(self.places, table, &table.name)?;
            if let Some(given) = table.name.as_ref().filter(|_| name == NONE) {
                let help = "`via = \"none\"` is a flow that goes by no proxy";
                return Err(self.places.refuse(given, "another name").with_help(help));
            }
            let proxy = self.proxy(table, name)?;
            self.plan.proxies.push(proxy);
        }
        Ok(())
    }

    fn proxy(&self, table: &At<Proxy>, name: String) -> Result<ProxyPlan, Refusal> {
        let host = self.proxy_host(table)?;
        if let Some(capacity) = table.capacity.as_ref().filter(|at| at.0.as_bits() == 0) {
            return Err(self.places.refuse(capacity, "a rate above zero"));
        }
        let limits = Limits::default();
        let near_cc = self.leg_control(table, &table.near_cc)?;
        let far_cc = self.leg_control(table, &table.far_cc)?;
        Ok(ProxyPlan {
            name,
            host,
            layout: table.layout.as_ref().map_or(Layout::default(), |at| at.0),
            fast_open: table.fast_open.as_ref().is_some_and(|at| **at),
            near: LegPlan {
                hint: self.hint(&table.near_hint, &near_cc)?,
                ..self.leg(near_cc, &table.near_window, &table.near_unsent)?
            },
            far: LegPlan {
                hint: self.hint(&table.far_hint, &far_cc)?,
                ..self.leg(far_cc, &table.far_window, &table.far_unsent)?
            },
            backlog: self.size(&table.backlog)?.unwrap_or(limits.backlog),
            budget: self.size(&table.budget)?.unwrap_or(limits.budget),
            capacity: table.capacity.as_ref().map(|at| at.0),
        })
    }

    /// The host or router that a proxy runs on.
    fn proxy_host(&self, table: &At<Proxy>) -> Result<HostIndex, Refusal> {
        let names = || self.host_names();
        let allowed = || format!("the name of a host or router: {}", one_of(names()));
        let Some(host) = &*table.host else {
            return Err(self.places.missing(table, "host", allowed()));
        };
        self.plan.host_named(host).ok_or_else(|| {
            self.places
                .refuse(host, allowed())
                .did_you_mean(host, names())
        })
    }

    fn leg(
        &self,
        cc: Control,
        window: &Optional<Words<SizeInBytes>>,
        unsent: &Optional<Words<SizeInBytes>>,
    ) -> Result<LegPlan, Refusal> {
        Ok(LegPlan {
            ecn: needed_ecn(&cc),
            cc,
            window: self.window(window)?,
            unsent: self.size(unsent)?,
            hint: None,
        })
    }

    /// The full name of the element whose rate `control` is given.
    fn hint(&self, given: &Optional<String>, control: &Control) -> Result<Option<String>, Refusal> {
        let Some(at) = given.as_ref().filter(|at| ***at != NONE) else {
            return Ok(None);
        };
        let has_rates = |e: &&NamedElement| e.spec.rates().is_some();
        let names = || {
            let elements = self.plan.elements().filter(has_rates);
            elements.map(|e| e.name.as_str())
        };
        let full = self.plan.full_name(at);
        if !names().any(|name| name == full) {
            let allowed = format!(
                "an element with a rate, or rates over time: {}",
                one_of(names())
            );
            return Err(self.places.refuse(at, allowed).did_you_mean(at, names()));
        }
        let takes = control
            .own()
            .is_some_and(|c| c.option(RATE_OPTION).is_some());
        match takes {
            true => Ok(Some(full.into_owned())),
            false => Err(self
                .places
                .refuse(at, "a leg whose congestion control can be given a rate")
                .with_help(format!("`{control}` cannot; `quickstart` can"))),
        }
    }

    fn leg_control(
        &self,
        table: &At<Proxy>,
        given: &Optional<Words<Control>>,
    ) -> Result<Control, Refusal> {
        let control = match self.places.parsed(given)? {
            Some(control) => control.clone(),
            None => {
                return Control::parse(DEFAULT_CONTROL)
                    .map_err(|error| self.places.refused_words(table, error));
            }
        };
        match given {
            Some(at) if control.quic().is_some() => Err(self
                .places
                .refuse(at, "a congestion control of TCP, such as \"cubic\"")
                .with_help("the legs of a proxy are TCP connections")),
            _ => Ok(control),
        }
    }

    fn size(&self, given: &Optional<Words<SizeInBytes>>) -> Result<Option<u64>, Refusal> {
        Ok(self.places.parsed(given)?.map(|size| size.0))
    }

    fn window(&self, given: &Optional<Words<SizeInBytes>>) -> Result<Option<u64>, Refusal> {
        let window = self.size(given)?;
        match given {
            Some(at) if window.is_some_and(|window| window < LEAST_WINDOW) => Err(self
                .places
                .refuse(at, format!("a window of at least {LEAST_WINDOW} bytes"))),
            _ => Ok(window),
        }
    }

    /// The proxy that `flow` goes by, if it goes by one.
    pub(super) fn via(
        &self,
        flow: &Flow,
        ends: (HostIndex, HostIndex),
        transport: &Transport,
        ip: IpVersion,
        routes: &Routes,
    ) -> Result<Option<ViaPlan>, Refusal> {
        let places = self.places;
        let name = match (&flow.via, &flow.first_data) {
            (Some(name), _) if **name == NONE => return Ok(None),
            (Some(name), _) => name,
            (None, Some(at)) => {
                return Err(places.refuse(at, "a flow with `via = \"PROXY\"`"));
            }
            (None, None) => return Ok(None),
        };
        let names = || self.plan.proxies.iter().map(|p| p.name.as_str());
        let index = self.plan.proxies.iter().position(|p| p.name == **name);
        let Some(index) = index else {
            return Err(match names().next() {
                Some(_) => places
                    .refuse(name, format!("the name of a proxy: {}", one_of(names())))
                    .did_you_mean(name, names()),
                None => places
                    .refuse(name, "the name of a [[proxy]]")
                    .with_help("the file has none"),
            });
        };
        if transport.tcp().is_none() {
            return Err(places
                .refuse(name, "a flow over TCP")
                .with_help("a proxy ends TCP connections and opens others"));
        }
        let proxy = &self.plan.proxies[index];
        if [ends.0, ends.1].contains(&proxy.host) {
            let at = &self.plan.host(proxy.host).name;
            return Err(places
                .refuse(name, "a proxy between the flow's ends")
                .with_help(format!("`{}` runs on `{at}`, one of the ends", proxy.name)));
        }
        for end in [ends.0, ends.1] {
            ways::between(&self.plan, routes, (end, proxy.host)).map_err(|why| {
                let refusal = places.refuse(name, "a proxy to which there is a path");
                refusal.with_help(why)
            })?;
        }
        if proxy.layout == Layout::Thesis && ip == IpVersion::V6 {
            return Err(places
                .refuse(name, "a proxy with `layout = \"rfc8803\"`")
                .with_help("the thesis's layout has room for IPv4 alone"));
        }
        let first_data = flow
            .first_data
            .as_ref()
            .map_or(FirstData::default(), |at| at.0);
        match &flow.first_data {
            Some(at) if first_data == FirstData::AfterAnswer && proxy.layout == Layout::Thesis => {
                Err(places
                    .refuse(at, <FirstData as Value>::ALLOWED)
                    .with_help("asked in the thesis's layout, the proxy does not answer"))
            }
            _ => Ok(Some(ViaPlan {
                proxy: index,
                first_data,
            })),
        }
    }

    /// Reckons what proxies with a capacity do not say, from that and the longest round
    /// trip of the legs of their flows: a window takes the peak rate and, in the same time,
    /// fills the standing backlog; what is unsent lasts for a round trip.
    pub(super) fn size_proxies(&mut self) {
        let routes = self.plan.routes();
        for index in 0..self.plan.proxies.len() {
            let proxy = &self.plan.proxies[index];
            let (Some(capacity), host) = (proxy.capacity, proxy.host) else {
                continue;
            };
            let (mut near, mut far) = (Duration::ZERO, Duration::ZERO);
            let flows = self.plan.flows.iter();
            for flow in flows.filter(|f| f.via.is_some_and(|via| via.proxy == index)) {
                let answers = if flow.opens == flow.from {
                    flow.to
                } else {
                    flow.from
                };
                let trip = |end| self.plan.round_trip(&routes, end, host, flow.dscp);
                near = near.max(trip(flow.opens));
                far = far.max(trip(answers));
            }
            let given = |table: &At<Proxy>| table.backlog.is_some();
            let backlog_given = self.scenario.proxy.get(index).is_some_and(given);
            let proxy = &mut self.plan.proxies[index];
            let standing = [near, far].map(|trip| standing_backlog(capacity, trip));
            for (leg, trip) in [(&mut proxy.near, near), (&mut proxy.far, far)] {
                let standing = standing_backlog(capacity, trip);
                let window = in_flight(capacity, trip).saturating_add(standing);
                leg.window.get_or_insert(window.max(LEAST_WINDOW));
                let unsent = in_flight(capacity, trip).max(WRITE_AHEAD);
                leg.unsent.get_or_insert(unsent);
            }
            if !backlog_given {
                proxy.backlog = standing[0].max(standing[1]).max(WRITE_AHEAD);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use narrows_core::WRITE_AHEAD;
    use narrows_pep::Limits;

    use super::LEAST_WINDOW;
    use crate::{Draft, LegPlan, Plan, Refusal};

    /// Proxies `pep` and `other` with these keys between hosts 20 ms and 50 ms of round trip
    /// away, and these flows of theirs.
    fn text(pep: &str, other: &str, flows: &[&str]) -> String {
        let mut text = format!(
            "version = 1\nname = \"x\"\nduration = \"60s\"\n\
             [[link]]\nname = \"near\"\nends = [\"client\", \"tower\"]\n\
             up = [\"netem delay 10ms\"]\ndown = [\"netem delay 10ms\"]\n\
             [[link]]\nname = \"far\"\nends = [\"tower\", \"server\"]\n\
             up = [\"netem delay 20ms\"]\ndown = [\"netem delay 30ms\"]\n\
             [[link]]\nname = \"close\"\nends = [\"tower\", \"neighbour\"]\n\
             [[link]]\nname = \"other\"\nends = [\"tower\", \"nobody\"]\nup = [\"rate 1Mbit\"]\n\
             [[proxy]]\nname = \"pep\"\nhost = \"tower\"\n{pep}\n\
             [[proxy]]\nname = \"other\"\nhost = \"tower\"\n{other}\n"
        );
        for (number, keys) in flows.iter().enumerate() {
            text += &format!("[[flow]]\nname = \"f{number}\"\ncc = \"cubic\"\n{keys}\n");
        }
        text
    }

    fn read(text: &str) -> Result<Plan, Refusal> {
        Draft::read("x.toml", text.as_bytes())?.check()
    }

    fn check(pep: &str, other: &str, flows: &[&str]) -> Result<Plan, Refusal> {
        read(&text(pep, other, flows))
    }

    fn plan(pep: &str, other: &str, flows: &[&str]) -> Plan {
        check(pep, other, flows).unwrap_or_else(|e| panic!("{}", e.to_line()))
    }

    /// Window and unsent bytes of a leg.
    fn sizes(leg: &LegPlan) -> (Option<u64>, Option<u64>) {
        (leg.window, leg.unsent)
    }

    const ACROSS: &str = "from = \"client\"\nto = \"server\"\nvia = \"pep\"";
    const BACK: &str = "from = \"server\"\nto = \"client\"\nvia = \"pep\"";
    const OPENED: &str = "from = \"server\"\nto = \"client\"\nopens = \"client\"\nvia = \"pep\"";
    const CLOSE: &str = "from = \"client\"\nto = \"neighbour\"\nvia = \"other\"";

    /// 200000 bytes in 20 ms, 500000 in 50 ms.
    const CAPACITY: &str = "capacity = \"80Mbit\"";

    #[test]
    fn a_leg_takes_what_is_in_flight_at_the_capacity_and_as_much_that_stands() {
        let of_20_ms = (Some(400_000), Some(WRITE_AHEAD));
        let of_50_ms = (Some(1_000_000), Some(500_000));
        // The near leg is that of the end which opens; the longest of several flows counts.
        for (flows, near, far) in [
            (&[ACROSS, CLOSE][..], of_20_ms, of_50_ms),
            (&[BACK, CLOSE], of_50_ms, of_20_ms),
            (&[OPENED, CLOSE], of_20_ms, of_50_ms),
            (&[ACROSS, BACK, CLOSE], of_50_ms, of_50_ms),
        ] {
            let plan = plan(CAPACITY, CAPACITY, flows);
            let [pep, other] = &plan.proxies[..] else {
                panic!("two proxies");
            };
            assert_eq!(
                (sizes(&pep.near), sizes(&pep.far)),
                (near, far),
                "{flows:?}"
            );
            assert_eq!(pep.backlog, 500_000);
            // A leg without delay has the least window, and a flow of another proxy is none of it.
            let least = (Some(LEAST_WINDOW), Some(WRITE_AHEAD));
            assert_eq!((sizes(&other.near), sizes(&other.far)), (of_20_ms, least));
            assert_eq!(other.backlog, WRITE_AHEAD);
        }
    }

    #[test]
    fn a_leg_that_holds_more_than_can_be_counted_has_the_largest_window() {
        let text = text("capacity = \"18446744Tbit\"", "", &[ACROSS]);
        // More than 2^64 bytes are in flight.
        let plan = read(&text.replacen("delay 20ms", "delay 20s", 1)).expect("a plan");
        let proxy = &plan.proxies[0];
        assert_eq!(proxy.far.window, Some(u64::MAX));
        assert_eq!(
            (proxy.far.unsent, proxy.backlog),
            (Some(u64::MAX), u64::MAX)
        );
        let again = read(&plan.to_toml()).unwrap_or_else(|e| panic!("{}", e.to_line()));
        assert_eq!(again, plan);
    }

    #[test]
    fn what_a_proxy_with_a_capacity_says_itself_is_not_reckoned() {
        let said = "near_window = 5840\nnear_unsent = 3\nfar_unsent = \"4b\"\nbacklog = \"7b\"";
        let plan = plan(&format!("{CAPACITY}\n{said}"), said, &[ACROSS]);
        let [pep, other] = &plan.proxies[..] else {
            panic!("two proxies");
        };
        assert_eq!(sizes(&pep.near), (Some(LEAST_WINDOW), Some(3)));
        assert_eq!(sizes(&pep.far), (Some(1_000_000), Some(4)));
        assert_eq!((pep.backlog, other.backlog), (7, 7));
        assert_eq!(sizes(&other.far), (None, Some(4)));
        assert_eq!(other.budget, Limits::default().budget);
    }

    #[test]
    fn a_window_is_four_segments_at_least() {
        for key in ["near_window", "far_window"] {
            assert!(check(&format!("{key} = 5840"), "", &[ACROSS]).is_ok());
            let refusal = check(&format!("{key} = 5839"), "", &[ACROSS]).expect_err(key);
            assert_eq!(refusal.key(), format!("proxy/pep/{key}"));
        }
    }

    #[test]
    fn a_leg_is_given_the_rate_of_the_element_that_it_names() {
        let hint = |side: &str| {
            let keys = format!("{side}_cc = \"quickstart\"\n{side}_hint = \"link/other/up/rate\"");
            let proxy = plan(&keys, "", &[ACROSS]).proxies[0].clone();
            (proxy.near.hint, proxy.far.hint)
        };
        let rate = Some("link/other/up/rate".to_owned());
        assert_eq!(hint("near"), (rate.clone(), None));
        assert_eq!(hint("far"), (None, rate));
        let none = "near_hint = \"none\"\nfar_hint = \"none\"";
        let proxy = &plan(none, "", &[ACROSS]).proxies[0];
        assert_eq!((&proxy.near.hint, &proxy.far.hint), (&None, &None));
    }
}
