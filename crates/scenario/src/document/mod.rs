//! The documents: what scenario and campaign files hold. Their keys, types and
//! meaning stand here once; reading, writing, `--set` and the JSON Schema come
//! from these types.

mod app;
mod de;
mod flent;
mod leaf;
mod mix;
mod place;
mod scenario;
mod schema;
mod write;

pub(crate) use app::{App, AppKeys, types};
pub(crate) use de::read;
pub(crate) use flent::Test;
pub(crate) use leaf::{
    Besides, Element, Filling, Grammar, NAME, Name, OneOf, Scalar, Spelled, Whole, Words, grammar,
    schema as leaf_schema,
};
pub(crate) use mix::Mix;
pub(crate) use place::{At, More, Optional, Places, Required};
pub(crate) use scenario::no_such;
pub(crate) use scenario::{
    Capture, Change, EcnRequest, Finding, Flow, Gros, Host, HostModel, Link, Mark, Mode, Proxy,
    Scenario, SizeInBytes,
};
pub(crate) use schema::keys;
pub use schema::schema;
pub(crate) use write::unless;
