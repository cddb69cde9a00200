//! A campaign's file.

use std::borrow::Cow;
use std::fmt;

use indexmap::IndexMap;
use schemars::{JsonSchema, Schema, SchemaGenerator, json_schema};
use serde::de::value::{MapAccessDeserializer, SeqAccessDeserializer};
use serde::de::{Deserialize, Deserializer, IgnoredAny, MapAccess, SeqAccess, Visitor};

use super::band::{AtLeast, Band, Between};
use crate::document::{
    At, Filling, Finding, More, OneOf, Optional, Required, Scalar, Scenario, Whole, Words,
    leaf_schema,
};
use crate::plan::LARGEST_SEED;

/// A matrix of runs, with the published figures that they are held against.
#[derive(Debug, serde::Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct Campaign {
    /// The version of the format: 1.
    #[allow(dead_code)] // It is checked before the rest is read.
    pub(super) version: Required<Whole<1, 1>>,
    /// `campaign`.
    #[allow(dead_code)]
    pub(super) kind: Required<CampaignKind>,
    /// Its name, such as `l4s-tests/s1`.
    pub(super) name: Required<String>,
    /// What it shows, in a line.
    pub(super) title: Optional<String>,
    /// What it is, in a paragraph.
    pub(super) about: Optional<String>,
    /// Where its figures come from.
    pub(super) source: Optional<String>,
    /// The seeds of each cell, a list or `1 to 200`; `[1]` by default.
    pub(super) seeds: Optional<More<Seeds>>,
    /// The file of the scenario that all cells start from.
    pub(super) base: Optional<String>,
    /// That scenario itself, in place of `base`.
    #[schemars(with = "Option<BaseScenario>")]
    pub(super) scenario: Optional<IgnoredAny>,
    /// The name of a cell, with words to fill in: `{rate}/{qdisc}`.
    pub(super) cell: Required<String>,
    /// Patterns of cells that are left out.
    #[serde(default)]
    pub(super) exclude: More<String>,
    /// The matrix: for each axis its values, a list, or a table with what each
    /// value fills in for `{word}`.
    pub(super) axis: Required<IndexMap<String, At<Axis>>>,
    /// Which cells `narrows compare` holds against each other.
    pub(super) pair: Optional<Pair>,
    /// What is filled in for `{word}` in every cell.
    #[serde(default)]
    pub(super) words: IndexMap<String, At<Filling>>,
    /// What is set in each cell, by name: `"flow/first/cc" = "{cc}"`.
    #[allow(dead_code)] // Whatever stands there is passed on as it is.
    #[schemars(with = "Option<std::collections::BTreeMap<String, serde_json::Value>>")]
    pub(super) set: Option<IgnoredAny>,
    /// What is to be found in the verdict on certain cells.
    #[serde(default)]
    pub(super) expected: Vec<At<Expected>>,
    /// What is measured: `goodput_mbit of flow/first`, or a formula over
    /// other metrics. By default goodputs, round trips and waiting times.
    pub(super) metric: Optional<IndexMap<String, At<Metric>>>,
    /// What the campaign is about: metrics drawn against its axes.
    #[serde(default)]
    pub(super) figure: Vec<At<Figure>>,
    /// What it shows, in sentences with measured figures.
    #[serde(default)]
    pub(super) key_finding: Vec<At<KeyFinding>>,
    /// The published table.
    pub(super) published: Optional<Published>,
    /// What is judged.
    #[serde(default)]
    pub(super) tolerance: Vec<At<Tolerance>>,
    /// What the measured figures must be among themselves.
    #[serde(default)]
    pub(super) check: Vec<At<Check>>,
}

/// What a campaign's file is.
#[derive(Debug, serde::Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub(crate) enum CampaignKind {
    Campaign,
}

/// A seed, or several in a row: `1 to 200`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, serde::Deserialize)]
#[serde(try_from = "Scalar")]
pub(crate) struct Seeds(pub(super) u64, pub(super) u64);

/// More seeds in a row than anyone has the time for.
const MOST_SEEDS: u64 = 10_000;

impl TryFrom<Scalar> for Seeds {
    type Error = String;

