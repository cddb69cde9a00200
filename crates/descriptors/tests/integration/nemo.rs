//! Intents of NEMO: flattening, and every refusal where it stands.

use narrows_descriptors::{Flat, Format, export_service, services};

use crate::{read, refused};

/// Two leaves in a composite: the acceptance check of the language's own example.
const TWO: &str = "
CREATE NodeModel left VNFD file:///vnfd/left.yaml;
  ConnectionPoint data at VNFD: eth0; ConnectionPoint mgmt at VNFD: eth1;
CREATE NodeModel right VNFD https://example.org/right.yaml ;
  ConnectionPoint in at VNFD: xe0; ConnectionPoint manage at VNFD: xe1;
CREATE NodeModel both;
  Node a Type left; Node b Type right;
  ConnectionPoint mgmt-a; ConnectionPoint mgmt-b;
  Connection data Type p2p Endnodes a.data, b.in;
  Connection c1 Type p2p Endnodes mgmt-a, a.mgmt;
  Connection c2 Type p2p Endnodes b.manage , mgmt-b;
CREATE Node video Type both;
";

fn flat(text: &str) -> Flat {
    let mut all = services("lab", text).unwrap_or_else(|e| panic!("{}", e.to_line()));
    assert_eq!(all.len(), 1);
    all.remove(0)
}

#[test]
fn a_descriptor_of_intents_names_every_property_that_it_has_not() {
    let text = TWO
        .replace(
            "Node a Type left",
            "Node a Type left Property ipv4: \"10.1.0.1\"",
        )
        .replace(
            "a.data, b.in",
            "a.data, b.in Property narrows-up: \"tap mid\", mtu: 1400",
        )
        .replace(
            "Node video Type both",
            "Node video Type both Property narrows-name: film",
        );
    let lost = export_service(&flat(&text), true).lost;
    for what in [
        "video/narrows-name",
        "a/ipv4",
        "data/mtu",
        "data/narrows-up",
    ] {
        assert!(
            lost.iter().any(|lost| lost.what == what),
            "{what}: {lost:?}"
        );
    }
}

/// Each link as `a.port-b.port`.
fn links(flat: &Flat) -> Vec<String> {
    let end = |(vnfc, port): (usize, usize)| {
        let vnfc = &flat.vnfcs[vnfc];
        format!("{}.{}", vnfc.name, vnfc.ports[port].0)
    };
    let links = flat.links.iter();
    links
        .map(|link| format!("{} - {}", end(link.ends[0]), end(link.ends[1])))
        .collect()
}

#[test]
fn a_composite_of_two_leaves_is_two_machines_one_link_and_two_ports() {
    let flat = flat(TWO);
    let names: Vec<_> = flat.vnfcs.iter().map(|vnfc| vnfc.name.as_str()).collect();
    assert_eq!(names, ["a", "b"]);
    assert_eq!(links(&flat), ["a.data - b.in"]);
    let ports: Vec<_> = flat
        .ports
        .iter()
        .map(|port| (port.name.as_str(), port.end))
        .collect();
    assert_eq!(ports, [("mgmt-a", (0, 1)), ("mgmt-b", (1, 1))]);
    assert!(flat.open.is_empty());
    for osm in [true, false] {
        let text = export_service(&flat, osm).text;
        let tree = narrows_yaml::parse(&text, narrows_yaml::Bounds::default()).expect("YAML");
        let vnfd = match osm {
            true => tree.get("vnfd").expect("vnfd").clone(),
            false => {
                let list = tree
                    .get("etsi-nfv-descriptors:nfv")
                    .and_then(|nfv| nfv.get("vnfd"))
                    .expect("vnfd");
                let narrows_yaml::Value::List(list) = &list.value else {
                    panic!("a list");
                };
                list[0].clone()
            }
        };
        let count = |key: &str| match &vnfd.get(key).expect(key).value {
            narrows_yaml::Value::List(list) => list.len(),
            _ => 0,
        };
        assert_eq!(
            (
                count("vdu"),
                count("int-virtual-link-desc"),
                count("ext-cpd")
            ),
            (2, 1, 2),
            "{text}"
        );
    }
}

