//! Two-way boxes between real hosts: their kernels' connections go through `nat`, and do
//! path MTU discovery by what `mtu` answers. Needs root, or a user namespace, and TUN.
use std::collections::BTreeMap;
use std::net::IpAddr;

use narrows_core::{DropCause, Event, EventSink, FlowId, PacketId};
use narrows_live::{LiveError, RunHandle};
use narrows_scenario::{Draft, Plan};
use narrows_units::Instant;
use narrows_wire::{Ip, ip};

fn plan(middle: [&str; 2], flow: &str) -> Plan {
    let [up, down] = middle;
    let text = format!(
        "version = 1\nname = \"test\"\nduration = \"1500ms\"\n\
         [[link]]\nname = \"access\"\nends = [\"client\", \"router\"]\n\
         up = [\"netem delay 2ms\", \"tap inside\", {up}, \"tap outside\"]\n\
         down = [\"tap outside\", {down}, \"tap inside\", \"netem delay 2ms\"]\n\
         [[link]]\nname = \"core\"\nends = [\"router\", \"server\"]\n\
         up = [\"rate 20Mbit queue fq_codel\"]\ndown = [\"rate 20Mbit queue fq_codel\"]\n\
         [[flow]]\nname = \"f\"\n{flow}\ncc = \"kernel:reno\"\ntraffic = \"bytes 500000\"\n"
    );
    match Draft::read("test.toml", text.as_bytes()).and_then(|d| d.check()) {
        Ok(plan) => plan,
        Err(refusal) => panic!("{refusal:?}\n{text}"),
    }
}

const ESP: u8 = 50;

#[derive(Default)]
struct Record {
    delivered: u64,
    finished: Vec<bool>,
    drops: BTreeMap<String, u32>,
    /// Of TCP: whose it was, and its addresses at each tap.
    tapped: BTreeMap<PacketId, Vec<(u32, [IpAddr; 2])>>,
    strangers: u32,
    /// Of ESP: whose it was.
    wrapped: Vec<Option<FlowId>>,
    /// TCP packets that reached a host, and were seen at the taps.
    known: u32,
}

impl EventSink for Record {
    fn record(&mut self, _: Instant, event: Event<'_>) {
        match event {
            Event::Delivered { bytes, .. } => self.delivered += bytes,
            Event::Finished { complete, .. } => self.finished.push(complete),
            Event::Dropped { cause, .. } => {
                *self.drops.entry(format!("{cause:?}")).or_default() += 1;
            }
            Event::Tapped { tap, packet, .. } => {
                let read = Ip::parse(&packet.bytes).unwrap();
                if read.protocol == ip::TCP {
                    self.strangers += u32::from(packet.flow != Some(FlowId(0)));
                    let addresses = [read.source, read.destination];
                    let seen = self.tapped.entry(packet.id).or_default();
                    seen.push((tap.0, addresses));
                } else if read.protocol == ESP {
                    self.wrapped.push(packet.flow);
                }
            }
            Event::Received { packet, .. } if packet.flow == Some(FlowId(0)) => {
                self.known += u32::from(self.tapped.contains_key(&packet.id));
            }
            _ => {}
        }
    }
}

fn run(test: &str, plan: &Plan) -> Option<Record> {
    let mut record = Record::default();
    match narrows_live::run(plan, 1, &mut record, &RunHandle::default()) {
        Ok(_) => Some(record),
        Err(error) if LiveError::is_of_the_machine(&error) => {
            eprintln!("skipped: {test}: {error}");
            None
        }
        Err(error) => panic!("{error}"),
    }
}

