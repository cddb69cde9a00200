//! Applications that scenarios name by their kind.

use narrows_app::{APP_KINDS, AppSpec, Carries};
use narrows_path::routes::Routes;
use narrows_units::Parameter;

use super::transport::{Between, TransportKeys};
use super::{Check, Names};
use crate::document::{App, AppKeys, At, keys, types};
use crate::endpoints::MAX_APPS;
use crate::parts::{HostModel, Traffic};
use crate::plan::AppPlan;
use crate::refusal::{Refusal, one_of};
use crate::transport::{Transport, TransportName};

/// The congestion control of connections where none is given: Linux's default.
const DEFAULT_CONTROL: &str = "cubic";

impl<'d> From<&'d AppKeys> for TransportKeys<'d> {
    fn from(app: &'d AppKeys) -> Self {
        Self {
            transport: &app.transport,
            cc: &app.cc,
            ecn: &app.ecn,
            spin: &None,
            fast_open: &app.fast_open,
            host_model: &app.host_model,
            usual: Some(DEFAULT_CONTROL),
        }
    }
}

impl Check<'_> {
    /// Reads the applications.
    pub(super) fn apps(&mut self) -> Result<(), Refusal> {
        if self.scenario.app.is_empty() {
            return Ok(());
        }
        let routes = self.plan.routes();
        let model = self.host_model()?;
        let mut names = Names::default();
        self.at_most(MAX_APPS, "app", &self.scenario.app)?;
        for app in &self.scenario.app {
            let name = names.required(self.places, app, &app.keys.name)?;
            let app = self.app(app, name, &routes, model)?;
            self.plan.apps.push(app);
        }
        Ok(())
    }

    fn app(
        &self,
        table: &At<App>,
        name: String,
        routes: &Routes,
        model: HostModel,
    ) -> Result<AppPlan, Refusal> {
        let app = &table.keys;
        let spec = self.spec(table)?;
        let (from, to) = self.ends(table, &app.from, &app.to)?;
        self.joined(table, &app.to, (from, to), routes)?;
        let (start, stop) = self.times(&app.start, &app.stop)?;
        let ip = self.ip(&app.ip)?;
        let ends = (from, to);
        let transport = match spec.carries() {
            Carries::Stream => self.streams(table, Between { ends, ip, model })?,
            Carries::Datagrams => self.plain_datagrams(table, &spec)?,
        };
        let dscp = self.places.parsed(&app.dscp)?;
        Ok(AppPlan {
            name,
            spec,
            from,
            to,
            dscp: dscp.map_or(0, |dscp| dscp.0),
            ip,
            start,
            stop,
            transport,
        })
    }

    /// The application itself.
    fn spec(&self, table: &At<App>) -> Result<AppSpec, Refusal> {
        let places = self.places;
        let kinds = || APP_KINDS.iter().map(|kind| kind.name);
        let kind = places.required(table, "kind", &table.keys.kind, &one_of(kinds()))?;
        let Some(mut spec) = AppSpec::new(kind) else {
            let refusal = places.refuse(kind, one_of(kinds()));
            return Err(match Traffic::WORDS.contains(&kind.as_str()) {
                true => refusal.with_help(format!(
                    "a transfer in one direction is a [[flow]], with traffic = \"{} …\"",
                    **kind
                )),
                false => refusal.did_you_mean(kind, kinds()),
            });
        };
        let declared = spec.declared();
        let names = || declared.parameters.iter().flat_map(|p| p.names());
        for (key, value) in &table.parameters {
            let mut parameters = declared.parameters.iter();
            let Some(parameter) = parameters.find(|p| p.names().any(|name| name == key)) else {
                let all = || keys::<AppKeys>().iter().copied().chain(names());
                let found = format!("the unknown key `{key}` of `{}`", spec.kind());
                let refusal = places.found(value, found, one_of(all()));
                return Err(refusal.did_you_mean(key, all()));
            };
            let given = value.words().filter(|_| value.is_of(types(parameter.kind)));
            let words = given.ok_or_else(|| places.refuse(value, parameter.allowed))?;
            spec.set(key, &words)
                .map_err(|error| places.refused_words(value, error))?;
        }
        let given: Vec<_> = table.parameters.iter().map(|(key, _)| &**key).collect();
        if let Some(p) = missing(declared.parameters, &given) {
            let name = p.names().next().unwrap_or_default();
            return Err(places.missing(table, name, p.allowed));
        }
        match spec.misfit() {
            Some(misfit) => {
                let mut given = table.parameters.iter();
                let given = given.find(|(key, _)| key == misfit.name);
                Err(match given {
                    Some((_, at)) => places.refuse(at, misfit.allowed),
                    None => places.missing(table, misfit.name, misfit.allowed),
                })
            }
            None => Ok(spec),
        }
    }

    /// What carries the connections of an application.
    fn streams(&self, table: &At<App>, between: Between) -> Result<Transport, Refusal> {
        let keys = TransportKeys::from(&table.keys);
        match (self.transport_name(keys)?, &table.keys.transport) {
            (TransportName::Modelled(_), Some(given)) => Err(self
                .places
                .refuse(given, "`tcp` or `quic`")
                .with_help("a modelled transport carries one flow, and no answers")),
            (name, _) => self.connections(table, keys, name, between),
        }
    }

    /// Refuses what plain datagrams have no place for.
    fn plain_datagrams(&self, table: &At<App>, spec: &AppSpec) -> Result<Transport, Refusal> {
        let app = &table.keys;
        let allowed = format!("nothing, for `{}` sends plain datagrams", spec.kind());
        let refuse = |refusal: Refusal| Err(refusal.with_help("it has no connections"));
        if let Some(given) = &app.transport {
            return refuse(self.places.refuse(given, allowed));
        }
        if let Some(given) = &app.cc {
            return refuse(self.places.refuse(given, allowed));
        }
        if let Some(given) = &app.ecn {
            let refusal = self.places.refuse(given, allowed);
            return Err(refusal.with_help("`codepoint` sets the ECN field of its packets"));
        }
        if let Some(given) = &app.fast_open {
            return refuse(self.places.refuse(given, allowed));
        }
        if let Some(given) = &app.host_model {
            return refuse(self.places.refuse(given, allowed));
        }
        Ok(Transport::Datagrams)
    }
}

/// The first of `parameters` that has no default and is not among the keys `given`.
fn missing<'p>(parameters: &'p [Parameter], given: &[&str]) -> Option<&'p Parameter> {
    parameters
        .iter()
        .find(|p| p.default.is_empty() && !p.names().any(|name| given.contains(&name)))
}

#[cfg(test)]
mod tests {
    use narrows_units::{Parameter, ParameterKind};

    use super::missing;

    #[test]
    fn a_parameter_without_a_default_has_to_be_given() {
        let parameter = |usage, default| {
            let kind = ParameterKind::Number("");
            Parameter::new(usage, kind, "a number", default, "A number")
        };
        let parameters = [
            parameter("pages NUMBER", "1"),
            parameter("bytes NUMBER", ""),
            parameter("rate NUMBER", ""),
        ];
        for (given, first) in [
            (&[][..], Some("bytes")),
            (&["pages", "rate"], Some("bytes")),
            (&["bytes"], Some("rate")),
            (&["rate", "bytes"], None),
        ] {
            let found = missing(&parameters, given).and_then(|p| p.names().next());
            assert_eq!(found, first, "{given:?}");
        }
    }
}