#[test]
fn models_in_models_are_unfolded_under_the_names_of_the_way() {
    let text = "
CREATE NodeModel j VNFD file:///j.yaml; ConnectionPoint a at VNFD: m; ConnectionPoint b at VNFD: w;
  ConnectionPoint c at VNFD: e;
CREATE NodeModel sa VNFD file:///sa.yaml; ConnectionPoint in at VNFD: w; ConnectionPoint out at VNFD: m;
  ConnectionPoint mid at VNFD: e;
CREATE NodeModel dmz; Node sa56 Type j; ConnectionPoint inside; ConnectionPoint output;
  ConnectionPoint middle; Connection c1 Type p2p Endnodes inside, sa56.a;
  Connection c2 Type p2p Endnodes sa56.b, output; Connection c3 Type p2p Endnodes sa56.c, middle;
CREATE NodeModel internet; Node dmz Type dmz; Node sa3 Type sa; ConnectionPoint one; ConnectionPoint two;
  Connection c1 Type p2p Endnodes one, dmz.inside;
  Connection c2 Type p2p Endnodes sa3.in, dmz.output Property narrows-up: \"netem delay 1ms\",
    narrows-down: \"netem delay 2ms\";
  Connection c3 Type p2p Endnodes sa3.out, two;
  Connection c4 Type p2p Endnodes dmz.middle, sa3.mid;
CREATE Node net Type internet;
";
    let flat = flat(text);
    let names: Vec<_> = flat.vnfcs.iter().map(|vnfc| vnfc.name.as_str()).collect();
    assert_eq!(names, ["dmz.sa56", "sa3"]);
    // They run as the outermost connection does.
    assert_eq!(
        links(&flat),
        ["sa3.in - dmz.sa56.b", "dmz.sa56.c - sa3.mid"]
    );
    assert_eq!(
        (flat.links[0].name.as_str(), flat.links[1].name.as_str()),
        ("c2", "c4")
    );
    let ports: Vec<_> = flat.ports.iter().map(|port| port.name.as_str()).collect();
    assert_eq!(ports, ["one", "two"]);
    let imported = read(text, Format::Nemo);
    let link = &imported.plan.links[0];
    assert_eq!(imported.plan.host(link.ends.0).name, "sa3");
    assert_eq!(link.up[0].spec.to_string(), "netem delay 1ms");
    assert_eq!(link.down[0].spec.to_string(), "netem delay 2ms");
    assert!(
        imported
            .notes
            .iter()
            .any(|note| note.contains("`one` (dmz.sa56.a)"))
    );
}

/// A chain of `depth` models, each the one before with a port passed through, and at last two of
/// them joined. The outer ones add an element to the way.
fn deep(depth: usize) -> String {
    let mut text =
        "CREATE NodeModel m0 VNFD file:///leaf.yaml; ConnectionPoint p at VNFD: eth0;\n".to_owned();
    for level in 1..=depth {
        let below = level - 1;
        text += &format!(
            "CREATE NodeModel m{level}; Node n Type m{below}; ConnectionPoint p;
             Connection c Type p2p Endnodes n.p, p Property narrows-up: \"up{level}: netem delay 1ms\",
             narrows-down: \"down{level}: netem delay 2ms\";\n"
        );
    }
    text + &format!(
        "CREATE NodeModel top; Node x Type m{depth}; Node y Type m0; Connection out Type p2p Endnodes x.p, y.p;
         CREATE Node all Type top;\n"
    )
}

#[test]
fn ten_models_in_each_other_are_one_link_with_the_elements_of_all() {
    let flat = flat(&deep(10));
    assert_eq!(flat.vnfcs[0].name, format!("x{}", ".n".repeat(10)));
    assert_eq!(links(&flat).len(), 1);
    let plan = read(&deep(10), Format::Nemo).plan;
    let names = |all: &[narrows_scenario::NamedElement]| -> Vec<String> {
        all.iter().map(|e| e.short_name().to_owned()).collect()
    };
    let up: Vec<_> = (1..=10).map(|level| format!("up{level}")).collect();
    let down: Vec<_> = (1..=10).rev().map(|level| format!("down{level}")).collect();
    assert_eq!(names(&plan.links[0].up), up);
    assert_eq!(names(&plan.links[0].down), down);
}

#[test]
fn what_is_deleted_is_gone_and_what_is_updated_is_another() {
    let text = format!("{TWO} CREATE Node more Type both; DELETE Node more;");
    assert_eq!(services("lab", &text).expect("services").len(), 1);
    let text = format!("{TWO} UPDATE Node video Type left;");
    let flat = flat(&text);
    // A leaf alone has all of its ports outside.
    assert_eq!(
        (flat.vnfcs.len(), flat.links.len(), flat.ports.len()),
        (1, 0, 2)
    );
}

#[test]
fn several_nodes_stand_beside_each_other_under_their_names() {
    let text = format!("{TWO} CREATE Node second Type both;");
    let plan = read(&text, Format::Nemo).plan;
    let names: Vec<_> = plan.hosts.iter().map(|host| host.name.as_str()).collect();
    assert_eq!(names, ["video.a", "video.b", "second.a", "second.b"]);
}

