//! Observers of measurement signals.

use std::collections::BTreeMap;

use narrows_units::Duration;
use narrows_wire::efm::Profile;

use crate::fields::Fields;
use crate::metrics::WORDS;
use crate::plan::{ObserverPlan, Plan};
use crate::refusal::{Refusal, one_of};

/// What an `[[observe]]` may have.
pub(crate) const OBSERVE: &[&str] = &[
    "name",
    "tap",
    "mode",
    "profile",
    "negotiated",
    "t_max",
    "block",
    "reordering",
    "techniques",
];

/// Reads the observers.
pub(super) fn read(top: &Fields<'_>, plan: &mut Plan) -> Result<(), Refusal> {
    let mut names = BTreeMap::new();
    for node in top.tables("observe")? {
        let fields = Fields::of(node, "observe", OBSERVE)?;
        let name = fields.needed_name("name")?;
        let fields = fields.called(format!("observe/{name}"));
        super::unique(&mut names, name, &fields)?;
        let thesis = match fields.text("mode")? {
            None | Some("rfc") => false,
            Some("thesis") => true,
            Some(_) => return Err(fields.refuse("mode", "`rfc` or `thesis`")),
        };
        let t_max = fields.spelled::<Duration>("t_max")?;
        if t_max.is_some_and(|t| t.is_zero()) {
            return Err(fields.refuse("t_max", "a time above zero"));
        }
        plan.observers.push(ObserverPlan {
            name: name.to_owned(),
            tap: tap(&fields, plan)?,
            thesis,
            profile: fields.spelled::<Profile>("profile")?,
            negotiated: fields.flag("negotiated")?.unwrap_or(false),
            t_max,
            block: fields.whole("block", 4, 1 << 20)?.map(|n| n as u32),
            reordering: fields.whole("reordering", 1, 1 << 19)?.map(|n| n as u32),
            techniques: techniques(&fields)?,
        });
    }
    Ok(())
}

fn tap(fields: &Fields<'_>, plan: &Plan) -> Result<String, Refusal> {
    let known = || plan.taps.iter().map(|t| t.name.as_str());
    let tap = fields.text("tap")?;
    let tap = tap.ok_or_else(|| fields.missing("tap", one_of(known())))?;
    if known().any(|t| t == tap) {
        return Ok(tap.to_owned());
    }
    let refusal = fields.refuse("tap", one_of(known()));
    Err(refusal.did_you_mean(tap, known()))
}

fn techniques(fields: &Fields<'_>) -> Result<Vec<String>, Refusal> {
    let lists = ["rtt_technique", "loss_technique", "ce_technique"];
    let words = || WORDS.iter().filter(|w| lists.contains(&w.word));
    let known = || words().flat_map(|w| w.choices).copied();
    let mut wanted = Vec::new();
    for node in fields.list("techniques") {
        let word = node.as_text().unwrap_or_default();
        if !known().any(|t| t == word) {
            let name = fields.name_of("techniques");
            let refusal = Refusal::at(&node.spot, name, node.describe(), one_of(known()));
            return Err(refusal.did_you_mean(word, known()));
        }
        wanted.push(word.to_owned());
    }
    Ok(wanted)
}

#[cfg(test)]
mod tests {
    use crate::Draft;

    const BASE: &str = "version = 1\nname = \"x\"\nduration = \"9s\"\n\
        [[link]]\nname = \"l\"\nends = [\"a\", \"b\"]\nup = [\"tap mid\"]\n\
        [[flow]]\nname = \"one\"\nfrom = \"a\"\nto = \"b\"\ncc = \"cubic\"\n\
        [[observe]]\nname = \"o\"\n";

    #[test]
    fn an_observer_stands_at_a_tap_and_is_written_as_it_was_read() {
        let text = format!(
            "{BASE}tap = \"tap/mid\"\nmode = \"thesis\"\nt_max = \"225ms\"\nprofile = \"s+t\"\n\
             techniques = [\"delay\", \"q\"]\n"
        );
        let read = |text: &str| {
            Draft::read("x.toml", text.as_bytes())
                .and_then(|d| d.check())
                .expect("a plan")
        };
        let plan = read(&text);
        assert!(plan.observers[0].thesis && plan.observers[0].techniques == ["delay", "q"]);
        assert_eq!(plan, read(&plan.to_toml()));
    }

    #[test]
    fn an_observer_without_a_tap_or_of_an_unknown_technique_is_refused() {
        for more in [
            "",
            "tap = \"tap/far\"\n",
            "tap = \"tap/mid\"\ntechniques = \"dely\"\n",
            "tap = \"tap/mid\"\nmode = \"rfd\"\n",
            "tap = \"tap/mid\"\nt_max = \"0s\"\n",
        ] {
            let text = format!("{BASE}{more}");
            let draft = Draft::read("x.toml", text.as_bytes()).expect("TOML");
            assert!(draft.check().is_err(), "{more}");
        }
    }
}
