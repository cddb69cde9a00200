//! From a request to what is to be run: checked before anything starts.

use std::collections::BTreeMap;
use std::sync::Arc;

use axum::http::StatusCode;
use narrows::EngineName;
use narrows::scenario::{Campaign, FileKind, Loaded, Plan};
use narrows::units::Duration;
use schemars::JsonSchema;
use serde::Deserialize;
use serde_json::{Value, json};

use super::Kind;
use crate::check::{Checked, Text, agreed, are_few, programs};
use crate::documents::{Documents, clipped};
use crate::engines::EngineWord;
use crate::error::{Answer, ApiError};

/// What to run.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct Start {
    /// What is run.
    kind: Kind,
    /// The document: its text, or where the files are that `text` names.
    document: Option<String>,
    /// The text to run.
    text: Option<String>,
    /// What runs it; the simulator by default. Of a comparison, what is held against the simulator,
    /// `live` by default.
    engine: Option<EngineWord>,
    /// The seed; of a campaign, the only one.
    seed: Option<u64>,
    /// Values by name, as `--set` takes them.
    #[serde(default)]
    #[schemars(with = "BTreeMap<String, Value>")]
    set: BTreeMap<String, Value>,
    /// Of a campaign or a comparison, the cells: patterns of their names.
    #[serde(default)]
    only: Vec<String>,
    /// Seconds of the network in a second; as fast as it goes by default.
    speed: Option<f64>,
    /// Whether it waits at its beginning.
    #[serde(default)]
    paused: bool,
    /// The digest of the programs that it may start, as a check gives it.
    #[serde(default)]
    programs: Option<String>,
}

/// A job that can begin.
pub(crate) struct Prepared {
    pub(crate) kind: Kind,
    pub(crate) name: String,
    pub(crate) document: Option<String>,
    pub(crate) engine: EngineWord,
    pub(crate) speed: Option<f64>,
    pub(crate) paused: bool,
    pub(crate) duration: Duration,
    /// The file, with the text that is run; its `set` values are in the text of a run.
    pub(crate) loaded: Loaded,
    pub(crate) text: String,
    /// Of a run.
    pub(crate) plan: Option<Arc<Plan>>,
    /// Of anything else.
    pub(crate) campaign: Option<Campaign>,
    pub(crate) seed: Option<u64>,
    /// The command that does the same, where one does.
    pub(crate) command: Vec<String>,
}

impl Prepared {
    /// What `start` asks for.
    pub(crate) fn of(documents: &Documents, start: Start) -> Answer<Self> {
        let speeds = |speed: f64| speed.is_finite() && (1e-6..=1e6).contains(&speed);
        if start.speed.is_some_and(|speed| !speeds(speed)) {
            return Err(ApiError::unusable(
                "speed: allowed are 0.000001 to 1000000, or null",
            ));
        }
        if start.kind == Kind::Run && !start.only.is_empty() {
            return Err(
                ApiError::unusable("only: a run has no cells to choose from")
                    .hint("leave it out, or begin a campaign or a comparison"),
            );
        }
        let id = start
            .document
            .as_ref()
            .map(|id| documents.id(id))
            .transpose()?;
        let loaded = match (&id, &start.text) {
            (id, Some(text)) => documents.draft(id.as_ref(), text),
            (Some(id), None) => documents.load(id)?,
            (None, None) => {
                return Err(ApiError::unusable(
                    "neither `document` nor `text` was given; one of them is needed",
                ));
            }
        };
        are_few(&loaded)?;
        let engine = start.engine.unwrap_or(match start.kind {
            Kind::Run | Kind::Campaign => EngineWord::Sim,
            Kind::Compare => EngineWord::Live,
        });
        if let Some(why) = EngineName::from(engine).hindrance() {
            let message = format!("the engine {}: {why}", EngineName::from(engine).word());
            return Err(ApiError::new(StatusCode::FORBIDDEN, message));
        }
        let sets = start.set.iter().map(|(key, value)| assignment(key, value));
        let sets = sets.collect::<Answer<Vec<_>>>()?;
        let text = Text {
            text: loaded.text().into_owned(),
            document: start.document.clone(),
        };
        let prepared = match start.kind {
            Kind::Run => Self::run(&start, loaded, engine, &sets),
            Kind::Campaign | Kind::Compare => Self::matrix(&start, loaded, engine, &sets),
        };
        let mut prepared = prepared.map_err(|error| with_findings(documents, &text, error))?;
        let held = start.speed.is_some() || start.paused;
        if held && !prepared.has_pace() {
            let message = "only single runs in the simulator can be paused and slowed down";
            return Err(ApiError::unusable(message).hint(
                "other engines run by a clock that is not ours, campaigns run several at once",
            ));
        }
        prepared.document.clone_from(&start.document);
        prepared.accepted()?;
        prepared.programs_agreed(&start)?;
        if start.text.is_none() {
            let word = match (start.kind, engine) {
                (Kind::Run, _) => "run",
                (Kind::Campaign, _) => "campaign",
                (Kind::Compare, _) => "compare",
            };
            let mut command = vec!["narrows", word, prepared.loaded.short_name()];
            let default = if start.kind == Kind::Compare {
                EngineWord::Live
            } else {
                EngineWord::Sim
            };
            if engine != default {
                command.extend(["--engine", EngineName::from(engine).word()]);
            }
            let mut command: Vec<String> = command.into_iter().map(str::to_owned).collect();
            let repeated = [("--set", &sets), ("--only", &start.only)];
            for (option, value) in repeated
                .iter()
                .flat_map(|(o, all)| all.iter().map(move |v| (o, v)))
            {
                command.extend([(*option).to_owned(), value.clone()]);
            }
            if let Some(seed) = start.seed {
                command.extend(["--seed".to_owned(), seed.to_string()]);
            }
            prepared.command = command;
        }
        Ok(prepared)
    }