#[test]
fn a_kernel_s_flow_through_nat_keeps_its_name_and_its_packets_their_identity() {
    let name = "a_kernel_s_flow_through_nat_keeps_its_name_and_its_packets_their_identity";
    let up = "from = \"client\"\nto = \"server\"";
    let down = "from = \"server\"\nto = \"client\"\nopens = \"client\"";
    for (ends, version) in [(up, 4), (up, 6), (down, 4)] {
        let plan = plan(["\"nat\""; 2], &format!("{ends}\nip = {version}"));
        let own = plan.boxes()[0].addresses;
        let client: [IpAddr; 2] = [plan.hosts[0].ipv4.into(), plan.hosts[0].ipv6.into()];
        let Some(record) = run(name, &plan) else {
            return;
        };
        assert_eq!(record.finished, [true], "{ends} {version}");
        assert_eq!(record.strangers, 0, "all packets are the flow's");
        let both = record.tapped.values().filter(|seen| seen.len() == 2);
        assert!(both.clone().count() > 300);
        for seen in both {
            let has = |whose: &[IpAddr]| seen.iter().any(|s| s.1.iter().any(|a| whose.contains(a)));
            assert!(has(&own) && has(&client), "{seen:?}");
        }
        assert!(record.known > 300, "they reach the hosts as what they are");
    }
}

#[test]
fn nobody_comes_in_through_nat_unasked() {
    let flow = "from = \"client\"\nto = \"server\"\nopens = \"server\"";
    let Some(record) = run(
        "nobody_comes_in_through_nat_unasked",
        &plan(["\"nat\""; 2], flow),
    ) else {
        return;
    };
    assert_eq!(record.delivered, 0);
    assert!(
        record
            .drops
            .contains_key(&format!("{:?}", DropCause::Policy))
    );
}

#[test]
fn a_kernel_s_tcp_learns_the_mtu_that_a_box_reports_and_stalls_at_a_silent_one() {
    let name = "a_kernel_s_tcp_learns_the_mtu_that_a_box_reports_and_stalls_at_a_silent_one";
    for version in [4, 6] {
        let flow = format!("from = \"client\"\nto = \"server\"\nip = {version}");
        let Some(record) = run(name, &plan(["\"mtu 1400\""; 2], &flow)) else {
            return;
        };
        assert_eq!(record.finished, [true], "IPv{version}");
        assert!(record.drops[&format!("{:?}", DropCause::TooBig)] > 0);
        let silent = run(name, &plan(["\"mtu 1400 silent\""; 2], &flow)).expect("as before");
        assert_eq!(silent.delivered, 0);
        assert!(silent.drops[&format!("{:?}", DropCause::TooBig)] > 0);
    }
}

#[test]
fn path_mtu_discovery_works_through_nat_between_kernels() {
    let name = "path_mtu_discovery_works_through_nat_between_kernels";
    let flow = "from = \"client\"\nto = \"server\"";
    let plan = plan(["\"nat\", \"mtu 1400\"", "\"mtu 1400\", \"nat\""], flow);
    if let Some(record) = run(name, &plan) {
        assert_eq!(record.finished, [true]);
    }
}

#[test]
fn a_kernel_s_flow_through_a_tunnel_learns_its_mtu_and_is_known_in_it() {
    let name = "a_kernel_s_flow_through_a_tunnel_learns_its_mtu_and_is_known_in_it";
    let middle = "\"tunnel ipsec replay 64\", \"tap mid\", \"tunnel end\"";
    for version in [4, 6] {
        let flow = format!("from = \"client\"\nto = \"server\"\nip = {version}");
        let Some(record) = run(name, &plan([middle; 2], &flow)) else {
            return;
        };
        assert_eq!(record.finished, [true], "IPv{version}");
        assert!(record.drops[&format!("{:?}", DropCause::TooBig)] > 0);
        assert!(
            !record
                .drops
                .contains_key(&format!("{:?}", DropCause::Replay))
        );
        // There and back, each packet once.
        assert!(record.wrapped.len() > 450, "{}", record.wrapped.len());
        let ours = record.wrapped.iter().filter(|f| **f == Some(FlowId(0)));
        assert_eq!(ours.count(), record.wrapped.len());
        assert!(record.known > 300, "they leave it as what they are");
    }
}
