//! A plan's topology as text.

use std::fmt::Write;

use crate::plan::{FlowPlan, NamedElement, Plan, ecn_mode_word};
use crate::transport::Transport;

impl Plan {
    /// Hosts, links with their elements in order of travel, flows, applications and probes,
    /// a line each.
    pub fn drawing(&self) -> String {
        let mut text = String::new();
        let end = |index| self.host(index).name.as_str();
        for link in &self.links {
            let (a, b) = (end(link.ends.0), end(link.ends.1));
            writeln!(text, "link {}", link.name).ok();
            let (up, down) = (chain(&link.up), chain(&link.down));
            if up == down {
                writeln!(text, "  {a} <-> {b}   each way: {up}").ok();
            } else {
                writeln!(text, "  {a} --> {b}   {up}").ok();
                writeln!(text, "  {a} <-- {b}   {down}").ok();
            }
        }
        for proxy in &self.proxies {
            writeln!(text, "proxy {}", proxy.name).ok();
            let (near, far) = (&proxy.near.cc, &proxy.far.cc);
            writeln!(text, "  at {}   near {near}, far {far}", end(proxy.host)).ok();
        }
        for flow in &self.flows {
            let (from, to) = (end(flow.from), end(flow.to));
            writeln!(text, "flow {}", flow.name).ok();
            write!(text, "  {from} --> {to}   {}", flow_words(flow)).ok();
            match flow.via {
                Some(via) => writeln!(text, ", via {}", self.proxies[via.proxy].name).ok(),
                None => writeln!(text).ok(),
            };
        }
        for app in &self.apps {
            let (from, to) = (end(app.from), end(app.to));
            writeln!(text, "app {}", app.name).ok();
            let control = sent_by(&app.transport);
            writeln!(text, "  {from} <-> {to}   {}, {control}", app.spec).ok();
        }
        for probe in &self.probes {
            let (from, to) = (end(probe.from), end(probe.to));
            writeln!(text, "probe {}", probe.name).ok();
            writeln!(
                text,
                "  {from} <-> {to}   {} bytes each {}",
                probe.size, probe.interval
            )
            .ok();
        }
        for change in &self.changes {
            writeln!(text, "at {}", change.at).ok();
            writeln!(text, "  {}   {}", change.target, change.words).ok();
        }
        text
    }
}

fn chain(elements: &[NamedElement]) -> String {
    if elements.is_empty() {
        return "a plain wire".to_owned();
    }
    let boxes: Vec<String> = elements
        .iter()
        .map(|e| {
            let words = e.spec.to_string();
            let kind = words.split(' ').next().unwrap_or("");
            match e.short_name() {
                name if name == kind || e.name.starts_with("tap/") => format!("[{words}]"),
                name => format!("[{name}: {words}]"),
            }
        })
        .collect();
    boxes.join(" ")
}

/// What decides how fast it is sent, or that plain datagrams go, when they are due.
fn sent_by(transport: &Transport) -> String {
    match transport {
        Transport::Datagrams => "datagrams".to_owned(),
        other => other.control_words(),
    }
}

fn flow_words(flow: &FlowPlan) -> String {
    let mut words = format!(
        "{}, {}, ECN {}",
        sent_by(&flow.transport),
        flow.traffic,
        ecn_mode_word(flow.transport.ecn())
    );
    if flow.dscp != 0 {
        write!(words, ", DSCP {}", flow.dscp).ok();
    }
    if flow.start.as_nanos() != 0 {
        write!(words, ", from {}", flow.start).ok();
    }
    if let Some(stop) = flow.stop {
        write!(words, ", until {stop}").ok();
    }
    words
}
