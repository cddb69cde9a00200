//! The words of an algorithm's options, as the algorithm declares them, and the
//! same options by name.

use std::fmt;

use narrows_units::{Bytes, Duration, Value, Word, WordError, Words, alternatives};

use crate::ffi::{Kind, Parameter, Params};
use crate::spec::ControlSpec;

/// Why an option was not set.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum OptionError {
    /// The algorithm has none of this name.
    #[error("{algorithm} has no option `{option}`; it has {allowed}")]
    Unknown {
        /// The algorithm's name.
        algorithm: &'static str,
        /// What was asked for.
        option: String,
        /// What it has.
        allowed: String,
    },
    /// The value is out of range, or does not go with the other options.
    #[error("`{value}` is no value of the option `{option}`, which is {allowed}")]
    Value {
        /// The option.
        option: String,
        /// The value.
        value: u64,
        /// What is allowed.
        allowed: String,
    },
    /// It cannot change once the connection is established.
    #[error("the option `{0}` cannot change once the connection is established")]
    Started(String),
}

impl Parameter {
    fn choices(&self) -> impl Iterator<Item = &'static str> {
        self.words.split(' ')
    }

    /// What may follow its name.
    fn allowed(&self) -> String {
        match self.kind {
            Kind::Choice | Kind::Variant => {
                format!("one of {}", Vec::from_iter(self.choices()).join(", "))
            }
            Kind::Flag => "no value".to_owned(),
            Kind::Time => format!(
                "a time from {} to {}",
                micros(self.least),
                micros(self.most)
            ),
            Kind::Bytes => format!("a size from {} to {} bytes", self.least, self.most),
            Kind::Number if (self.least, self.most) == (0, u32::MAX.into()) => {
                u32::ALLOWED.to_owned()
            }
            Kind::Number => format!(
                "a whole number from {} to {}: {}",
                self.least, self.most, self.about
            ),
        }
    }

    /// Whether `value` is one of its values.
    fn takes(&self, value: u64) -> bool {
        match self.kind {
            Kind::Choice | Kind::Variant => (value as usize) < self.choices().count(),
            _ => (self.least..=self.most).contains(&value),
        }
    }

    /// Reads the value behind its name.
    fn parse(&self, words: &mut Words<'_>) -> Result<u64, WordError> {
        if self.kind == Kind::Flag {
            return Ok(self.most);
        }
        let word = words.needed(&self.allowed())?;
        let text = word.text;
        let value = match self.kind {
            Kind::Choice | Kind::Variant => {
                let place = self.choices().position(|choice| choice == text);
                place.map(|place| place as u64)
            }
            Kind::Time => {
                let time = Duration::parse(text);
                let time = time.ok_or_else(|| word.refused(Duration::ALLOWED))?;
                // A limit is not passed by less than a microsecond either.
                Some(time.as_nanos())
                    .filter(|ns| *ns <= self.most.saturating_mul(1000))
                    .map(|ns| ns / 1000)
            }
            Kind::Bytes => Bytes::parse(text).map(Bytes::get),
            Kind::Number | Kind::Flag => text.parse().ok(),
        };
        value
            .filter(|value| self.takes(*value))
            .ok_or_else(|| word.refused(self.allowed()))
    }

    /// Writes its name and `value`.
    fn write(&self, f: &mut fmt::Formatter<'_>, value: u64) -> fmt::Result {
        write!(f, " {}", self.name)?;
        match self.kind {
            Kind::Choice | Kind::Variant => {
                let word = self.choices().nth(value as usize).unwrap_or_default();
                write!(f, " {word}")
            }
            Kind::Flag => Ok(()),
            Kind::Time => write!(f, " {}", micros(value)),
            Kind::Bytes | Kind::Number => write!(f, " {value}"),
        }
    }
}

/// What an algorithm declares of one of its options.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ControlParameter {
    /// The word that it begins with.
    pub name: &'static str,
    /// `flag`, `number`, `time`, `size` or `choice`.
    pub kind: &'static str,
    /// What may follow its name, as refusals say it.
    pub allowed: String,
    /// Of a choice, the words.
    pub choices: Vec<&'static str>,
    /// What holds where it is not named, as words spell it; empty where they cannot, as of
    /// a flag that is not set.
    pub default: String,
    /// What it is.
    pub about: &'static str,
}

