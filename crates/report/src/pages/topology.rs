//! The path drawn: hosts, links, and the elements of each direction in the
//! order of travel; once across for wide screens, once down for narrow ones.

use maud::{Markup, html};
use narrows_results::summary::{Topology, TopologyElement, TopologyLink};
use narrows_results::text::seconds;

use super::{network, split};

/// Characters of an element's words per line inside its box.
const LINE: usize = 24;
/// Height of a line of words.
const LEADING: f64 = 15.0;
/// Width of a box.
const BOX: f64 = 178.0;
/// Width of a host.
pub(super) const HOST: f64 = 104.0;
/// Room for an arrow between boxes.
const GAP: f64 = 30.0;

/// Each link that has elements as a drawing, the others by name.
pub fn draw(topology: &Topology) -> Markup {
    let (bare, links): (Vec<_>, Vec<_>) = topology
        .links
        .iter()
        .partition(|link| link.up.is_empty() && link.down.is_empty());
    // One link needs no name, and the only one is drawn even if it is bare.
    let (bare, links) = match links.is_empty() {
        true => (links, bare),
        false => (bare, links),
    };
    html! {
        div.topology {
            (network::draw(topology))
            @for link in &links {
                figure {
                    @if topology.links.len() > 1 { figcaption { h3 { "link/" (link.name) } } }
                    (across(topology, link))
                    (down(topology, link))
                }
            }
            (split::draw(topology))
            @if !bare.is_empty() {
                p.note { "Links without delay, limit or loss: "
                    @for (index, link) in bare.iter().enumerate() {
                        @if index > 0 { ", " }
                        (link.name) " (" (link.ends.0) " – " (link.ends.1) ")"
                    } "." }
            }
            @if !topology.changes.is_empty() {
                p.note { "Changes during the run:" }
                ul { @for (at, element, words) in &topology.changes {
                    li { "at " (seconds(*at)) " s, " code { (element) } " becomes " code { (words) } }
                } }
            }
        }
    }
}

/// What the drawing says, in words.
fn sentence(link: &TopologyLink) -> String {
    let lane = |elements: &[TopologyElement]| match elements {
        [] => "no element".to_owned(),
        _ => elements
            .iter()
            .map(|e| e.words.as_str())
            .collect::<Vec<_>>()
            .join(", then "),
    };
    let (a, b) = &link.ends;
    format!(
        "Link {}: from {a} to {b} {}; from {b} to {a} {}.",
        link.name,
        lane(&link.up),
        lane(&link.down)
    )
}

/// Breaks words into lines of at most [`LINE`] characters where it can.
fn lines(words: &str) -> Vec<String> {
    let mut lines: Vec<String> = vec![String::new()];
    for word in words.split_whitespace() {
        let line = lines.last_mut().expect("there is always a line");
        if !line.is_empty() && line.chars().count() + 1 + word.chars().count() > LINE {
            lines.push(word.to_owned());
        } else {
            if !line.is_empty() {
                line.push(' ');
            }
            line.push_str(word);
        }
    }
    lines
}

/// An element's own name, without the link and direction.
fn own_name(name: &str) -> &str {
    name.splitn(4, '/').nth(3).unwrap_or(name)
}

fn is_queue(element: &TopologyElement) -> bool {
    element.words.split_whitespace().any(|word| word == "queue")
}

fn height(element: &TopologyElement) -> f64 {
    26.0 + LEADING * lines(&element.words).len() as f64
}

/// One element at its upper left corner.
fn element(element: &TopologyElement, x: f64, y: f64) -> Markup {
    let queue = is_queue(element);
    html! {
        g {
            title { (element.name) ": " (element.words) }
            rect.queue[queue].box[!queue] x=(x) y=(y) width=(BOX) height=(height(element)) rx="4" {}
            // A queue shows packets that wait.
            @if queue { @for slot in 0..4 {
                rect.slot x=(x + BOX - 14.0 - 8.0 * f64::from(slot)) y=(y + 7.0)
                    width="5" height="10" rx="1" opacity=(1.0 - 0.2 * f64::from(slot)) {}
            } }
            text x=(x + 9.0) y=(y + 16.0) font-size="12" font-weight="600" { (clip(own_name(&element.name), if queue { 16 } else { 21 })) }
            @for (index, line) in lines(&element.words).iter().enumerate() {
                text.words x=(x + 9.0) y=(y + 33.0 + LEADING * index as f64) font-size="11" { (line) }
            }
        }
    }
}

