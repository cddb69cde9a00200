//! The plan of one link that others send over.

use std::path::Path;

use crate::check;
use crate::load::Beside;
use crate::oneline::{self, Side};
use crate::plan::Plan;
use crate::refusal::Refusal;
use crate::source::Spot;

/// One link, `access`, between two hosts, over which nothing goes that the
/// plan knows of: a program's own traffic will.
///
/// `up` runs from the first of `ends` to the second. Elements come in words,
/// in order of travel in each direction, with the side that each is for; a
/// direction's only `rate` is called `bottleneck` unless it has a name.
///
/// # Errors
/// If there is no element, or the words of one are wrong.
pub fn lone_link(
    name: &str,
    ends: (&str, &str),
    elements: &[(Side, String)],
) -> Result<Plan, Refusal> {
    let place = |(side, words): &(Side, String)| (*side, Spot::whole(side.option(), words));
    let elements = elements.iter().map(place).collect();
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

    fn elements(of: &[(Side, &str)]) -> Vec<(Side, String)> {
        of.iter().map(|(s, w)| (*s, (*w).to_owned())).collect()
    }

    #[test]
    fn elements_stand_on_their_sides_in_order_of_travel() {
        let words = elements(&[
            (Side::Both, "netem delay 20ms"),
            (Side::Down, "rate 20Mbit queue dualpi2"),
            (Side::Up, "slow: rate 2Mbit"),
            (Side::Up, "netem loss 1%"),
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
    fn wrong_words_are_refused_by_the_option_that_they_came_with() {
        for (side, option) in [
            (Side::Both, "--link"),
            (Side::Up, "--up"),
            (Side::Down, "--down"),
        ] {
            let words = elements(&[(side, "rate 20Mbits queue dualpi2")]);
            let refusal = lone_link("shell", ("inside", "outside"), &words).expect_err("wrong");
            assert!(refusal.to_line().starts_with(option), "{refusal:?}");
        }
        assert!(lone_link("shell", ("inside", "outside"), &[]).is_err());
    }
}