    fn try_from(given: Scalar) -> Result<Self, Self::Error> {
        let range = || {
            let (first, last) = match given.whole() {
                Some(seed) => (seed, seed),
                None => {
                    let (first, last) = given.text()?.split_once(" to ")?;
                    (first.trim().parse().ok()?, last.trim().parse().ok()?)
                }
            };
            let fits = first <= last && last <= LARGEST_SEED && last - first < MOST_SEEDS;
            fits.then_some(Self(first, last))
        };
        range().ok_or_else(|| {
            format!(
                "a list of whole numbers, such as [1, 2, 3], or up to {MOST_SEEDS} in a row, such \
                 as \"1 to 200\""
            )
        })
    }
}

leaf_schema!(() Seeds, json_schema!({
    "type": ["integer", "string"],
    "minimum": 0,
    "maximum": LARGEST_SEED,
    "pattern": "^\\s*[0-9]+\\s+to\\s+[0-9]+\\s*$",
}));

/// A scenario whose version and name may be left out.
pub(crate) struct BaseScenario;

impl JsonSchema for BaseScenario {
    fn schema_name() -> Cow<'static, str> {
        "BaseScenario".into()
    }

    fn json_schema(generator: &mut SchemaGenerator) -> Schema {
        let mut schema = Scenario::json_schema(generator);
        // What each cell sets is in `set`.
        schema.remove("required");
        schema
    }
}

/// The values of an axis, each with what it fills in.
#[derive(Debug)]
pub(crate) struct Axis(pub(super) Vec<(String, IndexMap<String, At<Filling>>)>);

impl<'de> Deserialize<'de> for Axis {
    fn deserialize<D: Deserializer<'de>>(from: D) -> Result<Self, D::Error> {
        struct Seen;
        impl<'de> Visitor<'de> for Seen {
            type Value = Axis;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str(
                    "a list of values, or a table of values and the words that they fill in",
                )
            }

            fn visit_seq<A: SeqAccess<'de>>(self, values: A) -> Result<Axis, A::Error> {
                let values: Vec<Filling> = Vec::deserialize(SeqAccessDeserializer::new(values))?;
                Ok(Axis(
                    values.into_iter().map(|v| (v.0, IndexMap::new())).collect(),
                ))
            }

            fn visit_map<A: MapAccess<'de>>(self, table: A) -> Result<Axis, A::Error> {
                let table = MapAccessDeserializer::new(table);
                let table = IndexMap::<_, _>::deserialize(table)?;
                Ok(Axis(table.into_iter().collect()))
            }
        }
        from.deserialize_any(Seen)
    }
}

impl JsonSchema for Axis {
    fn schema_name() -> Cow<'static, str> {
        "Axis".into()
    }

    fn json_schema(generator: &mut SchemaGenerator) -> Schema {
        let list = generator.subschema_for::<Vec<Filling>>();
        let table = generator.subschema_for::<IndexMap<String, IndexMap<String, Filling>>>();
        json_schema!({ "if": { "type": "array" }, "then": list, "else": table })
    }
}

/// Findings that the verdict on cells must have, and that do not speak against them.
#[derive(Debug, serde::Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct Expected {
    /// The patterns of the cells.
    #[serde(default)]
    #[schemars(required)]
    pub(super) cells: More<String>,
    /// The findings, by their names in the verdict: `never-started`.
    #[serde(default)]
    #[schemars(required)]
    pub(super) verdict: More<OneOf<Finding>>,
}

/// A metric: its formula, or that with what it is called on pages and plots.
#[derive(Debug, serde::Deserialize, JsonSchema)]
#[serde(
    deny_unknown_fields,
    expecting = "a formula, or a table with `of`, `title` and `unit`"
)]
#[schemars(transform = or_formula)]
pub(crate) struct Metric {
    /// Its formula: `goodput_mbit of flow/first`.
    pub(super) of: Required<String>,
    /// What it is, in a few words.
    pub(super) title: Optional<String>,
    /// What it is counted in: `ms`.
    pub(super) unit: Optional<String>,
}

/// The schema of a table for which its formula may stand.
fn or_formula(schema: &mut Schema) {
    *schema = json_schema!({ "if": { "type": "string" }, "else": schema });
}

