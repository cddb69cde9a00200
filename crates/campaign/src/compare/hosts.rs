//! Which hosts the simulator is given where it is held against another engine.

use narrows_results::Engine;
use narrows_scenario::{Campaign, HostModel, Plan, host_model_words};

/// The engine whose hosts are models.
const SIMULATOR: &str = "sim";

/// What `engine` runs of each cell beside `other`. The simulator's hosts are as the other's;
/// both sides of a pair run on one engine, as the cells say.
pub(super) fn plans(
    (engine, other): (&dyn Engine, &dyn Engine),
    campaign: &Campaign,
    paired: bool,
) -> Vec<Plan> {
    let cells = campaign.cells.iter();
    let plan = |plan: &Plan| match engine.name() == SIMULATOR && !paired {
        true => other.hosts_as_here(plan),
        false => plan.clone(),
    };
    cells.map(|cell| plan(&cell.plan)).collect()
}

/// In what the hosts of `fitted`, a plan for each cell, are not as the cells say: a sentence for
/// each kind of difference, with the flows that have it unless all do.
pub(super) fn sentences(campaign: &Campaign, fitted: &[Plan]) -> Vec<String> {
    let mut kinds: Vec<(String, Vec<&str>)> = Vec::new();
    for (cell, fitted) in campaign.cells.iter().zip(fitted) {
        for (flow, fitted) in cell.plan.flows.iter().zip(&fitted.flows) {
            let models = flow.transport.tcp().zip(fitted.transport.tcp());
            let kind = models.map_or_else(String::new, |(a, b)| difference(&a.host, &b.host));
            let at = kinds.iter().position(|(known, _)| *known == kind);
            let at = at.unwrap_or_else(|| {
                kinds.push((kind, Vec::new()));
                kinds.len() - 1
            });
            let flows = &mut kinds[at].1;
            if !flows.contains(&flow.name.as_str()) {
                flows.push(&flow.name);
            }
        }
    }
    let several = kinds.len() > 1;
    kinds
        .into_iter()
        .filter(|(kind, _)| !kind.is_empty())
        .map(|(kind, flows)| match several {
            true => format!("{}: simulated with {kind}", flows.join(", ")),
            false => format!("hosts: simulated with {kind}"),
        })
        .collect()
}

/// `segmentation "tso …" for "one", tick "1ms" for "4ms"`: what the other side has for what the
/// cell says.
fn difference(said: &HostModel, fitted: &HostModel) -> String {
    let (said, fitted) = (host_model_words(said), host_model_words(fitted));
    let differ = said.iter().zip(&fitted).filter(|(a, b)| a != b);
    let words = differ.map(|((key, said), (_, is))| format!("{key} \"{is}\" for \"{said}\""));
    words.collect::<Vec<_>>().join(", ")
}
