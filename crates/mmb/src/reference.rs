//! The field reference of the guide, from the table.

use std::fmt::Write;

use crate::field::{Field, Layer};

/// The layers in the order of the reference.
const LAYERS: [Layer; 10] = [
    Layer::Meta,
    Layer::Frame,
    Layer::Ip,
    Layer::Ip4,
    Layer::Ip6,
    Layer::Icmp,
    Layer::Icmp6,
    Layer::Udp,
    Layer::UdpData,
    Layer::Tcp,
];

/// All fields as tables in Markdown, one for each layer: what a field is, its values, and
/// the targets that take it.
pub fn field_reference() -> String {
    let mut page = String::new();
    for layer in LAYERS {
        let _ = write!(
            page,
            "\n### {}\n\n| Field | Is | Values | Targets |\n|---|---|---|---|\n",
            layer.title()
        );
        for field in Field::all().filter(|field| field.layer() == layer) {
            let targets: [(&str, bool); 5] = [
                ("mod", field.can_be_set()),
                ("add", field.is_option()),
                ("strip", field.is_option()),
                ("map", field.can_be_mapped()),
                ("shuffle", field.can_be_shuffled()),
            ];
            let targets: Vec<_> = targets
                .iter()
                .filter(|(_, takes)| *takes)
                .map(|(word, _)| *word)
                .collect();
            let _ = writeln!(
                page,
                "| `{}` | {} | {} | {} |",
                field.name(),
                field.about(),
                field.values(),
                targets.join(", ")
            );
        }
    }
    page
}