/// Metrics drawn against an axis of the matrix: published figures as points with
/// their tolerance, measured ones as medians with the spread over seeds.
#[derive(Debug, serde::Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct Figure {
    /// What it shows, in a line.
    pub(super) title: Optional<String>,
    /// What is drawn upwards; of several metrics, each is a line.
    #[serde(default)]
    #[schemars(required)]
    pub(super) metrics: More<String>,
    /// The axis that is drawn across.
    pub(super) x: Required<More<String>>,
    /// The axes whose values are lines.
    pub(super) by: Optional<More<String>>,
    /// The axes whose values have drawings of their own.
    #[serde(default)]
    pub(super) panels: More<String>,
    /// The pattern of the cells that are drawn; all by default.
    pub(super) cells: Optional<String>,
}

/// What a campaign shows. Sentences may have figures in them: `{METRIC[CELL]}` is what was
/// measured, over a pattern of cells from the least to the greatest, `{published METRIC[CELL]}`
/// what is published.
#[derive(Debug, serde::Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct KeyFinding {
    /// It, in a line.
    pub(super) title: Required<String>,
    /// How grave it is, as measured.
    pub(super) severity: Required<String>,
    /// Under which conditions.
    pub(super) when: Optional<String>,
    /// What cures it.
    pub(super) cure: Optional<String>,
    /// The checks and tolerances by which it holds, by their names.
    #[serde(default)]
    #[schemars(required)]
    pub(super) checks: More<String>,
}

/// A shape that measured figures must have.
#[derive(Debug, serde::Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct Check {
    /// What it is called: `AC1`.
    pub(super) id: Required<String>,
    /// What it says, in a line.
    pub(super) text: Required<String>,
    /// Comparisons of figures, `METRIC[CELL]`, all of which must hold: `65 <=
    /// mean_ms[base] <= 76`, `a_ms[x] > a_ms[y] > a_ms[z]`.
    #[serde(default)]
    #[schemars(required)]
    pub(super) holds: More<String>,
    /// Whether the campaign fails if it does not hold; true by default.
    pub(super) gate: Optional<bool>,
    /// Why it is so, or why a figure misses it.
    pub(super) source: Optional<String>,
}

/// A table of published figures.
#[derive(Debug, serde::Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct Published {
    /// A CSV file beside the campaign's.
    pub(super) file: Required<String>,
    /// The words of a cell's row, by column, with words to fill in.
    pub(super) row: Required<IndexMap<String, At<String>>>,
    /// The column that holds each metric. A formula without a column is worked
    /// out of published metrics.
    pub(super) metric: Required<IndexMap<String, At<String>>>,
}

/// Cells that are alike but for one axis, held against each other on the live
/// engine.
#[derive(Debug, serde::Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct Pair {
    /// The axis that separates the two sides.
    pub(super) axis: Required<String>,
    /// Its value on the side that is judged.
    pub(super) judge: Required<String>,
    /// Its value on the side that is known, and that is held against itself.
    pub(super) against: Required<String>,
}

/// What a group of cells must reach.
#[derive(Debug, serde::Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct Tolerance {
    /// What the group is called.
    pub(super) name: Optional<String>,
    /// `published` (the default): the published figure and the measured one;
    /// `engines`: the simulator's and the live engine's; `pair`: those of the
    /// two cells of a `[pair]`. The last two `narrows compare` judges.
    pub(super) between: Optional<Between>,
    /// The pattern of its cells; of pairs, of their values on the other axes.
    pub(super) cells: Required<String>,
    /// The metric that is judged.
    pub(super) metric: Required<String>,
    /// `5 points`, `25 percent or 1 points`, `factor 1.6`, `odds factor 1.6`; of several, all must hold.
    /// Between the cells of a pair it may be left out: then the known side's
    /// own spread is the band.
    #[serde(default)]
    pub(super) within: Optional<More<Words<Band>>>,
    /// How many cells must be inside: `21 of 24`; all by default.
    pub(super) at_least: Optional<Words<AtLeast>>,
    /// Why the band is as wide as it is.
    pub(super) source: Optional<String>,
}
