//! What each kind of application answers of itself: its parameters, what it reports, and
//! what runs at its two ends.

use std::fmt;
use std::net::SocketAddr;

use narrows_core::{App, EntityId, Event, Profile, Reduce, Sockets, TelemetryField};
use narrows_units::{Instant, Parameter, Rng, WordError, Words};
use narrows_wire::ip::Ecn;

use crate::spec::Carries;

/// A parameter whose value does not go with those of others.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Misfit {
    /// Its name.
    pub name: &'static str,
    /// What it would have to be.
    pub allowed: String,
}

/// One end of an application.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SiteEnd {
    /// The options of its sockets.
    pub profile: Profile,
    /// Its address. The port is its own where it listens or binds a socket for datagrams;
    /// connections are opened from free ports.
    pub local: SocketAddr,
}

/// Where an application runs, and when; what it needs beside its own parameters.
#[derive(Clone, Debug)]
pub struct Site {
    /// As which it reports, `app/NAME`.
    pub entity: EntityId,
    /// Its full name, `app/NAME`.
    pub name: String,
    /// The run's seed.
    pub seed: u64,
    /// At `from`, the end that begins.
    pub from: SiteEnd,
    /// At `to`, the end that answers.
    pub to: SiteEnd,
    /// When it begins.
    pub start: Instant,
    /// When it begins nothing more.
    pub stop: Instant,
}

impl Site {
    /// What draws `what` of this application, whatever else draws.
    pub fn rng(&self, what: &str) -> Rng {
        Rng::for_name(self.seed, &format!("{}/{what}", self.name))
    }

    /// Reports that it counts nothing yet, so that what never happens is 0 in figures.
    pub(crate) fn announce(&self, host: &mut dyn Sockets, fields: &[TelemetryField]) {
        for field in fields.iter().filter(|f| f.reduce == Reduce::Counter) {
            self.report(host, *field, 0);
        }
    }

    /// Reports a value of what it measures, in parts of the field's unit.
    pub(crate) fn report(&self, host: &mut dyn Sockets, field: TelemetryField, value: u64) {
        host.record(Event::Telemetry {
            source: self.entity.into(),
            field,
            value: i64::try_from(value).unwrap_or(i64::MAX),
        });
    }
}

/// Something that an application is there to deliver, and by which of its reports it shows that
/// it did: with nothing of it a run says nothing of the application.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Delivery {
    /// One of it, and what becomes of it: `request`, `was answered`.
    pub what: [&'static str; 2],
    /// Counts what is due; `None` if something is for as long as the application runs.
    pub due: Option<TelemetryField>,
    /// What is due and not there, at each sample.
    pub waiting: Option<TelemetryField>,
    /// Above zero, or measured at all, only if something was delivered.
    pub got: TelemetryField,
    /// Counts what of `due` failed.
    pub failed: Option<TelemetryField>,
}

/// A kind of application, as its parameters. Those that have no default are checked to be
/// given before it runs. No method has a default, so that a new kind answers each question.
pub(crate) trait Kind: Clone + PartialEq + fmt::Debug + Default {
    /// Its parameters, each a key of its table, in the order in which lists have them.
    const PARAMETERS: &'static [Parameter];

    /// What it reports of itself, by which its metrics are named.
    const REPORTS: &'static [TelemetryField];

    /// What it sends over.
    const CARRIES: Carries;

    /// The ECN field of its datagrams; connections have what they negotiate.
    fn codepoint(&self) -> Ecn;

    /// What it is there to deliver.
    fn deliveries(&self) -> Vec<Delivery>;

