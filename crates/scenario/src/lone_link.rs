//! The plan of one link that others send over.

use std::path::Path;

use crate::check;
use crate::load::Beside;
use crate::oneline;
use crate::plan::Plan;
use crate::refusal::Refusal;

/// One link, `access`, between two hosts, over which nothing goes that the
/// plan knows of: a program's own traffic will.
///
/// `up` runs from the first of `ends` to the second. Elements come in words,
/// in order of travel in each direction, for both unless `up` or `down` is written before
/// one; a direction's only `rate` is called `bottleneck` unless it has a name.
///
/// # Errors
/// If there is no element, or the words of one are wrong.
pub fn lone_link(name: &str, ends: (&str, &str), elements: &[String]) -> Result<Plan, Refusal> {
    let elements = elements.iter().map(|words| oneline::element(words));
    let elements = elements.collect();
    let root = oneline::scenario(name, ends, elements, Vec::new())?;
    let mut plan = check::plan_without_traffic(&root, &Beside(Path::new("")))?;
    // Nobody's flows end there, but somebody's do.
    for host in &mut plan.hosts {
        host.router = false;
    }
    Ok(plan)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn elements(of: &[&str]) -> Vec<String> {
        of.iter().map(|words| (*words).to_owned()).collect()
    }

    #[test]
    fn elements_stand_on_their_sides_in_order_of_travel() {
        let words = elements(&[
            "netem delay 20ms",
            "down rate 20Mbit queue dualpi2",
            "up slow: rate 2Mbit",
            "up netem loss 1%",
        ]);
        let plan = lone_link("shell", ("inside", "outside"), &words).expect("a plan");
        let names = |all: &[crate::NamedElement]| -> Vec<String> {
            all.iter().map(|e| e.name.clone()).collect()
        };
        let link = &plan.links[0];
        assert_eq!(
            names(&link.up),
            [
                "link/access/up/netem",
                "link/access/up/slow",
                "link/access/up/netem-2"
            ]
        );
        assert_eq!(
            names(&link.down),
            ["link/access/down/netem", "link/access/down/bottleneck"]
        );
        assert!(plan.hosts.iter().all(|h| !h.router));
    }

    #[test]
    fn wrong_words_are_refused_where_they_stand() {
        for (side, place) in [("", "--link:1:6:"), ("up ", "--link:1:9:")] {
            let words = format!("{side}rate 20Mbits queue dualpi2");
            let refusal = lone_link("shell", ("inside", "outside"), &[words]).expect_err("wrong");
            assert!(refusal.to_line().starts_with(place), "{refusal:?}");
        }
        assert!(lone_link("shell", ("inside", "outside"), &[]).is_err());
    }
}
