//! A plan as a file: what `--save` writes, and what a results folder keeps.

use std::fmt::Write;

use narrows_path::{Dscp, TunnelSpec};
use narrows_pep::{FirstData, Layout};
use narrows_units::{Bytes, Duration, Instant, Parameter, ParameterKind};
use serde_json::{Map, Value};

use super::app::{App, AppKeys};
use super::leaf::{Element, Name, Scalar, Spelled, Whole, Words};
use super::place::{At, More};
use super::scenario::{
    Address, Capture, Change, Command, EcnRequest, Flow, Host, HostModel, Link, Mark, Mode,
    NamedWindow, Node, Observe, Probe, Proxy, Scenario, SizeInBytes,
};
use crate::check::{
    DEFAULT_MTU, DEFAULT_SAMPLE, default_window, implied_host, model, needed_ecn, watch,
};
use crate::names::{FAR, NEAR};
use crate::parts::{Control, EcnMode, EcnWord, ElementSpec, Traffic};
use crate::plan::{
    AppPlan, CapturePlan, CapturePoint, CommandPlan, FlowPlan, HostIndex, HostPlan, IpVersion,
    LinkPlan, NamedElement, ObserverPlan, Plan, ProbePlan, ProxyPlan, SignalPlan, TimedChange,
    ecn_mode_word,
};
use crate::transport::{SpinUse, Transport, TransportName};

impl Plan {
    /// The plan as a scenario file. Read again, it gives the same plan. What is as it
    /// is by default is written as a comment, so that it goes on following what
    /// it depends on: the steady window the duration, ECN the congestion control.
    pub fn to_toml(&self) -> String {
        let whole = self.document();
        let mut given = whole.clone();
        if self.measure == default_window(self.duration) {
            given.measure = None;
        }
        if self.seed == 1 {
            given.seed = None;
        }
        if self.sample_interval == DEFAULT_SAMPLE {
            given.sample_interval = None;
        }
        given.flow = each(&self.flows, |flow| self.flow(flow, true));
        given.app = each(&self.apps, |app| self.app(app, true));
        let values = |scenario: &Scenario| match serde_json::to_value(scenario) {
            Ok(Value::Object(values)) => values,
            _ => Map::new(),
        };
        let mut text = String::new();
        table(&mut text, &values(&whole), &values(&given));
        text
    }

    fn document(&self) -> Scenario {
        Scenario {
            version: given(Whole(1)),
            name: text(&self.name),
            title: self.title.as_deref().map(text),
            about: self.about.as_deref().map(text),
            source: self.source.as_deref().map(text),
            duration: given(Spelled(self.duration)),
            measure: given(Spelled(self.measure)),
            seed: given(Whole(self.seed)),
            sample_interval: given(Spelled(self.sample_interval)),
            expected: self.expected.iter().cloned().map(Into::into).collect(),
            host: self.hosts_to_write(false),
            router: self.hosts_to_write(true),
            link: each(&self.links, |link| self.link(link)),
            proxy: each(&self.proxies, |proxy| self.proxy(proxy)),
            flow: each(&self.flows, |flow| self.flow(flow, false)),
            mark: each(&self.marks, |mark| self.mark(mark)),
            app: each(&self.apps, |app| self.app(app, false)),
            probe: each(&self.probes, |probe| self.probe(probe)),
            command: each(&self.commands, |command| self.command(command)),
            observe: each(&self.observers, |observer| self.observer(observer)),
            capture: each(&self.captures, |capture| self.capture(capture)),
            window: each(&self.windows, |window| NamedWindow {
                name: name(&window.name),
                over: given(Spelled(window.over)),
            }),
            change: each(&self.changes, change),
            ..Scenario::default()
        }
    }

    fn called<S: From<At<String>>>(&self, host: HostIndex) -> S {
        text(&self.host(host).name)
    }

    fn link(&self, link: &LinkPlan) -> Link {
        let ends = [link.ends.0, link.ends.1].map(|end| self.host(end).name.clone());
        Link {
            name: name(&link.name),
            ends: given(ends.into_iter().collect()),
            mtu: unless(link.mtu == DEFAULT_MTU, Whole(link.mtu.into())),
            datapath: unless(link.datapath.is_own(), link.datapath),
            up: elements(&link.up, self.host(link.ends.0), NEAR),
            down: elements(&link.down, self.host(link.ends.1), FAR),
        }
    }

