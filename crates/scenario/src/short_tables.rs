//! Tables that are an application with its kind said: `[[request]]` is an `[[app]]` of the kind
//! `request`, and called `app/NAME` everywhere.

use narrows_app::APP_KINDS;

use crate::refusal::Refusal;
use crate::tree::{Node, Value};

/// Has `root` say each of them as an `[[app]]`, after those that are said so.
///
/// # Errors
/// If one of them gives a `kind`.
pub(crate) fn expand(root: &mut Node) -> Result<(), Refusal> {
    for kind in APP_KINDS.iter().map(|kind| kind.name) {
        let tables = |node: &Node| match &node.value {
            Value::List(list) => list.iter().all(|n| matches!(n.value, Value::Table(_))),
            _ => false,
        };
        // What is no list of tables is refused as an unknown key.
        if !root.at(kind).is_some_and(tables) {
            continue;
        }
        let Some(Node {
            value: Value::List(list),
            spot,
        }) = root.take(kind)
        else {
            continue;
        };
        let mut apps = Vec::new();
        for mut table in list {
            if let Some(given) = table.at("kind") {
                let allowed = format!("nothing, for [[{kind}]] says it");
                let key = format!("{kind}/kind");
                return Err(Refusal::at(&given.spot, key, given.describe(), allowed));
            }
            let says = Node::text(kind, &table.spot);
            table.put("kind", says);
            apps.push(table);
        }
        match root.at_mut("app").map(|node| &mut node.value) {
            Some(Value::List(before)) => before.extend(apps),
            // What else `app` is, is refused.
            Some(_) => {}
            None => root.put("app", Node::list(apps, &spot)),
        }
    }
    Ok(())
}
