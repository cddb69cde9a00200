//! A plan as a file: what `--save` writes, and what a results folder keeps.

use std::fmt::Write;

use narrows_units::{Bytes, Duration, Instant};

use crate::check::flows::needed_ecn;
use crate::check::{DEFAULT_SAMPLE, default_window, implied_host, model, watch};
use crate::parts::{EcnMode, ElementSpec, Traffic};
use crate::plan::{
    CapturePoint, FlowPlan, HostPlan, IpVersion, LinkPlan, MarkPlan, NamedElement, ObserverPlan,
    Plan, ProbePlan, codepoint_word, ecn_mode_word,
};
use crate::transport::Transport;

impl Plan {
    /// The plan as a scenario file. Read again, it gives the same plan. What is as it
    /// is when nothing is said stands as a comment, so that it goes on following what
    /// it depends on: the steady window the duration, ECN the congestion control.
    pub fn to_toml(&self) -> String {
        let mut file = File(String::from("version  = 1\n"));
        file.text("name", &self.name);
        let said = [
            ("title", &self.title),
            ("about", &self.about),
            ("source", &self.source),
        ];
        for (key, value) in said {
            if let Some(value) = value {
                file.text(key, value);
            }
        }
        file.words("duration", self.duration);
        let usual = self.measure == default_window(self.duration);
        file.unless(usual).words("measure", self.measure);
        file.unless(self.seed == 1).plain("seed", self.seed);
        let usual = self.sample_interval == DEFAULT_SAMPLE;
        file.unless(usual)
            .words("sample_interval", self.sample_interval);
        if !self.expected.is_empty() {
            let expected: Vec<String> = self.expected.iter().map(|e| quoted(e)).collect();
            file.plain("expected", format!("[{}]", expected.join(", ")));
        }
        self.hosts(&mut file);
        for link in &self.links {
            self.link(&mut file, link);
        }
        for flow in &self.flows {
            self.flow(&mut file, flow);
        }
        for mark in &self.marks {
            self.mark(&mut file, mark);
        }
        for probe in &self.probes {
            self.probe(&mut file, probe);
        }
        for command in &self.commands {
            file.table("command");
            file.text("name", &command.name);
            file.text("host", &self.host(command.host).name);
            let run: Vec<String> = command.run.iter().map(|w| quoted(w)).collect();
            file.plain("run", format!("[{}]", run.join(", ")));
            file.span(command.start, command.stop);
        }
        for observer in &self.observers {
            file.observer(observer);
        }
        for capture in &self.captures {
            file.table("capture");
            file.text("name", &capture.name);
            match &capture.at {
                CapturePoint::Tap(name) => file.text("at", name),
                CapturePoint::Host(index) => {
                    file.text("at", &format!("host/{}", self.host(*index).name));
                }
            }
            file.plain("snaplen", capture.snaplen);
        }
        for change in &self.changes {
            file.table("change");
            if let Some(name) = &change.name {
                file.text("name", name);
            }
            file.words("at", change.at);
            file.text("target", &change.target);
            file.text("to", &change.words);
        }
        file.0
    }

    /// Those hosts of which the links alone do not say everything.
    fn hosts(&self, file: &mut File) {
        let mut busy = vec![false; self.hosts.len()];
        let flows = self.flows.iter().flat_map(|f| [f.from, f.to]);
        let probes = self.probes.iter().flat_map(|p| [p.from, p.to]);
        let commands = self.commands.iter().flat_map(|c| c.hosts(self));
        for index in flows.chain(probes).chain(commands) {
            busy[index.0] = true;
        }
        for (number, host) in self.hosts.iter().enumerate() {
            let implied = HostPlan {
                router: !busy[number],
                ..implied_host(&host.name, number)
            };
            if *host == implied {
                continue;
            }
            file.table(if host.router { "router" } else { "host" });
            file.text("name", &host.name);
            if host.ipv4 != implied.ipv4 {
                file.words("ipv4", host.ipv4);
            }
            if host.ipv6 != implied.ipv6 {
                file.words("ipv6", host.ipv6);
            }
        }
    }

    fn link(&self, file: &mut File, link: &LinkPlan) {
        file.table("link");
        file.text("name", &link.name);
        let ends = [link.ends.0, link.ends.1].map(|end| quoted(&self.host(end).name));
        file.plain("ends", format!("[{}]", ends.join(", ")));
        if link.mtu != crate::check::DEFAULT_MTU {
            file.plain("mtu", link.mtu);
        }
        if !link.datapath.is_own() {
            file.text("datapath", "kernel");
        }
        file.elements("up", &link.up);
        file.elements("down", &link.down);
    }

