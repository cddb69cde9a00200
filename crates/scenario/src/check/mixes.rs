//! Traffic mixes: what stands in their tables. Their flows and applications are checked with the
//! others.

use std::collections::BTreeMap;

use super::{Check, Names};
use crate::mix::Expanded;
use crate::plan::MixPlan;
use crate::refusal::Refusal;

impl Check<'_> {
    /// Checks each `[[mix]]`, and puts into the plan what of it is which one's.
    pub(super) fn mixes(&mut self, expanded: &[Expanded]) -> Result<(), Refusal> {
        let mut names = Names::default();
        for mix in &self.scenario.mix {
            names.required(self.places, mix, &mix.name)?;
            self.places
                .required(mix, "file", &mix.file, "the path of a mix or flow file")?;
            self.ends(mix, &mix.from, &mix.to)?;
            self.times(&mix.start, &None)?;
            if let Some(at) = mix.bandwidth.as_ref().filter(|at| at.0.as_bits() < 8) {
                return Err(self.places.refuse(at, "8bit and more"));
            }
        }
        let flows = self.plan.flows.iter().enumerate();
        let flows: BTreeMap<_, _> = flows.map(|(i, flow)| (flow.name.as_str(), i)).collect();
        let apps = self.plan.apps.iter().enumerate();
        let apps: BTreeMap<_, _> = apps.map(|(i, app)| (app.name.as_str(), i)).collect();
        let places = |of: &BTreeMap<&str, usize>, names: &[String]| {
            names
                .iter()
                .filter_map(|name| of.get(name.as_str()).copied())
                .collect()
        };
        let plans = expanded.iter().map(|mix| MixPlan {
            name: mix.name.clone(),
            flows: places(&flows, &mix.flows),
            apps: places(&apps, &mix.apps),
        });
        let plans: Vec<_> = plans.collect();
        self.plan.mixes = plans;
        Ok(())
    }
}
