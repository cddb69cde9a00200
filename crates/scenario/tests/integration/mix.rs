//! `[[mix]]` in scenario files and `--mix` in a line: the flows and applications that a mix is, and
//! what is refused.

use narrows_scenario::{Draft, Plan, Traffic};

const MIX: &str = "total-bandwidth: 2.5MB\ntotal-time: 60s\nflows:
  - {kind: realtime-audio, percent-bandwidth: 1%, ports-range: 5000-5099, props: {label: rt+voice}}
  - {kind: scavenger, percent-bandwidth: 10%, ports-range: 5200-5299, props: {label: background}}
  - {kind: web-page, percent-bandwidth: 50%, ports-range: 5500-5599, props: {label: page}}
";

const FLOW: &str = "label: segments
client:
  at: [0s, 5s, 15s]
  config: {server-address: h, bytes: 1.8M, dscp: af12}
";

const BASE: &str = "version = 1\nname = \"x\"\nduration = \"60s\"\n\
    [[link]]\nname = \"l\"\nends = [\"home\", \"net\"]\nup = [\"rate 10Mbit\"]\ndown = [\"rate 10Mbit\"]\n";

/// What is checked with these keys in `[[mix]]`, beside the files.
fn check(keys: &str) -> Result<Plan, String> {
    let folder = tempfile::tempdir().unwrap();
    for (name, text) in [
        ("mix.yaml", MIX),
        ("flow.yaml", FLOW),
        ("wrong.yaml", "flows: 3\n"),
    ] {
        std::fs::write(folder.path().join(name), text).unwrap();
    }
    let file = folder.path().join("x.toml");
    let table = format!("[[mix]]\nname = \"m\"\nfrom = \"home\"\nto = \"net\"\n{keys}\n");
    std::fs::write(&file, format!("{BASE}{table}")).unwrap();
    let loaded = narrows_scenario::load(file.to_str().unwrap());
    let plan = loaded.and_then(|loaded| loaded.draft()?.check());
    plan.map_err(|refusal| refusal.to_line())
}

fn plan(keys: &str) -> Plan {
    check(keys).unwrap_or_else(|e| panic!("{e}"))
}

#[test]
fn a_mix_is_a_flow_for_each_stream_and_an_application_for_each_kind_of_clients() {
    let plan = plan("file = \"mix.yaml\"");
    let names: Vec<_> = plan.flows.iter().map(|flow| flow.name.as_str()).collect();
    assert_eq!(
        names,
        [
            "m-rt-voice-1",
            "m-rt-voice-2",
            "m-rt-voice-3",
            "m-background-1",
            "m-background-2"
        ]
    );
    let voice = &plan.flows[0];
    assert_eq!(voice.traffic.to_string(), "cbr rate 64Kbit size 126");
    assert_eq!(
        (
            plan.host(voice.from).name.as_str(),
            plan.host(voice.opens).name.as_str()
        ),
        ("net", "home")
    );
    // Spread over the 15.75 ms between two datagrams.
    let starts: Vec<_> = plan.flows[..3]
        .iter()
        .map(|f| f.start.as_micros())
        .collect();
    assert_eq!(starts, [0, 5_250, 10_500]);
    assert_eq!(plan.flows[3].traffic.to_string(), "writes 1250b every 10ms");
    let page = &plan.apps[0];
    assert_eq!(page.name, "m-page");
    assert_eq!(
        page.spec.to_string(),
        "get bytes 1246000b clients 10 starts every 10s times 6 offsets random"
    );
    assert_eq!(plan.mixes[0].flows, [0, 1, 2, 3, 4]);
    assert_eq!(plan.mixes[0].apps, [0]);
}

#[test]
fn the_keys_of_a_mix_are_those_of_its_flows_and_applications() {
    let plan = plan(
        "file = \"mix.yaml\"\ncc = \"prague\"\ndscp = \"ef\"\nstart = \"2s\"\noffsets = \"spread\"\nbandwidth = \"2Mbit\"",
    );
    // 2 Mbit/s instead of 20: no voice, no background, one client.
    assert_eq!((plan.flows.len(), plan.apps.len()), (0, 1));
    let page = &plan.apps[0];
    assert!(
        page.spec
            .to_string()
            .ends_with("clients 1 starts every 10s times 6 offsets spread")
    );
    assert_eq!((page.dscp, page.start.as_micros()), (46, 2_000_000));
    assert_eq!(
        page.transport.tcp().unwrap().cc.to_string(),
        "prague variant 2024"
    );
}