    fn flow(&self, file: &mut File, flow: &FlowPlan) {
        file.table("flow");
        file.text("name", &flow.name);
        file.text("from", &self.host(flow.from).name);
        file.text("to", &self.host(flow.to).name);
        if flow.opens != flow.from {
            file.text("opens", &self.host(flow.opens).name);
        }
        if flow.transport.modelled().is_some() {
            file.words("transport", flow.transport);
        } else {
            file.words("cc", &flow.cc);
            if !flow.spin.is_default() {
                file.words("spin", flow.spin);
            }
            let usual = match flow.transport {
                Transport::Quic => EcnMode::Classic,
                Transport::Tcp | Transport::Modelled(_) => needed_ecn(&flow.cc),
            };
            file.unless(flow.ecn == usual)
                .text("ecn", ecn_mode_word(flow.ecn));
        }
        if flow.dscp != 0 {
            file.plain("dscp", flow.dscp);
        }
        // A flow that gives no start would begin a little later.
        if !flow.start_offset && flow.start == Instant::ZERO {
            file.words("start", flow.start);
        }
        file.span(flow.start, flow.stop);
        match flow.traffic {
            Traffic::Bulk => {}
            Traffic::Bytes(bytes) => file.words("bytes", Bytes::new(bytes)),
            other => file.words("traffic", other),
        }
        if flow.ip == IpVersion::V6 {
            file.plain("ip", 6);
        }
        if flow.fast_open {
            file.plain("fast_open", true);
        }
        // Flows that are not over TCP may not say it.
        let switches = match flow.transport {
            Transport::Tcp => model::write(&flow.host),
            Transport::Quic | Transport::Modelled(_) => Vec::new(),
        };
        if !switches.is_empty() {
            let switches: Vec<String> =
                switches.iter().map(|(k, v)| format!("{k} = {v}")).collect();
            file.plain("host_model", format!("{{ {} }}", switches.join(", ")));
        }
    }

    fn mark(&self, file: &mut File, mark: &MarkPlan) {
        file.table("mark");
        file.text("name", &mark.name);
        file.words("signals", mark.signals);
        let flows = mark.flows.iter().map(|f| &self.flows[f.0 as usize].name);
        file.plain("flows", list(flows));
        let hosts = mark.hosts.iter().map(|h| &self.host(*h).name);
        file.plain("hosts", list(hosts));
    }

    fn probe(&self, file: &mut File, probe: &ProbePlan) {
        file.table("probe");
        file.text("name", &probe.name);
        file.text("from", &self.host(probe.from).name);
        file.text("to", &self.host(probe.to).name);
        if probe.interval != watch::DEFAULT_INTERVAL {
            file.words("interval", probe.interval);
        }
        if probe.size != watch::DEFAULT_PROBE {
            file.plain("size", probe.size);
        }
        if probe.dscp != 0 {
            file.plain("dscp", probe.dscp);
        }
        file.text("ecn", codepoint_word(probe.ecn));
        file.span(probe.start, probe.stop);
    }
}

struct File(String);

impl File {
    /// What is written next is a comment if it is as `usual`.
    fn unless(&mut self, usual: bool) -> &mut Self {
        if usual {
            self.0.push_str("# ");
        }
        self
    }

    fn plain(&mut self, key: &str, value: impl std::fmt::Display) {
        writeln!(self.0, "{key:<8} = {value}").ok();
    }

    fn text(&mut self, key: &str, value: &str) {
        self.plain(key, quoted(value));
    }

    fn words(&mut self, key: &str, value: impl std::fmt::Display) {
        self.text(key, &value.to_string());
    }

    fn table(&mut self, kind: &str) {
        writeln!(self.0, "\n[[{kind}]]").ok();
    }

    fn observer(&mut self, observer: &ObserverPlan) {
        self.table("observe");
        self.text("name", &observer.name);
        self.text("tap", &observer.tap);
        if observer.thesis {
            self.text("mode", "thesis");
        }
        if let Some(profile) = observer.profile {
            self.words("profile", profile);
        }
        if observer.negotiated {
            self.plain("negotiated", true);
        }
        if let Some(t_max) = observer.t_max {
            self.words("t_max", t_max);
        }
        if let Some(block) = observer.block {
            self.plain("block", block);
        }
        if let Some(packets) = observer.reordering {
            self.plain("reordering", packets);
        }
        if !observer.techniques.is_empty() {
            self.plain("techniques", list(observer.techniques.iter()));
        }
    }

    fn span(&mut self, start: Instant, stop: Option<Instant>) {
        if start.since(Instant::ZERO) != Duration::ZERO {
            self.words("start", start);
        }
        if let Some(stop) = stop {
            self.words("stop", stop);
        }
    }

    fn elements(&mut self, direction: &str, elements: &[NamedElement]) {
        let words: Vec<String> = elements
            .iter()
            .map(|e| match &e.spec {
                ElementSpec::Tap(_) => quoted(&e.spec.to_string()),
                spec => quoted(&format!("{}: {spec}", e.short_name())),
            })
            .collect();
        if !words.is_empty() {
            self.plain(direction, format!("[{}]", words.join(", ")));
        }
    }
}

/// A TOML list of strings.
fn list<'n>(names: impl Iterator<Item = &'n String>) -> String {
    let names: Vec<String> = names.map(|name| quoted(name)).collect();
    format!("[{}]", names.join(", "))
}

/// A TOML string.
fn quoted(text: &str) -> String {
    toml::Value::String(text.to_owned()).to_string()
}