    fn proxy(&self, proxy: &ProxyPlan) -> Proxy {
        let maybe = |bytes: Option<u64>| bytes.map(|bytes| size(bytes).into());
        Proxy {
            name: name(&proxy.name),
            host: self.called(proxy.host),
            layout: unless(proxy.layout == Layout::default(), Spelled(proxy.layout)),
            fast_open: unless(!proxy.fast_open, true),
            near_cc: given(Words::of(proxy.near.cc.clone(), &proxy.near.cc)),
            far_cc: given(Words::of(proxy.far.cc.clone(), &proxy.far.cc)),
            near_window: maybe(proxy.near.window),
            far_window: maybe(proxy.far.window),
            near_unsent: maybe(proxy.near.unsent),
            far_unsent: maybe(proxy.far.unsent),
            backlog: given(size(proxy.backlog)),
            budget: given(size(proxy.budget)),
            capacity: proxy.capacity.map(|rate| Spelled(rate).into()),
            near_hint: proxy.near.hint.clone().map(At::from),
            far_hint: proxy.far.hint.clone().map(At::from),
        }
    }

    fn mark(&self, mark: &SignalPlan) -> Mark {
        let flows = mark.flows.iter().map(|f| &self.flows[f.0 as usize].name);
        let hosts = mark.hosts.iter().map(|h| &self.host(*h).name);
        Mark {
            name: name(&mark.name),
            signals: given(Words::of(mark.signals, mark.signals)),
            flows: given(flows.cloned().collect()),
            hosts: given(hosts.cloned().collect()),
        }
    }

    fn probe(&self, probe: &ProbePlan) -> Probe {
        let usual = probe.interval == watch::DEFAULT_INTERVAL;
        Probe {
            name: name(&probe.name),
            from: self.called(probe.from),
            to: self.called(probe.to),
            interval: unless(usual, Spelled(probe.interval)),
            size: unless(probe.size == watch::DEFAULT_PROBE, Whole(probe.size.into())),
            dscp: dscp(probe.dscp),
            ecn: given(Spelled(EcnWord(probe.ecn))),
            start: start(probe.start),
            stop: probe.stop.map(since_start),
        }
    }

    fn command(&self, command: &CommandPlan) -> Command {
        Command {
            name: name(&command.name),
            host: self.called(command.host),
            run: given(command.run.iter().cloned().map(Scalar::Text).collect()),
            start: start(command.start),
            stop: command.stop.map(since_start),
        }
    }

    fn capture(&self, capture: &CapturePlan) -> Capture {
        Capture {
            name: name(&capture.name),
            at: match &capture.at {
                CapturePoint::Tap(name) => text(name),
                CapturePoint::Host(index) => given(format!("host/{}", self.host(*index).name)),
            },
            snaplen: given(Whole(capture.snaplen.into())),
        }
    }

    /// Those hosts, or routers, of which the links alone do not say everything.
    fn hosts_to_write(&self, routers: bool) -> Vec<At<Host>> {
        let between = self.between_others();
        let hosts = self
            .hosts
            .iter()
            .enumerate()
            .filter(|(_, h)| h.router == routers);
        hosts
            .filter_map(|(number, host)| {
                let implied = HostPlan {
                    router: between[number],
                    ..implied_host(&host.name, number)
                };
                let more = *host != implied;
                more.then(|| {
                    At::from(Host {
                        name: name(&host.name),
                        ipv4: unless(host.ipv4 == implied.ipv4, Spelled(Address(host.ipv4))),
                        ipv6: unless(host.ipv6 == implied.ipv6, Spelled(Address(host.ipv6))),
                        is: (host.node.as_ref())
                            .map(|node| At::from(Words::of(Node(node.clone()), node))),
                    })
                })
            })
            .collect()
    }

