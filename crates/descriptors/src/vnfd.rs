//! Descriptors of virtual network functions by the model of ETSI GS NFV-SOL 006, and as Open
//! Source MANO packs them since release NINE.

use std::fmt::Write;

use narrows_scenario::Plan;

use crate::left_out;
use crate::nemo::Flat;
use crate::outline::Outline;
use crate::quote::{comment, string};
use crate::{Lost, Written, lost};

/// Memory and processors of every machine, which neither a scenario nor an intent has (our choice).
const CPUS: u32 = 1;
const MEMORY_GIB: &str = "1.0";
const STORAGE_GIB: u32 = 10;

/// A descriptor: machines, links between them, and ports that lead out.
#[derive(Debug, Default)]
struct Vnfd {
    id: String,
    machines: Vec<Machine>,
    links: Vec<String>,
    /// Name, machine, and port of the machine.
    ports: Vec<(String, usize, usize)>,
    lost: Vec<Lost>,
}

#[derive(Debug)]
struct Machine {
    name: String,
    image: String,
    /// Interfaces, each with the link that it is at, if it is at one.
    interfaces: Vec<(String, Option<usize>)>,
}

/// The descriptor of a service of intents.
pub(crate) fn of_service(service: &Flat, osm: bool) -> Written {
    let mut vnfd = Vnfd {
        id: service.name.clone(),
        ..Vnfd::default()
    };
    for vnfc in &service.vnfcs {
        let name = |(port, interface): &(String, String)| match interface.is_empty() {
            true => port.clone(),
            false => interface.clone(),
        };
        vnfd.machines.push(Machine {
            name: vnfc.name.clone(),
            image: vnfc.model.clone(),
            interfaces: vnfc.ports.iter().map(|port| (name(port), None)).collect(),
        });
    }
    for (number, link) in service.links.iter().enumerate() {
        vnfd.links.push(link.name.clone());
        for (vnfc, port) in link.ends {
            vnfd.machines[vnfc].interfaces[port].1 = Some(number);
        }
    }
    let ports = service.ports.iter();
    vnfd.ports = ports
        .map(|port| (port.name.clone(), port.end.0, port.end.1))
        .collect();
    for vnfc in &service.vnfcs {
        let why = "its descriptor is not opened: image, processors and memory are placeholders";
        if !vnfd.lost.iter().any(|one| one.what == vnfc.vnfd) {
            vnfd.lost.push(lost(vnfc.vnfd.clone(), why));
        }
    }
    for (of, key) in service.properties() {
        let why = "a property of the intents, for which a descriptor has no place";
        vnfd.lost.push(lost(format!("{of}/{key}"), why));
    }
    vnfd.written(osm)
}

/// The descriptor of a scenario: its hosts as machines.
pub(crate) fn of_plan(plan: &Plan, osm: bool) -> Written {
    let outline = Outline::of(plan);
    let machines = plan.hosts.iter().map(|host| Machine {
        name: host.name.clone(),
        image: if host.router { "router" } else { "host" }.to_owned(),
        interfaces: Vec::new(),
    });
    let mut vnfd = Vnfd {
        id: plan.name.clone(),
        machines: machines.collect(),
        ..Vnfd::default()
    };
    for (number, link) in plan.links.iter().enumerate() {
        vnfd.links.push(link.name.clone());
        for end in [link.ends.0, link.ends.1] {
            let interfaces = &mut vnfd.machines[end.0].interfaces;
            interfaces.push((format!("eth{}", interfaces.len() + 1), Some(number)));
        }
        for element in link.up.iter().chain(&link.down) {
            let why = format!("`{}`: a descriptor has no elements of links", element.spec);
            let again = vnfd.lost.iter().any(|one| one.what == element.name);
            if !again {
                vnfd.lost.push(lost(element.name.clone(), why));
            }
        }
    }
    for node in &outline.nodes {
        let keys = ["is", "ipv4", "ipv6"];
        let why = "a descriptor has neither addresses nor what a node shares";
        vnfd.lost.extend(left_out::of_node(node, &keys, why));
    }
    for link in &outline.links {
        let said = [("mtu", link.mtu.is_some()), ("datapath", link.kernel)];
        for (key, _) in said.into_iter().filter(|(_, said)| *said) {
            let what = format!("link/{}/{key}", link.name);
            vnfd.lost.push(lost(what, "a descriptor's links have none"));
        }
    }
    for (key, value) in &left_out::tables(&outline) {
        let why = match left_out::count(value) {
            Some(count) => {
                format!("{count} of it: a descriptor says what there is, not what it does")
            }
            None => "a descriptor says what there is, not what it does".to_owned(),
        };
        vnfd.lost.push(lost(key.clone(), why));
    }
    vnfd.written(osm)
}