#[test]
fn the_least_bandwidth_of_a_mix_is_a_byte_a_second() {
    // A flow file has no bandwidth to be sized by, so that something is left to run.
    let plan = plan("file = \"flow.yaml\"\nbandwidth = \"8bit\"");
    assert_eq!(plan.mixes[0].apps, [0]);
}

#[test]
fn a_flow_file_is_a_mix_of_its_own() {
    let plan = plan("file = \"flow.yaml\"\ntransport = \"quic\"");
    let spec = plan.apps[0].spec.to_string();
    assert_eq!(
        spec,
        "get bytes 1800000b clients 1 starts at 0s 5s 15s offsets random"
    );
    assert_eq!(plan.apps[0].dscp, 12);
    assert!(plan.apps[0].transport.quic().is_some());
}

#[test]
fn what_a_mix_is_can_be_written_out_and_read_again() {
    let mut plan = plan("file = \"mix.yaml\"");
    let again = Draft::read("y.toml", plan.to_toml().as_bytes()).and_then(|draft| draft.check());
    plan.mixes.clear();
    assert_eq!(again.unwrap_or_else(|e| panic!("{e}")), plan);
}

#[test]
fn counts_of_datagrams_and_writes_are_exact() {
    let plan = plan("file = \"mix.yaml\"");
    for (flow, bytes) in [(&plan.flows[0], 3_810 * 126), (&plan.flows[3], 7_500_000)] {
        let stop = flow.stop.map_or(60_000_000_000, |stop| stop.as_nanos());
        let time = u128::from(stop - flow.start.as_nanos());
        let sent = match flow.traffic {
            Traffic::Cbr(d) => {
                let gap = u128::from(d.size) * 8_000_000_000 / u128::from(d.rate.as_bits());
                time.div_ceil(gap) * u128::from(d.size)
            }
            Traffic::Writes(w) => {
                time.div_ceil(u128::from(w.every.as_nanos())) * u128::from(w.bytes)
            }
            _ => panic!("{}", flow.traffic),
        };
        assert_eq!(sent, bytes, "{}", flow.name);
    }
}

#[test]
fn a_wrong_mix_is_refused_at_its_file() {
    for (keys, found) in [
        ("file = \"none.yaml\"", "none.yaml"),
        (
            "file = \"wrong.yaml\"",
            "nothing as total-bandwidth at wrong.yaml:1:1",
        ),
        ("file = \"../x/mix.yaml\"", "without `..`"),
        ("file = \".\"", "regular file"),
        ("", "file"),
        ("file = \"mix.yaml\"\noffsets = \"even\"", "spread"),
        ("file = \"mix.yaml\"\nports = 3", "ports"),
        ("file = \"mix.yaml\"\nbandwidth = \"7bit\"", "8bit"),
        ("file = \"mix.yaml\"\ncc = \"cubik\"", "cubic"),
    ] {
        let error = check(keys).expect_err(keys);
        assert!(error.contains(found), "{keys}: {error}");
    }
}

#[test]
fn a_line_has_mixes_with_keys_after_the_file() {
    let link = ["rate 10Mbit".to_owned()];
    let with = |mix: &str| Draft::with_mixes(&link, &[], &[], None, &[mix.to_owned()]);
    let error = with("evening: no-such.yaml cc bbr")
        .unwrap()
        .check()
        .unwrap_err();
    assert!(
        error.to_line().contains("no-such.yaml"),
        "{}",
        error.to_line()
    );
    assert_eq!(error.key(), "mix/evening/file");
    let error = with("mix.yaml fast").unwrap_err();
    assert!(error.to_line().contains("`fast`"), "{}", error.to_line());
    assert!(with(" ").is_err());
}