    /// The flow as a file has it; ECN that is as usual only if `whole`.
    fn flow(&self, flow: &FlowPlan, usual_left_out: bool) -> Flow {
        let quic = flow.transport.quic();
        let spin = quic.map_or(SpinUse::default(), |quic| quic.spin);
        Flow {
            name: name(&flow.name),
            from: self.called(flow.from),
            to: self.called(flow.to),
            opens: (flow.opens != flow.from).then(|| self.called(flow.opens)),
            // The control says the other two.
            transport: match flow.transport {
                Transport::Modelled(spec) => given(Words::of(TransportName::Modelled(spec), spec)),
                Transport::Tcp(_) | Transport::Quic(_) | Transport::Datagrams => None,
            },
            cc: cc(&flow.transport),
            spin: unless(spin.is_default(), Words::of(spin, spin)),
            ecn: ecn(&flow.transport, usual_left_out),
            dscp: dscp(flow.dscp),
            // A flow that gives no start would begin a little later.
            start: match flow.start_offset {
                true => start(flow.start),
                false => since_start(flow.start),
            },
            stop: flow.stop.map(since_start),
            bytes: match flow.traffic {
                Traffic::Bytes(bytes) => given(size(bytes)),
                _ => None,
            },
            traffic: match flow.traffic {
                Traffic::Bulk | Traffic::Bytes(_) => None,
                other => given(Words::of(other, other)),
            },
            ip: unless(flow.ip == IpVersion::V4, Whole(6)),
            fast_open: fast_open(&flow.transport),
            via: flow
                .via
                .map(|via| At::from(self.proxies[via.proxy].name.clone())),
            first_data: flow
                .via
                .filter(|via| via.first_data != FirstData::default())
                .map(|via| Spelled(via.first_data).into()),
            mark: None,
            // Flows that are not over TCP may not say it.
            host_model: host_model(&flow.transport),
        }
    }

    /// The application as a file has it; ECN that is as usual only if `whole`.
    fn app(&self, app: &AppPlan, usual_left_out: bool) -> App {
        let declared = app.spec.declared().parameters.iter();
        let parameter = |(parameter, (name, value)): (&Parameter, (&str, String))| {
            let number = matches!(parameter.kind, ParameterKind::Number(_));
            let whole = value.parse().ok().filter(|_| number).map(Scalar::Whole);
            (name.to_owned(), whole.unwrap_or(Scalar::Text(value)).into())
        };
        App {
            keys: AppKeys {
                name: name(&app.name),
                kind: text(app.spec.kind()),
                from: self.called(app.from),
                to: self.called(app.to),
                start: start(app.start),
                stop: app.stop.map(since_start),
                // The control says which it is.
                transport: None,
                cc: cc(&app.transport),
                ecn: ecn(&app.transport, usual_left_out),
                dscp: dscp(app.dscp),
                ip: unless(app.ip == IpVersion::V4, Whole(6)),
                fast_open: fast_open(&app.transport),
                host_model: host_model(&app.transport),
            },
            parameters: declared.zip(app.spec.parameters()).map(parameter).collect(),
        }
    }

    fn observer(&self, observer: &ObserverPlan) -> Observe {
        Observe {
            name: name(&observer.name),
            tap: text(&observer.tap),
            measure: unless(observer.measure == self.measure, Spelled(observer.measure)),
            mode: unless(!observer.thesis, Mode::Thesis),
            profile: observer.profile.map(|profile| Spelled(profile).into()),
            negotiated: unless(!observer.negotiated, true),
            t_max: observer.t_max.map(|t_max| Spelled(t_max).into()),
            block: observer.block.map(|n| Whole(n.into()).into()),
            reordering: observer.reordering.map(|n| Whole(n.into()).into()),
            techniques: observer
                .techniques
                .iter()
                .cloned()
                .map(Into::into)
                .collect(),
        }
    }
}

/// The congestion control of a transport, if it has one.
fn cc(transport: &Transport) -> Option<At<Words<Control>>> {
    let control = match transport {
        Transport::Tcp(tcp) => tcp.cc.clone(),
        Transport::Quic(quic) => Control::Quic(quic.cc),
        Transport::Modelled(_) | Transport::Datagrams => return None,
    };
    Some(Words::of(control.clone(), control).into())
}

/// What its handshake asks for, if it may ask; what is as usual may be left out.
fn ecn(transport: &Transport, usual_left_out: bool) -> Option<At<Words<EcnRequest>>> {
    let usual = match transport {
        Transport::Tcp(tcp) => needed_ecn(&tcp.cc),
        Transport::Quic(_) => EcnMode::Classic,
        Transport::Modelled(_) | Transport::Datagrams => return None,
    };
    let ecn = transport.ecn();
    let words = Words::of(EcnRequest::Mode(ecn), ecn_mode_word(ecn));
    unless(usual_left_out && ecn == usual, words)
}

fn fast_open(transport: &Transport) -> Option<At<bool>> {
    unless(transport.tcp().is_none_or(|tcp| !tcp.fast_open), true)
}