impl Vnfd {
    fn written(mut self, osm: bool) -> Written {
        if self.ports.is_empty() {
            if let Some(first) = self.machines.first_mut() {
                // A descriptor has a port that leads out, by which it is managed.
                first.interfaces.push(("mgmt".to_owned(), None));
                self.ports
                    .push(("mgmt".to_owned(), 0, first.interfaces.len() - 1));
                let why = "a port for management, which a descriptor has to have, was added";
                self.lost.push(lost("mgmt", why));
            }
        }
        let mut file = match osm {
            true => comment(
                "#",
                "A VNF descriptor for Open Source MANO (release NINE or later).",
            ),
            false => comment("#", "A VNF descriptor by the model of ETSI GS NFV-SOL 006."),
        };
        file += &crate::named("#", "What is not here, or not as it was:", &self.lost);
        let (indent, first) = match osm {
            true => ("  ", "vnfd:\n"),
            false => ("      ", "etsi-nfv-descriptors:nfv:\n  vnfd:\n    - "),
        };
        file += first;
        let body = self.body(osm);
        for (number, line) in body.lines().enumerate() {
            match (number, osm) {
                (0, false) => writeln!(file, "{line}"),
                _ => writeln!(file, "{indent}{line}"),
            }
            .ok();
        }
        Written {
            text: file,
            lost: self.lost,
        }
    }

    /// The name of an interface that no other machine has.
    fn point(&self, machine: usize, interface: usize) -> String {
        let machine = &self.machines[machine];
        string(&format!(
            "{}-{}",
            machine.name, machine.interfaces[interface].0
        ))
    }

