//! What is up, as text.

use std::fmt::Write;
use std::fs;

use narrows::up::{
    ChangeMade, Condition, ElementFigures, ElementRecord, Figures, Found, HostRecord, LinkFigures,
    LinkRecord, Record, WayFigures,
};

/// How it was built.
pub fn built(record: &Record) -> String {
    let mut text = format!("{} is up: {}\n\n", record.name, record.scenario);
    hosts(&mut text, record, None);
    for link in &record.links {
        of_link(&mut text, link, None, &[]);
    }
    if let Some(host) = record.hosts.first() {
        let name = &host.full_name;
        let _ = write!(
            text,
            "\n`narrows enter {name} -- CMD` runs a program there, `narrows down {}` takes it \
             all down\n",
            record.name
        );
    }
    text
}

/// How it is now.
pub fn status(found: &Found) -> String {
    let name = &found.name;
    let holder = found.holder.as_ref();
    let pid = holder.map_or(String::new(), |holder| {
        format!(", held by process {}", holder.pid)
    });
    let record = match (found.condition, &found.record) {
        (Condition::Up, Some(record)) => record,
        (Condition::Killed, _) => {
            return format!(
                "{name}: no process holds it any more; `narrows down {name}` removes what is left\n"
            );
        }
        (Condition::Lost, _) => {
            return format!(
                "{name}: its folder was removed{pid}; `narrows down {name}` takes it down\n"
            );
        }
        _ => return format!("{name}: being built or taken down{pid}\n"),
    };
    let figures = found.figures.as_ref();
    let mut text = match figures {
        Some(figures) => format!(
            "{name}: up for {}{pid}, {}\n\n",
            age(figures),
            record.scenario
        ),
        None => format!("{name}: up{pid}, which does not answer\n\n"),
    };
    hosts(&mut text, record, figures);
    for (i, link) in record.links.iter().enumerate() {
        let changes = figures.map_or(&[][..], |f| &f.changes);
        of_link(
            &mut text,
            link,
            figures.and_then(|f| f.links.get(i)),
            changes,
        );
    }
    text
}

fn age(figures: &Figures) -> String {
    let seconds = figures.up_s as u64;
    match (seconds / 3600, seconds / 60 % 60, seconds % 60) {
        (0, 0, s) => format!("{s} s"),
        (0, m, s) => format!("{m} min {s} s"),
        (h, m, _) => format!("{h} h {m} min"),
    }
}

fn hosts(text: &mut String, record: &Record, figures: Option<&Figures>) {
    let addresses = |host: &HostRecord| {
        let ipv6 = host.ipv6.map_or(String::new(), |six| format!(", {six}"));
        format!("{}{ipv6}", host.ipv4)
    };
    let widest = |of: &dyn Fn(&HostRecord) -> usize| record.hosts.iter().map(of).max().unwrap_or(0);
    let full = widest(&|h| h.full_name.len());
    let wide = widest(&|h| addresses(h).len());
    for host in &record.hosts {
        let kind = if host.router { "router" } else { "host" };
        let of_host = figures.and_then(|f| f.hosts.iter().find(|h| h.name == host.name));
        let programs = of_host.map_or(String::new(), |h| programs(&h.pids));
        let line = format!(
            "{kind:<6}  {:<full$}  {:<wide$}  {programs}",
            host.full_name,
            addresses(host)
        );
        let _ = writeln!(text, "{}", line.trim_end());
    }
}

/// The programs with these numbers.
fn programs(pids: &[i32]) -> String {
    let name = |pid: &i32| {
        let name = fs::read_to_string(format!("/proc/{pid}/comm")).unwrap_or_default();
        // What another user's program calls itself may be anything.
        let name: String = name
            .trim_end()
            .chars()
            .filter(|c| !c.is_control())
            .collect();
        format!("{pid} ({name})")
    };
    pids.iter().map(name).collect::<Vec<_>>().join(", ")
}

fn of_link(
    text: &mut String,
    link: &LinkRecord,
    figures: Option<&LinkFigures>,
    changes: &[ChangeMade],
) {
    let [first, second] = &link.ends;
    let kernel = if link.kernel { ", by the kernel" } else { "" };
    let drops = figures.map_or(0, |f| f.drops);
    let dropped = match drops {
        0 => String::new(),
        n => format!(", {n} packets dropped by the link itself"),
    };
    let _ = writeln!(
        text,
        "\nlink {}: {} ({}) to {} ({}), MTU {}{kernel}{dropped}",
        link.name, first.host, first.device, second.host, second.device, link.mtu
    );
    for (way, elements, passed) in [
        ("up", &link.up, figures.map(|f| &f.up)),
        ("down", &link.down, figures.map(|f| &f.down)),
    ] {
        let sent = passed.map_or(String::new(), of_way);
        let _ = writeln!(text, "{}", format!("  {way:<4}  {sent}").trim_end());
        for element in elements {
            let of_element =
                passed.and_then(|p| p.elements.iter().find(|e| e.name == element.name));
            let _ = writeln!(
                text,
                "    {}{}{}",
                words(element),
                changed(element, changes),
                of_element.map_or_else(String::new, did)
            );
        }
    }
}

/// An element as the file spells it.
fn words(element: &ElementRecord) -> String {
    match element.name.rsplit('/').next() {
        Some(name) if !element.words.starts_with(name) => format!("{name}: {}", element.words),
        _ => element.words.clone(),
    }
}

/// What has been changed of an element since it was built.
fn changed(element: &ElementRecord, changes: &[ChangeMade]) -> String {
    let of_element = changes.iter().filter(|c| c.element == element.name);
    let said = of_element.map(|c| format!(", since {:.1} s {}", c.at_s, c.words));
    said.collect()
}

fn of_way(way: &WayFigures) -> String {
    format!(
        "sent {} packets ({} bytes), arrived {} ({})",
        way.sent.packets, way.sent.bytes, way.arrived.packets, way.arrived.bytes
    )
}

/// What an element did; nothing where it did nothing to be counted.
fn did(element: &ElementFigures) -> String {
    let mut all = Vec::new();
    let mut count = |n: u64, what: &str| {
        if n > 0 {
            all.push(format!("{n} {what}"));
        }
    };
    count(element.packets, "passed");
    count(element.marks.unwrap_or(0), "marked");
    count(element.drops, "dropped");
    if let (Some(mean), Some(max)) = (element.sojourn_mean_ms, element.sojourn_max_ms) {
        all.push(format!(
            "sojourn {mean:.2} ms on average, {max:.2} ms at most"
        ));
    }
    match all.is_empty() {
        true => String::new(),
        false => format!("  [{}]", all.join(", ")),
    }
}