    /// Sets the parameter `name` to the value in `words`.
    ///
    /// # Errors
    /// When they are no value of it; the span is that in the value's line.
    fn set(&mut self, name: &str, words: &mut Words<'_>) -> Result<(), WordError>;

    /// The value of each parameter in words, in the order of [`PARAMETERS`](Self::PARAMETERS).
    fn values(&self) -> Vec<String>;

    /// The first parameter that does not go with the others.
    fn misfit(&self) -> Option<Misfit>;

    /// The applications at `from` and at `to`.
    fn ends(&self, site: &Site) -> [Box<dyn App>; 2];
}

/// From one line for each kind of application (its word, its name and the type of its
/// parameters): all that depends on which kinds there are. What a kind answers of itself is
/// its [`Kind`].
macro_rules! apps {
    ($($(#[doc = $doc:literal])+ $word:literal => $name:ident($spec:ty);)+) => {
        /// An application, with the values of its parameters.
        #[derive(Clone, Debug, PartialEq)]
        pub enum AppSpec {
            $($(#[doc = $doc])+ $name($spec),)+
        }

        /// What each kind of application is, and its parameters.
        pub const APP_KINDS: &[narrows_units::Declared] = &[$(narrows_units::Declared {
            name: $word,
            about: concat!($($doc),+).trim_ascii(),
            parameters: <$spec as $crate::kind::Kind>::PARAMETERS,
        },)+];

        /// What the kinds report of themselves, in the order of [`APP_KINDS`].
        pub const APP_REPORTS: &[(&str, &[narrows_core::TelemetryField])] = &[
            $(($word, <$spec as $crate::kind::Kind>::REPORTS),)+
        ];

        impl AppSpec {
            /// One of the kind `word`, as it is by default; `None` if there is no such kind.
            pub fn new(word: &str) -> Option<Self> {
                match word {
                    $($word => Some(Self::$name(Default::default())),)+
                    _ => None,
                }
            }

            /// The word of its kind.
            pub const fn kind(&self) -> &'static str {
                match self { $(Self::$name(_) => $word,)+ }
            }

            /// What its kind is, and its parameters.
            pub fn declared(&self) -> &'static narrows_units::Declared {
                let mut kinds = APP_KINDS.iter();
                kinds.find(|kind| kind.name == self.kind()).expect("every kind is in its list")
            }

            /// What it reports of itself.
            pub const fn reports(&self) -> &'static [narrows_core::TelemetryField] {
                match self { $(Self::$name(_) => <$spec as $crate::kind::Kind>::REPORTS,)+ }
            }

            /// What it sends over.
            pub const fn carries(&self) -> Carries {
                match self { $(Self::$name(_) => <$spec as $crate::kind::Kind>::CARRIES,)+ }
            }

            /// The ECN field of its datagrams.
            pub fn codepoint(&self) -> narrows_wire::ip::Ecn {
                match self { $(Self::$name(k) => $crate::kind::Kind::codepoint(k),)+ }
            }

            /// What it is there to deliver.
            pub fn deliveries(&self) -> Vec<$crate::kind::Delivery> {
                match self { $(Self::$name(k) => $crate::kind::Kind::deliveries(k),)+ }
            }

            fn set_words(
                &mut self,
                name: &str,
                words: &mut narrows_units::Words<'_>,
            ) -> Result<(), narrows_units::WordError> {
                match self { $(Self::$name(k) => $crate::kind::Kind::set(k, name, words),)+ }
            }

            fn values(&self) -> Vec<String> {
                match self { $(Self::$name(k) => $crate::kind::Kind::values(k),)+ }
            }

            /// The first parameter that does not go with the others.
            pub fn misfit(&self) -> Option<Misfit> {
                match self { $(Self::$name(k) => $crate::kind::Kind::misfit(k),)+ }
            }

            /// The applications at the end that begins and at the one that answers.
            pub fn ends(&self, site: &Site) -> [Box<dyn narrows_core::App>; 2] {
                match self { $(Self::$name(k) => $crate::kind::Kind::ends(k, site),)+ }
            }
        }
    };
}
pub(crate) use apps;

impl crate::AppSpec {
    /// Sets the parameter `name` to `value`, all of it.
    ///
    /// # Errors
    /// When there is no such parameter, or `value` is none of it; the span is that in `value`.
    pub fn set(&mut self, name: &str, value: &str) -> Result<(), WordError> {
        let named = self.declared().parameters.iter();
        let Some(parameter) = named.clone().find(|p| p.names().any(|n| n == name)) else {
            let names: Vec<_> = named.flat_map(Parameter::names).collect();
            let allowed = narrows_units::alternatives(&names);
            return Err(WordError::new(0..value.len(), format!("`{name}`"), allowed));
        };
        let mut words = Words::new(value);
        if words.peek().is_none() {
            return Err(words.ended(parameter.allowed));
        }
        self.set_words(name, &mut words)?;
        words.finish(&format!("the end of {name}"))
    }

    /// Each of its parameters with its value in words.
    pub fn parameters(&self) -> impl Iterator<Item = (&'static str, String)> {
        let names = self.declared().parameters.iter();
        let names = names.map(|p| p.names().next().unwrap_or_default());
        names.zip(self.values())
    }
}

impl fmt::Display for crate::AppSpec {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.kind())?;
        self.parameters()
            .try_for_each(|(name, value)| write!(f, " {name} {value}"))
    }
}

