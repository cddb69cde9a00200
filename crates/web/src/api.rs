//! All requests: what each is answered by, and their description. Routes and description are
//! one list.

use axum::Router;
use axum::response::IntoResponse;
use axum::routing::{MethodRouter, delete, get, post, put};
use schemars::generate::SchemaSettings;
use schemars::{JsonSchema, Schema, SchemaGenerator};
use serde_json::{Map, Value, json};

use crate::error::{ApiError, Refused};
use crate::state::Shared;
use crate::{
    check, documents, engines, jobs, packets, page, results, store, stream, text, topologies,
};

/// A kind of request.
struct Endpoint {
    method: &'static str,
    path: &'static str,
    about: &'static str,
    route: MethodRouter<Shared>,
    takes: Option<fn(&mut SchemaGenerator) -> Schema>,
    /// What stands behind `?`.
    asks: Option<fn(&mut SchemaGenerator) -> Schema>,
    gives: Gives,
}

/// What an answer holds.
enum Gives {
    Json(fn(&mut SchemaGenerator) -> Schema),
    /// Content of this type.
    Other(&'static str),
}

impl Endpoint {
    fn new(method: &'static str, path: &'static str, route: MethodRouter<Shared>) -> Self {
        Self {
            method,
            path,
            about: "",
            route,
            takes: None,
            asks: None,
            gives: Gives::Json(schema_of::<Value>),
        }
    }

    fn about(self, about: &'static str) -> Self {
        Self { about, ..self }
    }

    fn takes<T: JsonSchema>(self) -> Self {
        Self {
            takes: Some(schema_of::<T>),
            ..self
        }
    }

    fn asks<T: JsonSchema>(self) -> Self {
        Self {
            asks: Some(|_| schemars::schema_for!(T)),
            ..self
        }
    }

    fn gives<T: JsonSchema>(self) -> Self {
        Self {
            gives: Gives::Json(schema_of::<T>),
            ..self
        }
    }