/// A host or router as a box.
pub(super) fn host(topology: &Topology, name: &str, x: f64, y: f64, height: f64) -> Markup {
    let router = topology.hosts.iter().any(|h| h.name == name && h.router);
    html! {
        rect.host x=(x) y=(y) width=(HOST) height=(height) rx=(if router { "14" } else { "4" }) {}
        text x=(x + HOST / 2.0) y=(y + height / 2.0 + 1.0) text-anchor="middle" font-size="13"
            font-weight="600" { (clip(name, 13)) }
        text.lane x=(x + HOST / 2.0) y=(y + height / 2.0 + 15.0) text-anchor="middle" font-size="10" {
            (if router { "router" } else { "host" })
        }
    }
}

/// At most so many characters.
pub(super) fn clip(text: &str, most: usize) -> String {
    if text.chars().count() <= most {
        text.to_owned()
    } else {
        text.chars().take(most - 1).chain(['…']).collect()
    }
}

/// A wire with a tip at its end.
pub(super) fn arrow(from: (f64, f64), to: (f64, f64)) -> Markup {
    let (dx, dy) = ((to.0 - from.0).signum(), (to.1 - from.1).signum());
    let (dx, dy) = if from.0 == to.0 { (0.0, dy) } else { (dx, 0.0) };
    let back = (to.0 - 7.0 * dx, to.1 - 7.0 * dy);
    let tip = format!(
        "{},{} {},{} {},{}",
        to.0,
        to.1,
        back.0 + 4.0 * dy,
        back.1 + 4.0 * dx,
        back.0 - 4.0 * dy,
        back.1 - 4.0 * dx
    );
    html! {
        line.wire x1=(from.0) y1=(from.1) x2=(back.0) y2=(back.1) {}
        polygon.tip points=(tip) {}
    }
}

/// The link from left to right: up above, down below.
fn across(topology: &Topology, link: &TopologyLink) -> Markup {
    let most = link.up.len().max(link.down.len()).max(1) as f64;
    let lane = most * BOX + (most + 1.0) * GAP;
    // Short links keep the size of text that longer ones have.
    let width = (2.0 * HOST + lane + 4.0).max(860.0);
    let (left, right) = (HOST + 2.0, width - HOST - 2.0);
    let tall = |lane: &[TopologyElement]| lane.iter().map(height).fold(34.0, f64::max);
    let (up, down) = (tall(&link.up), tall(&link.down));
    let total = 20.0 + up + 34.0 + down + 6.0;
    let (a, b) = &link.ends;
    html! {
        svg.wide viewBox=(format!("0 0 {width} {total}")) role="img" aria-label=(sentence(link)) {
            (host(topology, a, 2.0, 20.0, total - 26.0))
            (host(topology, b, right, 20.0, total - 26.0))
            text.lane x=(width / 2.0) y="11" text-anchor="middle" font-size="11" {
                "up: " (a) " → " (b)
            }
            (row(&link.up, left, right, 20.0, up, true))
            text.lane x=(width / 2.0) y=(20.0 + up + 25.0) text-anchor="middle" font-size="11" {
                "down: " (b) " → " (a)
            }
            (row(&link.down, left, right, 54.0 + up, down, false))
        }
    }
}