fn host_model(transport: &Transport) -> Option<At<HostModel>> {
    model::document(&transport.tcp()?.host).map(At::from)
}

fn change(change: &TimedChange) -> Change {
    Change {
        name: change.name.as_deref().map(name),
        at: since_start(change.at),
        target: text(&change.target),
        to: text(&change.words),
    }
}

fn each<P, T>(plans: &[P], table: impl Fn(&P) -> T) -> Vec<At<T>> {
    plans.iter().map(|plan| table(plan).into()).collect()
}

fn given<T, S: From<At<T>>>(value: T) -> S {
    At::from(value).into()
}

/// The value, but for one that need not be given.
pub(crate) fn unless<T>(usual: bool, value: T) -> Option<At<T>> {
    (!usual).then(|| value.into())
}

fn text<S: From<At<String>>>(text: &str) -> S {
    given(text.to_owned())
}

fn name<S: From<At<Name>>>(name: &str) -> S {
    given(Name(name.to_owned()))
}

fn since_start<S: From<At<Spelled<Duration>>>>(at: Instant) -> S {
    given(Spelled(at.since(Instant::ZERO)))
}

fn start(at: Instant) -> Option<At<Spelled<Duration>>> {
    (at != Instant::ZERO).then(|| since_start(at))
}

fn size(bytes: u64) -> Words<SizeInBytes> {
    Words::of(SizeInBytes(bytes), Bytes::new(bytes))
}

fn dscp(value: u8) -> Option<At<Words<Dscp>>> {
    unless(
        value == 0,
        Words::plain(Dscp(value), Scalar::Whole(value.into())),
    )
}

/// The elements of a direction that begins at `host`, whose port is said where it differs. Names of
/// boxes at which a tunnel begins end with `begins` there.
fn elements(elements: &[NamedElement], host: &HostPlan, begins: &str) -> More<Element> {
    let element = |e: &NamedElement| {
        let (name, words) = (e.short_name(), e.spec.to_string());
        let (label, words) = match &e.spec {
            ElementSpec::Tunnel(_) => match name.strip_suffix(begins) {
                Some(name) => (Some(name), words),
                None => (None, TunnelSpec::Ends.to_string()),
            },
            spec => (spec.facts().tap.is_none().then_some(name), words),
        };
        Element {
            label: label.map(str::to_owned),
            layers: vec![words],
            words_at: 0,
        }
    };
    let differs = |e: &&NamedElement| !e.spec.facts().node || host.node.as_ref() != Some(&e.spec);
    elements.iter().filter(differs).map(element).collect()
}

/// Writes a table: first its own values, then the tables in it. What `given` does
/// not have is a comment.
fn table(file: &mut String, whole: &Map<String, Value>, given: &Map<String, Value>) {
    let none = |value: &Value| match value {
        Value::Null => true,
        Value::Array(list) => list.is_empty(),
        _ => false,
    };
    let tables = |value: &Value| matches!(value, Value::Array(l) if l.iter().all(Value::is_object));
    let there = whole.iter().filter(|(_, value)| !none(value));
    for (key, value) in there.clone().filter(|(_, value)| !tables(value)) {
        let usual = given.get(key).is_none_or(none);
        let comment = if usual { "# " } else { "" };
        writeln!(file, "{comment}{key:<8} = {}", in_line(value)).ok();
    }
    for (key, value) in there.filter(|(_, value)| tables(value)) {
        let items = |of: &Value| of.as_array().cloned().unwrap_or_default();
        let of_given = given.get(key).map(items).unwrap_or_default();
        for (whole, given) in items(value).iter().zip(&of_given) {
            writeln!(file, "\n[[{key}]]").ok();
            if let (Some(whole), Some(given)) = (whole.as_object(), given.as_object()) {
                table(file, whole, given);
            }
        }
    }
}

/// A value as TOML has it in a line.
fn in_line(value: &Value) -> String {
    match value {
        Value::Object(table) => {
            let there = table.iter().filter(|(_, value)| !value.is_null());
            let entries: Vec<_> = there
                .map(|(k, v)| format!("{k} = {}", in_line(v)))
                .collect();
            format!("{{ {} }}", entries.join(", "))
        }
        Value::Array(list) => {
            let items: Vec<_> = list.iter().map(in_line).collect();
            format!("[{}]", items.join(", "))
        }
        Value::String(text) => toml::Value::String(text.clone()).to_string(),
        other => other.to_string(),
    }
}