    fn body(&self, osm: bool) -> String {
        let mut text = String::new();
        let mut line = |indent: usize, words: String| {
            writeln!(text, "{:indent$}{words}", "").ok();
        };
        line(0, format!("id: {}", string(&self.id)));
        line(0, "provider: narrows".to_owned());
        line(0, format!("product-name: {}", string(&self.id)));
        line(0, "software-version: \"1.0\"".to_owned());
        line(0, "version: \"1.0\"".to_owned());
        if osm {
            let management = self.ports.iter().find(|(name, ..)| name.contains("mgmt"));
            if let Some((name, ..)) = management.or(self.ports.first()) {
                line(0, format!("mgmt-cp: {}", string(name)));
            }
        } else {
            line(0, "vnfm-info: [any]".to_owned());
        }
        line(0, "vdu:".to_owned());
        for (place, machine) in self.machines.iter().enumerate() {
            line(0, format!("- id: {}", string(&machine.name)));
            line(2, format!("name: {}", string(&machine.name)));
            if osm {
                line(2, format!("sw-image-desc: {}", string(&machine.image)));
                line(2, "virtual-compute-desc: compute".to_owned());
                line(2, "virtual-storage-desc: [storage]".to_owned());
            }
            line(2, "int-cpd:".to_owned());
            for (port, (interface, link)) in machine.interfaces.iter().enumerate() {
                line(2, format!("- id: {}", self.point(place, port)));
                if let Some(link) = link {
                    line(
                        4,
                        format!("int-virtual-link-desc: {}", string(&self.links[*link])),
                    );
                }
                if osm {
                    line(4, "virtual-network-interface-requirement:".to_owned());
                    line(4, format!("- name: {}", string(interface)));
                    line(6, format!("position: {}", port + 1));
                    line(6, "virtual-interface:".to_owned());
                    line(8, "type: PARAVIRT".to_owned());
                } else {
                    line(4, "layer-protocol: [ipv4]".to_owned());
                    line(4, "virtual-network-interface-requirement:".to_owned());
                    line(4, format!("- name: {}", string(interface)));
                    line(6, "network-interface-requirements:".to_owned());
                    line(6, "- key: position".to_owned());
                    line(8, format!("value: \"{}\"", port + 1));
                }
            }
        }
        // By SOL 006 an image has the digest of its file, which nobody here knows, and what a
        // machine computes with is held against its image.
        if osm {
            line(0, "virtual-compute-desc:\n- id: compute".to_owned());
            line(2, format!("virtual-cpu:\n    num-virtual-cpu: {CPUS}"));
            line(2, format!("virtual-memory:\n    size: {MEMORY_GIB}"));
            line(0, "virtual-storage-desc:\n- id: storage".to_owned());
            line(2, format!("size-of-storage: {STORAGE_GIB}"));
            line(0, "sw-image-desc:".to_owned());
            let mut images: Vec<&str> = self.machines.iter().map(|m| m.image.as_str()).collect();
            images.sort_unstable();
            images.dedup();
            for image in images {
                line(0, format!("- id: {}", string(image)));
                line(2, format!("name: {}", string(image)));
                line(2, format!("image: {}", string(image)));
                line(2, "version: \"1.0\"".to_owned());
            }
        }
        if !self.links.is_empty() {
            line(0, "int-virtual-link-desc:".to_owned());
        }
        for link in &self.links {
            line(0, format!("- id: {}", string(link)));
            if !osm {
                line(2, "flavour:\n  - id: default".to_owned());
                line(
                    2,
                    "connectivity-type:\n    layer-protocol: [ipv4]\n    flow-pattern: line"
                        .to_owned(),
                );
                line(
                    2,
                    "nfvi-maintenance-info:\n    impact-notification-lead-time: 0".to_owned(),
                );
            }
        }
        line(0, "ext-cpd:".to_owned());
        for (name, machine, interface) in &self.ports {
            line(0, format!("- id: {}", string(name)));
            line(2, "int-cpd:".to_owned());
            line(
                4,
                format!("vdu-id: {}", string(&self.machines[*machine].name)),
            );
            line(4, format!("cpd: {}", self.point(*machine, *interface)));
            if !osm {
                line(2, "layer-protocol: [ipv4]".to_owned());
            }
        }
        line(0, "df:".to_owned());
        line(0, "- id: default".to_owned());
        line(2, "vdu-profile:".to_owned());
        for machine in &self.machines {
            line(2, format!("- id: {}", string(&machine.name)));
            line(4, "min-number-of-instances: 1".to_owned());
            line(4, "max-number-of-instances: 1".to_owned());
            if !osm {
                line(4, "nfvi-maintenance-info:".to_owned());
                line(6, "impact-notification-lead-time: 0".to_owned());
            }
        }
        line(2, "instantiation-level:".to_owned());
        line(2, "- id: default".to_owned());
        line(4, "vdu-level:".to_owned());
        for machine in &self.machines {
            line(4, format!("- vdu-id: {}", string(&machine.name)));
            line(6, "number-of-instances: 1".to_owned());
        }
        line(2, "default-instantiation-level: default".to_owned());
        if !osm {
            // The model asks for a parameter of each operation on snapshots.
            line(2, "lcm-operations-configuration:".to_owned());
            for operation in ["create-snapshot", "revert-to-snapshot"] {
                line(4, format!("{operation}-vnf-op-config:"));
                line(6, "parameter:\n      - key: none".to_owned());
            }
        }
        text
    }
}