/// The elements of one direction between two hosts, with arrows.
fn row(lane: &[TopologyElement], left: f64, right: f64, y: f64, tall: f64, up: bool) -> Markup {
    let middle = y + tall / 2.0;
    let count = lane.len() as f64;
    let gap = (right - left - count * BOX) / (count + 1.0);
    let at = |index: usize| left + gap + (BOX + gap) * index as f64;
    // In travel order from the right, the first element is rightmost.
    let order: Vec<&TopologyElement> = match up {
        true => lane.iter().collect(),
        false => lane.iter().rev().collect(),
    };
    html! {
        @for (index, item) in order.iter().enumerate() {
            (element(item, at(index), middle - height(item) / 2.0))
        }
        @for index in 0..=order.len() {
            @let from = if index == 0 { left } else { at(index - 1) + BOX };
            @let to = if index == order.len() { right } else { at(index) };
            @if up { (arrow((from + 2.0, middle), (to - 2.0, middle))) }
            @else { (arrow((to - 2.0, middle), (from + 2.0, middle))) }
        }
    }
}

/// The link from top to bottom: up on the left, down on the right.
fn down(topology: &Topology, link: &TopologyLink) -> Markup {
    let width = 2.0 * BOX + 12.0;
    let length = |lane: &[TopologyElement]| lane.iter().map(|e| height(e) + GAP).sum::<f64>() + GAP;
    let lane = length(&link.up).max(length(&link.down));
    let total = 76.0 + lane;
    let (top, bottom) = (38.0, 38.0 + lane);
    let (a, b) = &link.ends;
    let middle = width / 2.0 - HOST / 2.0;
    let columns = [(&link.up, 1.0, true), (&link.down, BOX + 11.0, false)];
    html! {
        svg.narrow viewBox=(format!("0 0 {width} {total}")) role="img" aria-label=(sentence(link)) {
            rect.host x="1" y="1" width=(width - 2.0) height="36" rx="4" {}
            rect.host x="1" y=(bottom) width=(width - 2.0) height="36" rx="4" {}
            (host_name(topology, a, middle + HOST / 2.0, 23.0))
            (host_name(topology, b, middle + HOST / 2.0, bottom + 23.0))
            @for (elements, x, up) in columns { (column(elements, x, top, bottom, up)) }
        }
    }
}

fn host_name(topology: &Topology, name: &str, x: f64, y: f64) -> Markup {
    let router = topology.hosts.iter().any(|h| h.name == name && h.router);
    let suffix = if router { " (router)" } else { "" };
    html! {
        text x=(x) y=(y) text-anchor="middle" font-size="13" font-weight="600" {
            (clip(name, 30)) (suffix)
        }
    }
}

fn column(lane: &[TopologyElement], x: f64, top: f64, bottom: f64, up: bool) -> Markup {
    let order: Vec<&TopologyElement> = match up {
        true => lane.iter().collect(),
        false => lane.iter().rev().collect(),
    };
    let tall: f64 = order.iter().map(|e| height(e)).sum();
    let gap = (bottom - top - tall) / (order.len() as f64 + 1.0);
    let mut y = top;
    let mut edges = vec![top];
    let mut places = Vec::new();
    for item in &order {
        y += gap;
        edges.push(y);
        places.push(y);
        y += height(item);
        edges.push(y);
    }
    edges.push(bottom);
    let middle = x + BOX / 2.0;
    html! {
        @for (item, y) in order.iter().zip(places) { (element(item, x, y)) }
        @for pair in edges.chunks(2) {
            @if up { (arrow((middle, pair[0] + 2.0), (middle, pair[1] - 2.0))) }
            @else { (arrow((middle, pair[1] - 2.0), (middle, pair[0] + 2.0))) }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn words_break_between_and_never_within() {
        let broken = lines("rate 50Mbit overhead 14 queue fq_codel flows 1 target 1ms");
        assert!(broken.len() > 1);
        assert_eq!(
            broken.join(" "),
            "rate 50Mbit overhead 14 queue fq_codel flows 1 target 1ms"
        );
        assert!(broken.iter().all(|line| line.len() <= LINE));
    }

    #[test]
    fn a_name_inside_a_link_is_short() {
        assert_eq!(own_name("link/access/up/bottleneck"), "bottleneck");
    }
}