    fn run(start: &Start, loaded: Loaded, engine: EngineWord, sets: &[String]) -> Answer<Self> {
        let mut draft = loaded.draft()?;
        for set in sets {
            draft.set(set)?;
        }
        if let Some(seed) = start.seed {
            draft.set(&format!("seed={seed}"))?;
        }
        let plan = draft.check()?;
        // Changes are added to the text, so it has to hold all values that were set.
        let text = match sets.is_empty() && start.seed.is_none() {
            true => loaded.text().into_owned(),
            false => plan.to_toml(),
        };
        Ok(Self {
            kind: Kind::Run,
            name: plan.name.clone(),
            document: None,
            engine,
            speed: start.speed,
            paused: start.paused,
            duration: plan.duration,
            loaded: loaded.with_text(&text),
            text,
            plan: Some(Arc::new(plan)),
            campaign: None,
            seed: start.seed,
            command: Vec::new(),
        })
    }

    fn matrix(start: &Start, loaded: Loaded, engine: EngineWord, sets: &[String]) -> Answer<Self> {
        let single = start.kind == Kind::Compare && loaded.kind()? == FileKind::Scenario;
        let mut campaign = if single {
            let mut draft = loaded.draft()?;
            for set in sets {
                draft.set(set)?;
            }
            Campaign::of_one(draft.check()?)
        } else {
            loaded.campaign(sets)?
        };
        if !start.only.is_empty() {
            campaign.only(&start.only)?;
        }
        let first = campaign.cells.first();
        Ok(Self {
            kind: start.kind,
            name: campaign.name.clone(),
            document: None,
            engine,
            speed: start.speed,
            paused: start.paused,
            duration: first.map_or(Duration::ZERO, |cell| cell.plan.duration),
            text: loaded.text().into_owned(),
            loaded,
            plan: None,
            campaign: Some(campaign),
            seed: start.seed,
            command: Vec::new(),
        })
    }

    /// Whether it can be paused, slowed down and changed.
    pub(crate) fn has_pace(&self) -> bool {
        self.kind == Kind::Run && self.engine == EngineWord::Sim
    }

    /// Whether the engine takes any of it: otherwise nobody need be asked about programs.
    fn accepted(&self) -> Answer<()> {
        // A comparison gives each engine a plan of its own.
        if self.kind == Kind::Compare {
            return Ok(());
        }
        let engine = EngineName::from(self.engine).engine(None);
        let engine = engine.map_err(|refusal| ApiError::unusable(refusal.to_line()))?;
        let cells = self.campaign.iter().flat_map(|campaign| &campaign.cells);
        let plans = self.plan.iter().map(Arc::as_ref);
        let mut refused = None;
        for plan in plans.chain(cells.map(|cell| &cell.plan)) {
            match engine.accepts(plan) {
                Ok(()) => return Ok(()),
                Err(error) => refused = refused.or(Some(error)),
            }
        }
        match refused {
            Some(error) => Err(ApiError::unusable(error.to_string())),
            None => Ok(()),
        }
    }

    /// Programs are started only if the request names exactly these.
    fn programs_agreed(&self, start: &Start) -> Answer<()> {
        let plans: Vec<&Plan> = match (&self.plan, &self.campaign) {
            (Some(plan), _) => vec![plan],
            (None, Some(campaign)) => campaign.cells.iter().map(|cell| &cell.plan).collect(),
            (None, None) => Vec::new(),
        };
        let programs = programs(&plans);
        let digest = agreed(&programs);
        // The simulator runs no programs, and refuses what starts some.
        let none_run = self.engine == EngineWord::Sim && self.kind != Kind::Compare;
        if none_run || digest.is_empty() || start.programs.as_ref() == Some(&digest) {
            return Ok(());
        }
        let message = "programs: the scenario starts programs that were not agreed to";
        Err(ApiError::new(StatusCode::CONFLICT, message)
            .hint("send `programs` with the digest that stands beside them, if these may run")
            .with(json!({ "programs": programs, "programs_digest": digest })))
    }
}

/// `key=value`, as `--set` takes it.
fn assignment(key: &str, value: &Value) -> Answer<String> {
    let value = match value {
        Value::String(text) => text.clone(),
        Value::Null | Value::Object(_) => {
            let message = format!(
                "set: `{}` is neither text, number, flag nor list",
                clipped(key)
            );
            return Err(ApiError::unusable(message));
        }
        other => other.to_string(),
    };
    match key.contains('=') {
        true => Err(ApiError::unusable(format!(
            "set: `{}` is no name",
            clipped(key)
        ))),
        false => Ok(format!("{key}={value}")),
    }
}

/// The same refusal, with all findings about the text.
fn with_findings(documents: &Documents, text: &Text, error: ApiError) -> ApiError {
    match Checked::of(documents, text) {
        Ok(checked) => error.with(json!({ "findings": checked.findings })),
        Err(_) => error,
    }
}
