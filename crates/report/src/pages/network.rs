//! The whole network in one drawing: hosts, routers and the links between them. What a link is
//! made of is drawn below it, link by link.

use std::collections::BTreeMap;

use maud::{Markup, html};
use narrows_results::summary::{Topology, TopologyLink};

use super::topology::{HOST, clip, host};

/// Hosts of more are no picture; the drawings of the links name theirs.
const MOST: usize = 30;
/// Height of a host.
const TALL: f64 = 40.0;
/// Room between two columns of hosts, for the names of links.
const APART: f64 = 150.0;
/// Letters of a link's name and rate that fit there.
const LETTERS: usize = 21;
/// Room around everything.
const EDGE: f64 = 4.0;

/// Where each host stands: its place along the way, and its place beside others there.
#[derive(Debug, PartialEq, Eq)]
struct Layers<'a>(Vec<Vec<&'a str>>);

impl<'a> Layers<'a> {
    /// A link's first end stands before its second one, if its other links allow.
    fn of(topology: &'a Topology) -> Self {
        let mut at: BTreeMap<&str, i64> = BTreeMap::new();
        let mut order: Vec<&str> = Vec::new();
        let mut left: Vec<&TopologyLink> = topology.links.iter().collect();
        while !left.is_empty() {
            let known = |link: &&TopologyLink| {
                let (a, b) = &link.ends;
                at.contains_key(a.as_str()) || at.contains_key(b.as_str())
            };
            // A part of the network that nothing joins to the rest begins anew.
            let next = left.iter().position(known).unwrap_or(0);
            let (a, b) = &left.remove(next).ends;
            for end in [a, b] {
                if !order.contains(&end.as_str()) {
                    order.push(end);
                }
            }
            match (at.get(a.as_str()).copied(), at.get(b.as_str()).copied()) {
                (Some(_), Some(_)) => {}
                (None, Some(after)) => drop(at.insert(a, after - 1)),
                (before, None) => {
                    let before = *at.entry(a).or_insert(before.unwrap_or(0));
                    at.insert(b, before + 1);
                }
            }
        }
        let first = at.values().min().copied().unwrap_or(0);
        let mut layers = Vec::new();
        for host in order {
            let layer = (at[host] - first) as usize;
            if layers.len() <= layer {
                layers.resize(layer + 1, Vec::new());
            }
            layers[layer].push(host);
        }
        Self(layers)
    }

    fn widest(&self) -> usize {
        self.0.iter().map(Vec::len).max().unwrap_or(0)
    }

    /// The middle of each host: along the way and across it, in steps of one, where each
    /// layer stands in the middle of the widest one.
    fn middles(&self) -> BTreeMap<&'a str, (f64, f64)> {
        let mut middles = BTreeMap::new();
        for (along, layer) in self.0.iter().enumerate() {
            let free = (self.widest() - layer.len()) as f64 / 2.0;
            for (across, host) in layer.iter().enumerate() {
                middles.insert(*host, (along as f64, across as f64 + free));
            }
        }
        middles
    }
}

/// What stands beside a link: its name, and the rate that it has on its way up.
fn label(link: &TopologyLink) -> String {
    let rates = link.up.iter().chain(&link.down).filter_map(|element| {
        let mut words = element.words.split_whitespace();
        words.find(|word| *word == "rate").and(words.next())
    });
    match rates.into_iter().next() {
        Some(rate) => clip(&format!("{}, {rate}", link.name), LETTERS),
        None => clip(&link.name, LETTERS),
    }
}

/// One drawing for wide screens and paper, one for narrow screens; nothing where there is but
/// one link, or where there are too many hosts.
pub(super) fn draw(topology: &Topology) -> Markup {
    let layers = Layers::of(topology);
    let hosts: usize = layers.0.iter().map(Vec::len).sum();
    if topology.links.len() < 2 || hosts > MOST {
        return html! {};
    }
    html! {
        figure {
            figcaption { h3 { "the whole network" } }
            (drawing(topology, &layers, "wide", Way::Across))
            (drawing(topology, &layers, "narrow", Way::Down))
        }
    }
}

/// Which way data travels in a drawing.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Way {
    Across,
    Down,
}

