//! A scenario as services and networks of Docker Compose
//! (<https://docs.docker.com/reference/compose-file/>).

use std::fmt::Write;

use narrows_scenario::Plan;

use crate::Written;
use crate::quote::{command, comment, plain_name, string};
use crate::wiring::{Wiring, switches};

/// An image with ip, tc and iperf3 in it.
const IMAGE: &str = "nicolaka/netshoot:v0.13";

/// Writes a file with a service for each host and each element, and a network for each wire
/// between two.
pub(crate) fn write(plan: &Plan) -> Written {
    let wiring = Wiring::of(plan, true);
    let mut file = comment(
        "#",
        &format!("The scenario \"{}\" for Docker Compose.", plan.name),
    );
    file += &comment(
        "#",
        "`docker compose up -d`, then `docker compose exec HOST sh`. Needs Docker Engine 28.1 and\n\
         Compose 2.36, which give interfaces their names (`interface_name`). Between the two hosts\n\
         of a link is a row of services that forward, one for each element; each pair has a network\n\
         of its own.",
    );
    for (kind, needs) in &wiring.needs {
        file += &comment("#", &format!("`tc … {kind}` needs {needs}."));
    }
    file += &crate::named("#", "What is not here:", &wiring.lost);
    let project = plain_name(&plan.name.to_lowercase(), "-_", |_| false);
    writeln!(file, "name: {}\nservices:", value(&project)).ok();
    for (place, node) in wiring.nodes.iter().enumerate() {
        file += &comment("  #", &node.about);
        writeln!(
            file,
            "  {}:\n    image: {}",
            value(&node.name),
            value(IMAGE)
        )
        .ok();
        writeln!(
            file,
            "    hostname: {}\n    cap_add: [NET_ADMIN]",
            value(&hostname(&node.name))
        )
        .ok();
        file += "    sysctls:\n";
        for (switch, number) in switches(node) {
            let (switch, number) = (switch.replace('/', "."), value(number));
            writeln!(file, "      {switch}: {number}").ok();
        }
        let (ip, tc) = wiring.set_up(place);
        let mut lines = Vec::new();
        for words in ip {
            // Docker sets the networks' own addresses, and a default route that is replaced.
            let words = match &words[..] {
                [address, _, _, _, device] if address == "address" && device != "lo" => continue,
                [link, ..] if link == "link" => continue,
                [route, _, rest @ ..] if route == "route" => {
                    [&["route".to_owned(), "replace".to_owned()], rest].concat()
                }
                words => words.to_vec(),
            };
            lines.push(format!("ip {}", command(&words)));
        }
        lines.extend(tc.iter().map(|words| format!("tc {}", command(words))));
        lines.push("exec sleep infinity".to_owned());
        file += "    command:\n      - sh\n      - -ec\n";
        writeln!(file, "      - {}", value(&lines.join("\n"))).ok();
        file += "    networks:\n";
        for (number, wire) in wiring.wires.iter().enumerate() {
            for end in wire.ends.iter().filter(|end| end.node == place) {
                writeln!(
                    file,
                    "      wire-{}:\n        ipv4_address: {}\n        interface_name: {}",
                    number + 1,
                    value(&end.address.to_string()),
                    value(&end.interface)
                )
                .ok();
            }
        }
    }
    file += "networks:\n";
    for (number, wire) in wiring.wires.iter().enumerate() {
        let network = format!("{}/29", wire.network);
        writeln!(
            file,
            "  wire-{}:\n    driver_opts:\n      com.docker.network.driver.mtu: {}\n    ipam:\n      \
             config:\n        - subnet: {}",
            number + 1,
            value(&wire.mtu.to_string()),
            value(&network)
        )
        .ok();
    }
    let lost = wiring.lost;
    Written { text: file, lost }
}

/// A string in which Compose replaces nothing.
fn value(text: &str) -> String {
    string(&text.replace('$', "$$"))
}

/// A name of RFC 1123.
fn hostname(name: &str) -> String {
    name.replace(['_', '.'], "-").trim_matches('-').to_owned()
}
