//! Flows by proxies drawn: who sends, the proxy at its host, who receives, and the two
//! connections between them.

use std::collections::BTreeMap;

use maud::{Markup, html};
use narrows_results::summary::{Topology, TopologySplit};

use super::topology::{HOST, arrow, clip, host};

/// Width of the drawing.
const WIDTH: f64 = 860.0;
/// Width of a proxy.
const PROXY: f64 = 140.0;
/// Height of a row.
const ROW: f64 = 66.0;
/// Height of a box.
const TALL: f64 = 46.0;

/// Flows that go alike, by the first of them.
type Alike<'a> = Vec<(&'a TopologySplit, Vec<&'a str>)>;

fn alike(topology: &Topology) -> Alike<'_> {
    let mut rows: Alike<'_> = Vec::new();
    let mut places = BTreeMap::new();
    for split in &topology.splits {
        let way = (&split.proxy, &split.hosts, &split.controls);
        let place = *places.entry(way).or_insert(rows.len());
        match rows.get_mut(place) {
            Some((_, flows)) => flows.push(&split.flow),
            None => rows.push((split, vec![&split.flow])),
        }
    }
    rows
}

/// A row for all flows that go alike; nothing where none goes by a proxy.
pub fn draw(topology: &Topology) -> Markup {
    let rows = alike(topology);
    html! {
        @if !rows.is_empty() {
            figure {
                figcaption { h3 { "Flows by proxies: two connections each" } }
                svg.wide viewBox=(format!("0 0 {WIDTH} {}", ROW * rows.len() as f64)) role="img"
                    aria-label=(rows.iter().map(sentence).collect::<Vec<_>>().join(" ")) {
                    @for (index, row) in rows.iter().enumerate() {
                        (across(topology, row, ROW * index as f64 + 10.0))
                    }
                }
                div.narrow { @for row in &rows { p { (sentence(row)) } } }
            }
        }
    }
}

/// What a row says, in words.
fn sentence((split, flows): &(&TopologySplit, Vec<&str>)) -> String {
    let [from, at, to] = &split.hosts;
    let [first, second] = &split.controls;
    format!(
        "{}: from {from} to the proxy {} at {at} by {first}, and from there to {to} by {second}.",
        flows.join(", "),
        split.proxy
    )
}

fn across(topology: &Topology, (split, flows): &(&TopologySplit, Vec<&str>), y: f64) -> Markup {
    let [from, at, to] = &split.hosts;
    let (left, right) = (2.0, WIDTH - HOST - 2.0);
    let proxy = (WIDTH - PROXY) / 2.0;
    let middle = y + TALL / 2.0;
    let legs = [(left + HOST, proxy), (proxy + PROXY, right)];
    html! {
        (host(topology, from, left, y, TALL))
        (host(topology, to, right, y, TALL))
        g {
            title { "proxy/" (split.proxy) " at " (at) }
            rect.queue x=(proxy) y=(y) width=(PROXY) height=(TALL) rx="4" {}
            text x=(WIDTH / 2.0) y=(middle - 2.0) text-anchor="middle" font-size="13"
                font-weight="600" { (clip(&split.proxy, 16)) }
            text.lane x=(WIDTH / 2.0) y=(middle + 13.0) text-anchor="middle" font-size="10" {
                "proxy at " (clip(at, 16))
            }
        }
        @for ((start, end), control) in legs.iter().zip(&split.controls) {
            (arrow((start + 2.0, middle), (end - 2.0, middle)))
            text.words x=((start + end) / 2.0) y=(middle - 7.0) text-anchor="middle" font-size="11" {
                title { (control) }
                (clip(control, 34))
            }
            text.lane x=((start + end) / 2.0) y=(middle + 16.0) text-anchor="middle" font-size="11" {
                (clip(&flows.join(", "), 36))
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn split(flow: &str, second: &str) -> TopologySplit {
        TopologySplit {
            flow: flow.into(),
            proxy: "pep".into(),
            hosts: ["sender", "router", "receiver"].map(str::to_owned),
            controls: ["cubic".into(), second.into()],
        }
    }

    #[test]
    fn flows_that_go_alike_share_a_row_and_others_have_their_own() {
        let mut topology = Topology::default();
        assert_eq!(draw(&topology).into_string(), "");
        topology.splits = vec![split("a", "reno"), split("b<", "cubic"), split("c", "reno")];
        let drawn = draw(&topology).into_string();
        assert_eq!(drawn.matches("proxy at router").count(), 2);
        assert!(drawn.contains("a, c: from sender to the proxy pep at router by cubic, and"));
        assert!(drawn.contains("b&lt;: from") && !drawn.contains("b<:"));
        // Each row has two legs.
        assert_eq!(drawn.matches("<polygon").count(), 2 * 2);
    }
}