fn drawing(topology: &Topology, layers: &Layers<'_>, class: &str, way: Way) -> Markup {
    let (along, across) = match way {
        Way::Across => (HOST + APART, TALL + 24.0),
        Way::Down => (TALL + 40.0, HOST + 14.0),
    };
    let deep = (layers.0.len() - 1) as f64 * along;
    let wide = (layers.widest() - 1) as f64 * across;
    let (width, height) = match way {
        Way::Across => (
            (deep + HOST + 2.0 * EDGE).max(860.0),
            wide + TALL + 2.0 * EDGE,
        ),
        Way::Down => (
            (wide + HOST + 2.0 * EDGE).max(368.0),
            deep + TALL + 2.0 * EDGE,
        ),
    };
    let middles = layers.middles();
    let place = |host: &str| {
        let (a, b) = middles.get(host).copied().unwrap_or_default();
        let (a, b) = (a * along, b * across);
        match way {
            Way::Across => ((width - deep) / 2.0 + a, EDGE + TALL / 2.0 + b),
            Way::Down => ((width - wide) / 2.0 + b, EDGE + TALL / 2.0 + a),
        }
    };
    let names: Vec<String> = topology.links.iter().map(label).collect();
    html! {
        svg class=(class) viewBox=(format!("0 0 {width} {height}")) role="img"
            aria-label=(format!("{} hosts and routers, joined by {}.", middles.len(), names.join("; "))) {
            @for link in &topology.links {
                @let (from, to) = (place(&link.ends.0), place(&link.ends.1));
                line.wire x1=(from.0) y1=(from.1) x2=(to.0) y2=(to.1) {}
            }
            @for name in middles.keys() {
                @let (x, y) = place(name);
                (host(topology, name, x - HOST / 2.0, y - TALL / 2.0, TALL))
            }
            @for (link, name) in topology.links.iter().zip(&names) {
                @let (from, to) = (place(&link.ends.0), place(&link.ends.1));
                text.link-name x=((from.0 + to.0) / 2.0) y=((from.1 + to.1) / 2.0 + 4.0)
                    text-anchor="middle" font-size="11" { (name) }
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use narrows_results::summary::{TopologyElement, TopologyHost};

    fn network(links: &[(&str, &str, &str)]) -> Topology {
        let element = TopologyElement {
            name: "link/x/up/bottleneck".to_owned(),
            words: "rate 100Mbit queue dualpi2".to_owned(),
        };
        let host = |name: &str| TopologyHost {
            name: name.to_owned(),
            router: name.starts_with('r'),
        };
        let links = links.iter().map(|(name, a, b)| TopologyLink {
            name: (*name).to_owned(),
            ends: ((*a).to_owned(), (*b).to_owned()),
            up: vec![element.clone()],
            ..TopologyLink::default()
        });
        Topology {
            hosts: ["a", "b", "r1", "r2", "c", "d"].map(host).to_vec(),
            links: links.collect(),
            ..Topology::default()
        }
    }

    /// Two senders, two routers, two receivers.
    fn dumbbell() -> Topology {
        network(&[
            ("middle", "r1", "r2"),
            ("one", "a", "r1"),
            ("two", "b", "r1"),
            ("three", "r2", "c"),
            ("four", "r2", "d"),
        ])
    }

    #[test]
    fn hosts_stand_in_the_order_of_the_way() {
        let topology = dumbbell();
        let layers = Layers::of(&topology);
        let expected = vec![vec!["a", "b"], vec!["r1"], vec!["r2"], vec!["c", "d"]];
        assert_eq!(layers.0, expected);
        // A router stands in the middle of two hosts.
        assert_eq!(layers.middles()["r1"], (1.0, 0.5));
        // Parts that nothing joins, and a ring, are drawn too.
        let apart = network(&[("x", "a", "b"), ("y", "c", "d")]);
        assert_eq!(Layers::of(&apart).0, [vec!["a", "c"], vec!["b", "d"]]);
        let ring = network(&[("x", "a", "b"), ("y", "b", "c"), ("z", "c", "a")]);
        assert_eq!(Layers::of(&ring).0.len(), 3);
    }

    #[test]
    fn several_links_are_one_drawing_and_one_link_needs_none() {
        let page = draw(&dumbbell()).into_string();
        for text in ["middle, 100Mbit", "four, 100Mbit", ">r1<", ">d<"] {
            assert_eq!(
                page.matches(text).count() % 2,
                0,
                "{text}, in both drawings"
            );
            assert!(page.contains(text), "{text}");
        }
        assert_eq!(draw(&network(&[("one", "a", "b")])).into_string(), "");
    }

    #[test]
    fn every_label_lies_inside_the_view_box() {
        let number = |text: &str, key: &str| -> f64 {
            let rest = text.split(&format!("{key}=\"")).nth(1).unwrap();
            rest.split('"').next().unwrap().parse().unwrap()
        };
        let mut long = dumbbell();
        long.links[0].name = "a-link-with-a-very-long-name-indeed".to_owned();
        for drawn in draw(&long).into_string().split("<svg").skip(1) {
            let view = drawn.split("viewBox=\"0 0 ").nth(1).unwrap();
            let view: Vec<f64> = view
                .split('"')
                .next()
                .unwrap()
                .split(' ')
                .map(|n| n.parse().unwrap())
                .collect();
            let mut texts = 0;
            for text in drawn.split("<text").skip(1) {
                let words = text.split('>').nth(1).unwrap().split('<').next().unwrap();
                let size = number(text, "font-size");
                // The mean letter of a sans-serif face is some 0.55 of its size wide.
                let half = words.chars().count() as f64 * size * 0.55 / 2.0;
                let (x, y) = (number(text, " x"), number(text, " y"));
                assert!(
                    x - half >= 0.0 && x + half <= view[0],
                    "{words} at {x} of {view:?}"
                );
                assert!(y >= size && y <= view[1], "{words} at {y} of {view:?}");
                texts += 1;
            }
            assert_eq!(texts, 2 * 6 + 5);
        }
    }
}