    fn gives_other(self, kind: &'static str) -> Self {
        Self {
            gives: Gives::Other(kind),
            ..self
        }
    }
}

fn schema_of<T: JsonSchema>(generator: &mut SchemaGenerator) -> Schema {
    generator.subschema_for::<T>()
}

/// All of them.
fn endpoints() -> Vec<Endpoint> {
    let of = Endpoint::new;
    vec![
        of("get", "/api/v1/openapi.json", get(openapi)).about("This description."),
        of("get", "/api/v1/about", get(engines::about))
            .about("The version, the folder, and the engines that this process can use.")
            .gives::<engines::About>(),
        of("get", "/api/v1/documents", get(documents::list))
            .about("The documents of the folder and of the catalogue.")
            .gives::<documents::List>(),
        of("get", "/api/v1/documents/{*id}", get(documents::get))
            .about("A document: `file/PATH` or `catalog/NAME`.")
            .gives::<documents::Document>(),
        of("put", "/api/v1/documents/{*id}", put(documents::put))
            .about("Writes a file of the folder. 409 if it is not what `revision` says.")
            .takes::<documents::Put>()
            .gives::<documents::Written>(),
        of("put", "/api/v1/layouts/{*id}", put(documents::put_layout))
            .about("Writes where the nodes of a document are drawn: a file beside it.")
            .takes::<documents::Layout>(),
        of("post", "/api/v1/check", post(check::check))
            .about("What is wrong with a text, and what it is about, for drawing.")
            .takes::<check::Text>()
            .gives::<check::Checked>(),
        of("post", "/api/v1/edit", post(text::edit))
            .about("Changes a text by name; its comments and order stay.")
            .takes::<text::Edits>()
            .gives::<text::Edited>(),
        of("get", "/api/v1/vocabulary", get(text::words))
            .about("All that may be written in a scenario.")
            .gives::<narrows::scenario::Vocabulary>(),
        of("post", "/api/v1/complete", post(text::completions))
            .about("What can stand at a place of a text.")
            .takes::<text::Written>()
            .gives::<text::Completions>(),
        of("post", "/api/v1/jobs", post(jobs::start))
            .about("Begins a run, a campaign or a comparison.")
            .takes::<jobs::Start>()
            .gives::<jobs::Begun>(),
        of("get", "/api/v1/jobs", get(jobs::list))
            .about("All jobs, the newest first.")
            .gives::<jobs::JobList>(),
        of("get", "/api/v1/jobs/{id}", get(jobs::get))
            .about("A job: how far it is, what it came to, and the text that it runs.")
            .gives::<jobs::JobFull>(),
        of("delete", "/api/v1/jobs/{id}", delete(jobs::forget))
            .about("Ends a job and forgets it; its results stay."),
        of("get", "/api/v1/jobs/{id}/text", get(jobs::text))
            .about("The text that a job runs, with the changes that were made."),
        of("post", "/api/v1/jobs/{id}/control", post(jobs::control))
            .about("Pauses a job, lets it go on, for a while or at another speed, or ends it.")
            .takes::<jobs::Control>()
            .gives::<jobs::JobAbout>(),
        of("post", "/api/v1/jobs/{id}/change", post(jobs::change))
            .about("Changes elements of a run that goes on: a [[change]] of its text.")
            .takes::<jobs::Target>()
            .gives::<jobs::Changed>(),
        of("get", "/api/v1/jobs/{id}/packets", get(packets::list))
            .about("What happened to packets of a run in a span of time.")
            .asks::<packets::Asked>()
            .gives::<packets::Packets>(),
        of(
            "get",
            "/api/v1/jobs/{id}/packets/{packet}",
            get(packets::way),
        )
        .about("What happened to one packet.")
        .gives::<packets::Way>(),
        of("get", "/api/v1/stream", get(stream::stream))
            .about("Events of all jobs: `job`, `samples`, `files`, `topologies`, `skipped`.")
            .gives_other("text/event-stream"),
        of("get", "/api/v1/results", get(results::list))
            .about("The results in the folder, the newest first.")
            .gives::<results::List>(),
        of("get", "/api/v1/store", get(store::list))
            .about("The newest cells of the store that campaigns keep their runs in.")
            .gives::<store::Cells>(),
        of("get", "/api/v1/store/{cell}", get(store::page))
            .about("The page of such a cell, drawn now.")
            .gives_other("text/html"),
        of("get", "/api/v1/topologies", get(topologies::list))
            .about("The topologies that `narrows up` has brought up, and how hosts are entered.")
            .gives::<topologies::Topologies>(),
        of("get", "/results/{*file}", get(results::file))
            .about("A file of a result, such as its page.")
            .gives_other("*/*"),
        of("get", "/", get(page::index))
            .about("The page; with `?token=` a cookie.")
            .gives_other("text/html"),
        of("get", "/{*file}", get(page::file))
            .about("A file of the page.")
            .gives_other("*/*"),
    ]
}

/// The router of all requests.
pub(crate) fn router() -> Router<Shared> {
    let routed = endpoints().into_iter();
    let router = routed.fold(Router::new(), |router, endpoint| {
        router.route(endpoint.path, endpoint.route)
    });
    let nothing = || async { ApiError::not_found("such address").into_response() };
    router
        .fallback(nothing)
        .method_not_allowed_fallback(|| async {
            let status = axum::http::StatusCode::METHOD_NOT_ALLOWED;
            ApiError::new(status, "this address takes other methods")
                .hint("/api/v1/openapi.json says which")
                .into_response()
        })
}

/// The path as OpenAPI spells it, and its parameters.
fn path_of(path: &str) -> (String, Vec<Value>) {
    let spelled = path.replace("{*", "{");
    let names = spelled
        .split('{')
        .skip(1)
        .filter_map(|part| part.split('}').next());
    let parameters = names.map(|name| {
        json!({ "name": name, "in": "path", "required": true, "schema": { "type": "string" } })
    });
    let parameters = parameters.collect();
    (spelled, parameters)
}

/// The parameters behind `?`, of the keys of a schema.
fn queries(schema: &Schema) -> Vec<Value> {
    let keys = schema
        .get("properties")
        .and_then(Value::as_object)
        .into_iter()
        .flatten();
    let one = |(name, schema): (&String, &Value)| json!({ "name": name, "in": "query", "required": false, "schema": schema });
    keys.map(one).collect()
}

/// The description of all requests, in OpenAPI 3.1.
pub fn describe() -> Value {
    let mut settings = SchemaSettings::draft2020_12();
    settings.definitions_path = "/components/schemas".into();
    let mut generator = settings.into_generator();
    let refused = generator.subschema_for::<Refused>();
    let mut paths = Map::new();
    for endpoint in endpoints() {
        let (path, mut parameters) = path_of(endpoint.path);
        if let Some(asks) = endpoint.asks {
            parameters.extend(queries(&asks(&mut generator)));
        }
        let content = match endpoint.gives {
            Gives::Json(schema) => {
                json!({ "application/json": { "schema": schema(&mut generator) } })
            }
            Gives::Other(kind) => json!({ kind: {} }),
        };
        let mut operation = json!({
            "summary": endpoint.about,
            "parameters": parameters,
            "responses": {
                "200": { "description": "done", "content": content },
                "default": { "$ref": "#/components/responses/refused" },
            },
        });
        if let Some(takes) = endpoint.takes {
            let schema = takes(&mut generator);
            operation["requestBody"] = json!({
                "required": true,
                "content": { "application/json": { "schema": schema } },
            });
        }
        let of_path = paths.entry(path).or_insert_with(|| json!({}));
        of_path[endpoint.method] = operation;
    }
    let error = json!({ "type": "object", "properties": { "error": refused } });
    json!({
        "openapi": "3.1.0",
        "info": { "title": "narrows web", "version": env!("CARGO_PKG_VERSION") },
        "security": [{ "token": [] }, { "cookie": [] }],
        "paths": paths,
        "components": {
            "schemas": generator.take_definitions(true),
            "responses": { "refused": {
                "description": "refused, and why",
                "content": { "application/json": { "schema": error } },
            } },
            "securitySchemes": {
                "token": { "type": "http", "scheme": "bearer" },
                "cookie": { "type": "apiKey", "in": "cookie", "name": "narrows-PORT" },
            },
        },
    })
}

/// Gives the description.
async fn openapi() -> crate::body::Json<Value> {
    crate::body::Json(describe())
}