#[test]
fn what_is_wrong_is_refused_with_line_and_column() {
    let mut wrong = Vec::new();
    let leaf = "CREATE NodeModel m VNFD file:///m.yaml; ConnectionPoint p at VNFD: e0; ConnectionPoint q at VNFD: e1;\n";
    let of = |text: &str| format!("{leaf}{text}\nCREATE Node all Type c;\n");
    for (text, place, named) in [
        (
            of("CREATE NodeModel c; Node a Type x;"),
            "lab:2:33",
            "unknown model `x`",
        ),
        (
            of("CREATE NodeModel c; Node a Type mm;"),
            "lab:2:33",
            "did you mean `m`?",
        ),
        (
            of(
                "CREATE NodeModel c; Node a Type m; Node b Type m; Connection l Type p2p Endnodes a.p, b.z;",
            ),
            "lab:2:89",
            "unknown port `z`",
        ),
        (
            of("CREATE NodeModel c; Node a Type m; Connection l Type p2p Endnodes a.p, z;"),
            "lab:2:72",
            "unknown port `z`",
        ),
        (
            of("CREATE NodeModel c; Node a Type m; Connection l Type p2p Endnodes a.p, z.p;"),
            "lab:2:72",
            "unknown node `z`",
        ),
        (
            of("CREATE NodeModel c; Node a Type m; Node a Type m;"),
            "lab:2:41",
            "second time",
        ),
        (
            of("CREATE NodeModel m; Node a Type m;"),
            "lab:2:18",
            "line 1 has the same name",
        ),
        (
            of("CREATE NodeModel c; ConnectionPoint p; ConnectionPoint p;"),
            "lab:2:56",
            "second time",
        ),
        (
            of(
                "CREATE NodeModel c; Node a Type m; Node b Type m; Node d Type m;
Connection l Type p2p Endnodes a.p, b.p;
Connection k Type p2p Endnodes a.p, d.p;",
            ),
            "lab:4:34",
            "the port `a.p` for the second time",
        ),
        (
            of(
                "CREATE NodeModel c; Node a Type m; Node b Type m; Connection l Type p2p Endnodes a.p, b.p; Connection l Type p2p Endnodes a.q, b.q;",
            ),
            "lab:2:103",
            "second time",
        ),
        (
            of(
                "CREATE NodeModel c; Node a Type d;\nCREATE NodeModel d; Node a Type e;\nCREATE NodeModel e; Node a Type c;",
            ),
            "lab:4:33",
            "the model `c` in itself",
        ),
        (
            of("CREATE NodeModel c; Node a Type c;"),
            "lab:2:33",
            "in itself",
        ),
        (
            of("CREATE NodeModel c; Connection l Type lan Endnodes a, b;"),
            "lab:2:39",
            "`p2p`",
        ),
        (of("CREATE NodeModel c; Node a Type m"), "lab:3:1", "`;`"),
        (of("DELETE Node nothing;"), "lab:2:13", "was created before"),
        (of("UPDATE NodeModel c;"), "lab:2:18", "write CREATE"),
        (of("CREATE Nodel c;"), "lab:2:8", "`NodeModel` or `Node`"),
        (of("IMPORT Node c;"), "lab:2:1", "`CREATE`"),
        (
            of("CREATE NodeModel c VNFD ../../etc/passwd;"),
            "lab:2:25",
            "`file://`",
        ),
        (
            of("CREATE NodeModel c; Node a Type m Property narrows-is \"x\";"),
            "lab:2:55",
            "`:`",
        ),
        (
            of("CREATE NodeModel c; Node a Type m Property k: \"x;"),
            "lab:2:47",
            "without an end",
        ),
        (
            of("CREATE NodeModel c; Node a Type m Property k: \"\\x\";"),
            "lab:2:48",
            r"`\\x`",
        ),
        (leaf.to_owned(), "lab:2:1", "no node that is created"),
        (
            format!("{leaf}CREATE Node a Type m Property narrows-up: x;"),
            "lab:2:31",
            "`narrows-is`",
        ),
    ] {
        let line = refused(&text, Format::Nemo);
        if !line.starts_with(place) || !line.contains(named) {
            wrong.push(format!("{place}, {named}: {line}"));
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}

#[test]
fn words_of_elements_and_of_the_scenario_are_refused_where_they_stand() {
    let of = |up: &str, rest: &str| {
        format!(
            "CREATE NodeModel m VNFD file:///m.yaml; ConnectionPoint p at VNFD: e0;
CREATE NodeModel c; Node a Type m; Node b Type m;
  Connection l Type p2p Endnodes a.p, b.p Property narrows-up: {up};
CREATE Node all Type c Property narrows-scenario: \"\"\"
duration = \"5s\"
{rest}\"\"\";
"
        )
    };
    let probe = "[[probe]]\nname = \"p\"\nfrom = \"a\"\nto = \"b\"\n";
    assert_eq!(
        read(&of("\"netem delay 1ms\"", probe), Format::Nemo)
            .plan
            .probes
            .len(),
        1
    );
    for (text, place, named) in [
        (
            of("\"netem delay 1ms\", \"netem dellay 1ms\"", probe),
            "lab:3:90",
            "dellay",
        ),
        (
            of("\"rate 5Mbit\", \" \"", probe),
            "lab:3:78",
            "an empty element",
        ),
        (
            of("\"rate 5Mbit\", mtu: 02570", probe),
            "lab:3:83",
            "without a zero",
        ),
        (
            of(
                "\"netem delay 1ms\"",
                "[[probe]]\nname = \"p\"\nfrom = \"a\"\nto = \"zz\"\n",
            ),
            "lab:9:6",
            "`zz`",
        ),
        (
            of("\"netem delay 1ms\"", "[[router]]\nname = \"p\"\n"),
            "lab:6:3",
            "`router`",
        ),
    ] {
        let line = refused(&text, Format::Nemo);
        assert!(
            line.starts_with(place) && line.contains(named),
            "{place}: {line}\n{text}"
        );
    }
}