impl ControlSpec {
    /// The options of the algorithm, with what they are now as their defaults.
    pub fn parameters(&self) -> Vec<ControlParameter> {
        let params = &self.params;
        let of = |parameter: Parameter| {
            let value = params.get(&parameter);
            let (kind, default) = match parameter.kind {
                Kind::Choice | Kind::Variant => {
                    let word = parameter.choices().nth(value as usize);
                    ("choice", word.unwrap_or_default().to_owned())
                }
                Kind::Flag => ("flag", "on".to_owned()),
                Kind::Time => ("time", micros(value).to_string()),
                Kind::Bytes => ("size", value.to_string()),
                Kind::Number => ("number", value.to_string()),
            };
            let chosen = matches!(parameter.kind, Kind::Choice | Kind::Variant);
            ControlParameter {
                name: parameter.name,
                kind,
                allowed: parameter.allowed(),
                choices: parameter.choices().filter(|_| chosen).collect(),
                default: Some(default)
                    .filter(|_| parameter.takes(value))
                    .unwrap_or_default(),
                about: parameter.about,
            }
        };
        params.algorithm().parameters().map(of).collect()
    }
}

fn micros(us: u64) -> Duration {
    Duration::from_micros(us)
}

impl Params {
    /// The names of the options, for a refusal.
    fn names(&self) -> String {
        let names: Vec<&str> = self.algorithm().parameters().map(|p| p.name).collect();
        alternatives(&names)
    }

    /// Reads the words that follow an algorithm's name, in any order; they are
    /// taken over in the order in which the algorithm declares them.
    pub(crate) fn read(&mut self, words: &mut Words<'_>) -> Result<(), WordError> {
        let name = self.algorithm().name();
        let mut given: Vec<(Parameter, u64, Word<'_>)> = Vec::new();
        while let Some(key) = words.take() {
            let mut known = self.algorithm().parameters();
            let Some(parameter) = known.find(|p| p.name == key.text) else {
                let allowed = match self.names() {
                    none if none.is_empty() => format!("nothing ({name} has no parameters)"),
                    names => names,
                };
                return Err(key.refused(allowed));
            };
            let value = parameter.parse(words)?;
            if given.iter().any(|(p, ..)| p.offset == parameter.offset) {
                return Err(key.repeated());
            }
            given.push((parameter, value, key));
        }
        for parameter in self.algorithm().parameters() {
            let Some((_, value, key)) = given.iter().find(|(p, ..)| p.name == parameter.name)
            else {
                continue;
            };
            self.set(&parameter, *value).map_err(|allowed| {
                let word = parameter.choices().nth(*value as usize);
                let word = word.map_or_else(|| value.to_string(), str::to_owned);
                let found = format!("`{} {word}`", key.text);
                WordError::new(key.span(), found, allowed)
            })?;
        }
        Ok(())
    }

    /// Writes the options that are not what they would be without a word.
    pub(crate) fn write(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut silent = Self::new(self.algorithm());
        for parameter in self.algorithm().parameters() {
            let value = self.get(&parameter);
            let said = silent.get(&parameter) == value && parameter.kind != Kind::Variant;
            if said || !parameter.takes(value) {
                continue;
            }
            parameter.write(f, value)?;
            // What goes together in `self` does so here.
            let _ = silent.set(&parameter, value);
        }
        Ok(())
    }

    /// Sets an option by its name; `started` if the connection is established.
    pub(crate) fn set_named(
        &mut self,
        name: &str,
        value: u64,
        started: bool,
    ) -> Result<(), OptionError> {
        let mut known = self.algorithm().parameters();
        let parameter = known.find(|p| p.name == name);
        let parameter = parameter.ok_or_else(|| OptionError::Unknown {
            algorithm: self.algorithm().name(),
            option: name.to_owned(),
            allowed: self.names(),
        })?;
        if started && parameter.kind == Kind::Variant {
            return Err(OptionError::Started(name.to_owned()));
        }
        let refused = |allowed: String| OptionError::Value {
            option: name.to_owned(),
            value,
            allowed,
        };
        if !parameter.takes(value) {
            return Err(refused(parameter.allowed()));
        }
        self.set(&parameter, value)
            .map_err(|allowed| refused(allowed.to_owned()))
    }

    /// Takes over the options of a block of this algorithm's parameters.
    pub(crate) fn read_block(&mut self, block: &[u8]) {
        for parameter in self.algorithm().parameters() {
            let value = parameter.value_in(block);
            if let Some(value) = value.filter(|v| parameter.takes(*v)) {
                // Where they do not go together it was no block of parameters.
                let _ = self.set(&parameter, value);
            }
        }
    }

    /// The value of an option by its name.
    pub(crate) fn named(&self, name: &str) -> Option<u64> {
        let mut known = self.algorithm().parameters();
        known.find(|p| p.name == name).map(|p| self.get(&p))
    }
}