#[cfg(test)]
mod tests {
    use crate::{APP_KINDS, APP_REPORTS, AppSpec};

    #[test]
    fn every_kind_reads_each_value_that_it_writes() {
        for kind in APP_KINDS {
            let mut spec = AppSpec::new(kind.name).expect("a kind of the list");
            assert_eq!(spec.declared(), kind);
            let written = spec.clone();
            for (name, value) in written.parameters() {
                assert!(!name.is_empty(), "{}", kind.name);
                spec.set(name, &value).expect("what was written");
                assert_eq!(spec, written, "{name} {value}");
                let error = spec.set(name, &format!("{value} more")).unwrap_err();
                assert_eq!(error.span.start, value.len() + 1, "{name}: {error}");
                spec = written.clone();
            }
            assert_eq!(written.parameters().count(), kind.parameters.len());
        }
    }

    #[test]
    fn a_default_that_is_declared_is_the_one_that_holds() {
        for kind in APP_KINDS {
            let spec = AppSpec::new(kind.name).expect("a kind of the list");
            for (parameter, (name, value)) in kind.parameters.iter().zip(spec.parameters()) {
                if !parameter.default.is_empty() {
                    let mut declared = spec.clone();
                    declared.set(name, parameter.default).expect("a default");
                    assert_eq!(declared, spec, "{name}: {value}");
                }
            }
        }
    }

    #[test]
    fn a_parameter_that_is_not_there_and_an_empty_value_are_refused() {
        for (kind, (_, reports)) in APP_KINDS.iter().zip(APP_REPORTS) {
            let mut spec = AppSpec::new(kind.name).expect("a kind of the list");
            let error = spec.set("nosuch", "1").unwrap_err();
            let first = kind.parameters[0].names().next().expect("a name");
            assert!(error.allowed.contains(first), "{error}");
            assert!(spec.set(first, "").is_err());
            assert!(
                !reports.is_empty(),
                "{}: nothing to be judged by",
                kind.name
            );
        }
    }

    #[test]
    fn every_kind_delivers_something_and_reports_by_what_it_shows() {
        for (kind, (_, reports)) in APP_KINDS.iter().zip(APP_REPORTS) {
            let spec = AppSpec::new(kind.name).expect("a kind of the list");
            let deliveries = spec.deliveries();
            assert!(!deliveries.is_empty(), "{}", kind.name);
            for delivery in deliveries {
                let fields = [delivery.due, delivery.waiting, delivery.failed];
                let fields = fields.into_iter().flatten().chain([delivery.got]);
                for field in fields {
                    assert!(reports.contains(&field), "{}: {field:?}", kind.name);
                }
            }
        }
    }
}

#[cfg(test)]
pub(crate) mod testing {
    use crate::AppSpec;

    /// An application of the kind `word` with these parameters.
    pub(crate) fn with(word: &str, parameters: &[(&str, &str)]) -> AppSpec {
        let mut spec = AppSpec::new(word).expect("a kind");
        for (name, value) in parameters {
            spec.set(name, value).expect(value);
        }
        spec
    }

    /// Each of these values of a parameter is refused at this part of it.
    #[track_caller]
    pub(crate) fn refused_at(word: &str, values: &[(&str, &str, &str)]) {
        for (name, value, at) in values {
            let error = AppSpec::new(word).expect("a kind").set(name, value);
            let error = error.expect_err(value);
            assert_eq!(&value[error.span.clone()], *at, "{value}: {error}");
        }
    }
}
