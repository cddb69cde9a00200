//! What is refused, and how that reads: file, line, column, key, what was
//! found, what is allowed. One snapshot for each.

use std::fmt::Write;

use miette::{GraphicalReportHandler, GraphicalTheme};
use narrows_scenario::{Campaign, Draft, Plan, Refusal, Shelf, load};

/// A scenario that runs; tests break one thing in it.
const GOOD: &str = r#"version  = 1
name     = "two flows"
duration = "60s"

[[link]]
name = "access"
ends = ["client", "server"]
up   = ["netem delay 10ms", "bottleneck: rate 50Mbit queue dualpi2"]
down = ["netem delay 10ms", "bottleneck: rate 50Mbit queue dualpi2"]

[[flow]]
name = "prague"
from = "client"
to   = "server"
cc   = "prague"

[[flow]]
name  = "cubic"
from  = "client"
to    = "server"
cc    = "cubic"
ecn   = true
start = "1s"
"#;

/// A node for a router.
const SWITCH: &str = "switch buffer 1mb rate 1Gbit";

/// A scenario whose server is the router with these words.
fn node(is: &str) -> String {
    format!("{GOOD}\n[[router]]\nname = \"server\"\nis   = \"{is}\"\n")
}

/// One whose server is a switch, with these elements where its port is.
fn port(words: &str) -> String {
    let down = "down = [\"netem delay 10ms\"";
    node(SWITCH).replacen(down, &format!("down = [{words}"), 1)
}

/// A campaign that runs.
const CAMPAIGN: &str = r#"version = 1
kind = "campaign"
name = "mine"
cell = "{rate}/{cc}"
base = "base.toml"

[axis.rate]
slow = { mbit = 10 }
fast = { mbit = 50 }

[axis]
cc = ["cubic", "prague"]

[set]
"link/access/up/bottleneck" = "rate {mbit}Mbit queue dualpi2"
"flow/cubic/cc" = "{cc}"

[metric]
rate_mbit = "goodput_mbit of flow/cubic"

[published]
file = "table.csv"
row = { mbit = "{mbit}", cc = "{cc}" }
metric = { rate_mbit = "rate" }

[[tolerance]]
cells = "fast/*"
metric = "rate_mbit"
within = "5 points"
at_least = "1 of 2"
"#;

const TABLE: &str = "mbit,cc,rate\n10,cubic,9.1\n50,cubic,20.5\n50,prague,30\n";

fn check(text: &str) -> Result<Plan, Refusal> {
    Draft::read("mine.toml", text.as_bytes())?.check()
}

fn check_with(sets: &[&str]) -> Result<Plan, Refusal> {
    let mut draft = Draft::read("mine.toml", GOOD.as_bytes())?;
    for set in sets {
        draft.set(set)?;
    }
    draft.check()
}

fn check_words(links: &[&str], flows: &[&str]) -> Result<Plan, Refusal> {
    let owned = |words: &[&str]| words.iter().map(|w| (*w).to_owned()).collect::<Vec<_>>();
    Draft::from_words(&owned(links), &owned(flows))?.check()
}

struct Beside<'a> {
    base: &'a str,
    table: &'a str,
}

impl Shelf for Beside<'_> {
    fn open(&self, path: &str) -> Result<Vec<u8>, String> {
        match path {
            "base.toml" => Ok(self.base.as_bytes().to_vec()),
            "table.csv" | "table.trace" => Ok(self.table.as_bytes().to_vec()),
            _ => Err("there is no such file".to_owned()),
        }
    }
}

fn check_campaign(text: &str, table: &str) -> Result<Campaign, Refusal> {
    let shelf = Beside { base: GOOD, table };
    Campaign::read("campaign.toml", text.as_bytes(), &shelf, &[])
}

/// A campaign over a scenario that finds its traces where the campaign does.
fn check_campaign_of(base: &str) -> Result<Campaign, Refusal> {
    let shelf = Beside { base, table: TABLE };
    let traced = base
        .split("rate trace ")
        .nth(1)
        .and_then(|t| t.split(' ').next());
    let trace = format!("rate trace {}", traced.unwrap_or_default());
    let text = CAMPAIGN.replace("rate {mbit}Mbit", &trace);
    Campaign::read("campaign.toml", text.as_bytes(), &shelf, &[])
}

/// The good scenario with one part replaced.
fn broken(part: &str, by: &str) -> String {
    assert!(GOOD.contains(part), "{part}");
    GOOD.replacen(part, by, 1)
}

/// The good scenario with a mark whose other keys are `keys`.
fn with_mark(keys: &str) -> String {
    format!("{GOOD}\n[[mark]]\nname = \"mine\"\n{keys}\n")
}

/// The good scenario with a host `tower` behind the server, a proxy there whose other keys
/// are `proxy`, and a flow whose are `flow`.
fn with_proxy(proxy: &str, flow: &str) -> String {
    format!(
        "{GOOD}\n[[link]]\nname = \"air\"\nends = [\"server\", \"tower\"]\n\
         [[proxy]]\nname = \"pep\"\n{proxy}\n\
         [[flow]]\nname = \"split\"\nfrom = \"client\"\nto = \"server\"\n{flow}\n"
    )
}

/// The good scenario with a command whose other keys are `keys`.
fn with_command(keys: &str) -> String {
    format!("{GOOD}\n[[command]]\nname = \"mine\"\nhost = \"client\"\n{keys}\n")
}

fn broken_campaign(part: &str, by: &str) -> String {
    assert!(CAMPAIGN.contains(part), "{part}");
    CAMPAIGN.replacen(part, by, 1)
}

/// What the program prints.
fn shown<T: std::fmt::Debug>(result: Result<T, Refusal>) -> String {
    let refusal = match result {
        Ok(plan) => panic!("not refused: {plan:?}"),
        Err(refusal) => refusal,
    };
    let mut text = refusal.to_line();
    text.push('\n');
    if refusal.file().is_some() {
        let theme = GraphicalTheme::unicode_nocolor();
        let handler = GraphicalReportHandler::new_themed(theme).with_width(100);
        let mut drawn = String::new();
        handler
            .render_report(&mut drawn, &refusal)
            .expect("a report can be drawn");
        for line in drawn.lines() {
            writeln!(text, "{}", line.trim_end()).expect("a string takes text");
        }
    }
    text
}

macro_rules! refused {
    ($($name:ident: $result:expr;)*) => {$(
        #[test]
        fn $name() {
            insta::assert_snapshot!(shown($result));
        }
    )*};
}

#[test]
fn the_good_ones_are_good() {
    let plan = check(GOOD).expect("a plan");
    assert_eq!(plan.flows.len(), 2);
    let campaign = check_campaign(CAMPAIGN, TABLE).expect("a campaign");
    assert_eq!(campaign.cells.len(), 4);
}

#[test]
fn a_topology_needs_no_traffic_and_is_checked_otherwise() {
    let topology = |text: &str| {
        let draft = Draft::read("mine.toml", text.as_bytes())?;
        draft.check_topology()
    };
    let quiet = &GOOD[..GOOD.find("[[flow]]").expect("a flow")];
    assert_eq!(topology(quiet).expect("a plan").links.len(), 1);
    assert!(topology(&quiet.replace("10ms", "10m")).is_err());
}

const AT_TOWER: &str = "host = \"tower\"";
const VIA: &str = "cc = \"cubic\"\nvia = \"pep\"";

refused! {
    a_proxy_nowhere: check(&with_proxy("", VIA));
    a_proxy_on_an_unknown_host: check(&with_proxy("host = \"towr\"", VIA));
    a_proxy_at_an_end_of_its_flow: check(&with_proxy("host = \"client\"", VIA));
    a_proxy_over_quic: check(&with_proxy("host = \"tower\"\nnear_cc = \"quic:cubic\"", VIA));
    a_proxy_without_capacity: check(&with_proxy("host = \"tower\"\ncapacity = \"0bit\"", VIA));
    a_proxy_with_no_window: check(&with_proxy("host = \"tower\"\nfar_window = 100", VIA));
    a_proxy_with_an_unknown_layout: check(&with_proxy("host = \"tower\"\nlayout = \"socks\"", VIA));
    a_hint_of_a_delay: check(&with_proxy("host = \"tower\"\nfar_cc = \"quickstart\"\nfar_hint = \"link/access/up/delay\"", VIA));
    a_hint_for_a_control_that_takes_none: check(&with_proxy("host = \"tower\"\nfar_hint = \"link/access/up/bottleneck\"", VIA));
    a_proxy_with_an_unknown_key: check(&with_proxy("host = \"tower\"\nport = 443", VIA));
    a_proxy_called_none: check(&with_proxy(AT_TOWER, VIA).replace("name = \"pep\"", "name = \"none\""));
    via_an_unknown_proxy: check(&with_proxy(AT_TOWER, "cc = \"cubic\"\nvia = \"pop\""));
    via_no_proxy: check(&broken("ecn   = true", "via = \"pep\""));
    via_a_proxy_without_tcp: check(&with_proxy(AT_TOWER, "cc = \"quic:cubic\"\nvia = \"pep\""));
    via_a_proxy_with_datagrams: check(&with_proxy(AT_TOWER, "traffic = \"cbr rate 1Mbit\"\nvia = \"pep\""));
    via_a_proxy_of_the_thesis_over_ipv6: check(&with_proxy("host = \"tower\"\nlayout = \"thesis\"", "cc = \"cubic\"\nvia = \"pep\"\nip = 6"));
    an_answer_that_the_thesis_does_not_give: check(&with_proxy("host = \"tower\"\nlayout = \"thesis\"", "cc = \"cubic\"\nvia = \"pep\"\nfirst_data = \"after-answer\""));
    first_data_without_a_proxy: check(&broken("ecn   = true", "first_data = \"with-request\""));
    rates_that_are_none: check_campaign_of(&broken("rate 50Mbit", "rate trace table.csv"));
    unknown_key: check(&broken("ecn   = true", "enc   = true"));
    unknown_key_at_the_top: check(&broken("duration", "durations"));
    unknown_table: check(&format!("{GOOD}\n[[flows]]\nname = \"x\"\n"));
    no_version: check(&broken("version  = 1\n", ""));
    future_version: check(&broken("version  = 1", "version  = 2"));
    no_duration: check(&broken("duration = \"60s\"\n", ""));
    bad_unit: check(&broken("\"60s\"", "\"60 parsecs\""));
    number_without_unit: check(&broken("\"60s\"", "60"));
    zero_duration: check(&broken("\"60s\"", "\"0s\""));
    bad_unit_in_an_element: check(&broken("delay 10ms", "delay 10mm"));
    negative_rate: check(&broken("rate 50Mbit", "rate -50Mbit"));
    zero_rate: check(&broken("rate 50Mbit", "rate 0Mbit"));
    unknown_queue: check(&broken("queue dualpi2", "queue dualpi3"));
    unknown_queue_word: check(&broken("queue dualpi2", "queue dualpi2 tagret 15ms"));
    unknown_element: check(&broken("netem delay", "delay"));
    nat_in_one_direction: check(&broken("netem delay 10ms", "nat"));
    mtu_out_of_range: check(&broken("netem delay 10ms", "mtu 67"));
    one_box_with_two_meanings: check(&GOOD.replacen("netem delay 10ms", "mtu 1400", 1)
        .replacen("netem delay 10ms", "mtu 1300", 1));
    boxes_that_no_order_has: check(&GOOD.replace("netem delay 10ms", "near: mtu 1400\", \"far: mtu 1300"));
    unknown_control: check(&broken("\"cubic\"\necn", "\"cubik\"\necn"));
    a_control_of_other_kernels: check(&broken("\"cubic\"\necn", "\"bbr2\"\necn"));
    a_name_that_no_kernel_has: check(&broken("\"cubic\"\necn", "\"kernel:CUBIC\"\necn"));
    a_kernels_control_with_words: check(&broken("\"cubic\"\necn", "\"kernel:cubic hystart off\"\necn"));
    unknown_ecn: check(&broken("ecn   = true", "ecn   = \"acecn\""));
    one_end: check(&broken("[\"client\", \"server\"]", "[\"client\"]"));
    same_ends: check(&broken("[\"client\", \"server\"]", "[\"client\", \"client\"]"));
    link_to_no_host: check(&broken("[\"client\", \"server\"]", "[\"client\", \"\"]"));
    a_host_with_ports: check(&node(SWITCH).replace("[[router]]", "[[host]]"));
    a_node_that_is_none: check(&node("rate 1Mbit"));
    a_node_in_a_link: check(&broken("netem delay 10ms", SWITCH));
    a_port_that_is_something_else: check(&port("\"server: netem delay 1ms\""));
    a_port_by_another_name_than_its_node: check(&node("cell blocks 6").replacen("down = [\"netem delay 10ms\"", "down = [\"cell: cell cqi 7\"", 1));
    a_port_in_the_wrong_direction: check(&node("wifi ap").replacen("up   = [", "up   = [\"server: wifi mcs 7\", ", 1));
    a_station_without_an_mcs: check(&node("wifi ap").replacen("down = [\"netem delay 10ms\"", "down = [\"server: wifi streams 2\"", 1));
    a_port_with_a_buffer_of_its_own: check(&port("\"server: switch buffer 2mb\""));
    a_port_in_the_second_place: check(&port("\"tap mid\", \"server: netem delay 1ms\""));
    host_without_link: check(&format!("{GOOD}\n[[host]]\nname = \"serve\"\n"));
    flow_to_no_host: check(&broken("to   = \"server\"", "to   = \"sever\""));
    flow_without_path: check(&format!(
        "{}\n[[link]]\nname = \"far\"\nends = [\"a\", \"b\"]\n",
        broken("to   = \"server\"", "to   = \"b\"")
    ));
    flow_through_a_host: check(&format!(
        "{}\n[[link]]\nname = \"far\"\nends = [\"server\", \"b\"]\n[[host]]\nname = \"server\"\n",
        broken("to   = \"server\"", "to   = \"b\"")
    ));
    more_probes_than_there_are_ports: check(&format!("{GOOD}{}", (0..2801)
        .map(|n| format!("[[probe]]\nname = \"p{n}\"\nfrom = \"client\"\nto = \"server\"\n"))
        .collect::<String>()));
    flow_to_itself: check(&broken("to   = \"server\"", "to   = \"client\""));
    opened_by_a_third: check(&format!(
        "{}\n[[link]]\nname = \"far\"\nends = [\"server\", \"b\"]\n",
        broken("cc   = \"prague\"", "cc   = \"prague\"\nopens = \"b\"")
    ));
    no_flow: check(&GOOD[..GOOD.find("[[flow]]").expect("a flow")]);
    no_link: check("version = 1\nname = \"x\"\nduration = \"1s\"\n");
    same_name_twice: check(&broken("\"prague\"\nfrom", "\"cubic\"\nfrom"));
    same_element_twice: check(&broken("\"netem delay 10ms\", \"bottle", "\"bottleneck: netem delay 10ms\", \"bottle"));
    same_address_twice: check(&format!("{GOOD}\n[[host]]\nname = \"server\"\nipv4 = \"10.0.0.1\"\n"));
    not_an_address: check(&format!("{GOOD}\n[[host]]\nname = \"server\"\nipv4 = \"10.0.0\"\n"));
    not_a_name: check(&broken("name = \"access\"", "name = \"access/a\""));
    start_after_the_end: check(&broken("\"1s\"", "\"60s\""));
    stop_before_the_start: check(&broken("\"1s\"", "\"10s\"\nstop = \"5s\""));
    measured_outside: check(&broken("\"60s\"", "\"60s\"\nmeasure = \"50s..61s\""));
    measured_backwards: check(&broken("\"60s\"", "\"60s\"\nmeasure = \"50s..40s\""));
    expected_of_no_finding: check(&broken("\"60s\"", "\"60s\"\nexpected = [\"idle-botleneck\"]"));
    measured_oddly: check(&broken("\"60s\"", "\"60s\"\nmeasure = \"from 10s\""));
    bytes_and_traffic: check(&broken("start = \"1s\"", "bytes = 10\ntraffic = \"bulk\""));
    no_bytes: check(&broken("start = \"1s\"", "bytes = 0"));
    bad_dscp: check(&broken("start = \"1s\"", "dscp = 64"));
    bad_host_model: check(&broken("start = \"1s\"", "host_model = { segmentation = \"gso\" }"));
    bad_small_queues: check(&broken("start = \"1s\"", "host_model = { small_queues = \"unreported segment 2304\" }"));
    bad_send_buffer: check(&broken("start = \"1s\"", "host_model = { send_buffer = \"auto max 0\" }"));
    trace_that_is_not_there: check(&broken("rate 50Mbit", "rate trace nowhere.trace"));
    trace_without_a_name: check(&broken("rate 50Mbit queue dualpi2", "rate trace"));
    trace_that_is_none: check_campaign_of(&broken("rate 50Mbit", "rate trace table.trace"));
    tap_on_two_links: check(&format!(
        "{}\n[[link]]\nname = \"far\"\nends = [\"server\", \"b\"]\nup = [\"tap mid\"]\n",
        broken("[\"netem delay 10ms\", ", "[\"tap mid\", ")
    ));
    capture_nowhere: check(&format!("{GOOD}\n[[capture]]\nname = \"c\"\nat = \"host/clint\"\n"));
    command_without_a_program: check(&with_command("run = []"));
    command_in_no_host: check(&with_command("run = [\"true\"]").replace("host = \"client\"", "host = \"clint\""));
    command_with_a_line: check(&with_command("run = [\"ping\", 3]"));
    command_to_no_host: check(&with_command("run = [\"ping\", \"{sever}\"]"));
    command_to_no_address: check(&with_command("run = [\"ping\", \"{server/mac}\"]"));
    command_with_a_lone_brace: check(&with_command("run = [\"curl\", \"-w\", \"%{\"]"));
    command_after_the_end: check(&with_command("run = [\"true\"]\nstart = \"60s\""));
    mark_without_signals: check(&with_mark("flows = [\"cubic\"]"));
    mark_of_unknown_signals: check(&with_mark("signals = \"d+x\""));
    mark_of_too_many_signals: check(&with_mark("signals = \"s+d+q+l\""));
    mark_with_a_key_of_no_signal: check(&with_mark("signals = \"s tmax 1s\""));
    mark_with_a_wrong_value: check(&with_mark("signals = \"d delay thesis tmax 225\""));
    mark_of_no_flow: check(&with_mark("signals = \"d\"\nflows = [\"cubik\"]"));
    mark_at_no_host: check(&with_mark("signals = \"d\"\nhosts = [\"sever\"]"));
    mark_twice: check(&format!("{}\n[[mark]]\nname = \"other\"\nsignals = \"s\"\nhosts = \"server\"\n", with_mark("signals = \"d\"")));
    mark_of_datagrams: check(&broken("cc    = \"cubic\"\necn   = true", "traffic = \"cbr rate 1Mbit\"\nmark = \"d\""));
    mark_in_a_line: check_words(&["rate 1Mbit"], &["cubic mark d+z start 1s"]);
    change_of_no_element: check(&format!(
        "{GOOD}\n[[change]]\nat = \"30s\"\ntarget = \"link/access/up/bottlenek\"\nto = \"rate 10Mbit\"\n"
    ));
    change_that_does_not_fit: check(&format!(
        "{GOOD}\n[[change]]\nat = \"30s\"\ntarget = \"link/access/up/bottleneck\"\nto = \"rate 0Mbit\"\n"
    ));
    change_after_the_end: check(&format!(
        "{GOOD}\n[[change]]\nat = \"90s\"\ntarget = \"link/access/up/bottleneck\"\nto = \"rate 1Mbit\"\n"
    ));
    seed_too_large: check(&broken("duration", "seed = 9223372036854775808\nduration"));
    escaped_string: check(&broken("rate 50Mbit queue dualpi2", "rate 50Mbit queue \\u0064ualpi3"));
    truncated_file: check(&GOOD[..GOOD.len() - 8]);
    truncated_in_a_list: check(&GOOD[..GOOD.find("\"bottleneck").expect("a list")]);
    empty_file: check("");
    not_utf8: Draft::read("mine.toml", b"version = 1\nname = \"\xff\"\n");
    a_key_twice: check(&broken("duration", "name = \"again\"\nduration"));
    deep_nest: check(&format!("name = {}", "[".repeat(10_000)));
    long_line: check(&broken("two flows", &"x".repeat(100_000)));
    control_characters: check(&broken("ecn   = true", "ecn   = \"\\u001b[31m\""));

    set_without_a_value: check_with(&["duration"]);
    set_of_no_such_thing: check_with(&["flw/cubic/cc=reno"]);
    set_of_no_such_flow: check_with(&["flow/cubik/cc=reno"]);
    set_of_no_such_key: check_with(&["flow/cubic/ccc=reno"]);
    set_of_no_such_element: check_with(&["link/access/up/bottelneck=rate 1Mbit"]);
    set_to_a_wrong_value: check_with(&["link/access/up/bottleneck=rate 20Mbit queue dualpi3"]);
    set_to_a_wrong_unit: check_with(&["duration=10 s"]);
    set_of_a_whole_flow: check_with(&["flow/cubic=reno"]);

    words_without_a_link: check_words(&[], &["cubic"]);
    words_without_a_flow: check_words(&["rate 1Mbit"], &[]);
    words_with_a_wrong_queue: check_words(&["up rate 1Mbit queue fifo"], &["cubic"]);
    words_with_a_wrong_control: check_words(&["rate 1Mbit"], &["second: cubik start 1s"]);
    words_with_a_wrong_value: check_words(&["rate 1Mbit"], &["cubic start 1"]);

    campaign_without_an_axis: check_campaign(&CAMPAIGN[..CAMPAIGN.find("[axis.rate]").expect("an axis")], TABLE);
    matrix_of_nothing: check_campaign(&broken_campaign("[\"cubic\", \"prague\"]", "[]"), TABLE);
    matrix_with_everything_left_out: check_campaign(&broken_campaign("cell =", "exclude = \"*\"\ncell ="), TABLE);
    cells_of_one_name: check_campaign(&broken_campaign("{rate}/{cc}", "{rate}"), TABLE);
    unknown_word: check_campaign(&broken_campaign("rate {mbit}Mbit", "rate {mbits}Mbit"), TABLE);
    wrong_value_in_a_cell: check_campaign(&broken_campaign("mbit = 10", "mbit = 0"), TABLE);
    wrong_name_in_set: check_campaign(&broken_campaign("flow/cubic/cc", "flow/cubik/cc"), TABLE);
    unknown_base: check_campaign(&broken_campaign("base.toml", "bass.toml"), TABLE);
    unknown_metric: check_campaign(&broken_campaign("metric = \"rate_mbit\"", "metric = \"rate_mbt\""), TABLE);
    wrong_formula: check_campaign(&broken_campaign("goodput_mbit of flow/cubic", "100 * rate"), TABLE);
    unknown_column: check_campaign(&broken_campaign("{ rate_mbit = \"rate\" }", "{ rate_mbit = \"rat\" }"), TABLE);
    wrong_band: check_campaign(&broken_campaign("5 points", "5 percent"), TABLE);
    tolerance_between_others: check_campaign(&broken_campaign("metric = \"rate_mbit\"\nwithin", "between = \"kernels\"\nmetric = \"rate_mbit\"\nwithin"), TABLE);
    tolerance_between_pairs_without_one: check_campaign(&broken_campaign("metric = \"rate_mbit\"\nwithin", "between = \"pair\"\nmetric = \"rate_mbit\"\nwithin"), TABLE);
    pair_of_an_unknown_axis: check_campaign(&format!("{CAMPAIGN}\n[pair]\naxis = \"speed\"\njudge = \"a\"\nagainst = \"b\"\n"), TABLE);
    pair_of_one_side: check_campaign(&format!("{CAMPAIGN}\n[pair]\naxis = \"cc\"\njudge = \"prague\"\nagainst = \"prague\"\n"), TABLE);
    expected_in_no_cell: check_campaign(&format!("{CAMPAIGN}\n[[expected]]\ncells = \"faster/*\"\nverdict = \"never-started\"\n"), TABLE);
    expected_of_the_machine: check_campaign(&format!("{CAMPAIGN}\n[[expected]]\ncells = \"fast/*\"\nverdict = [\"late-release\"]\n"), TABLE);
    expected_without_a_finding: check_campaign(&format!("{CAMPAIGN}\n[[expected]]\ncells = \"fast/*\"\n"), TABLE);
    wrong_count: check_campaign(&broken_campaign("1 of 2", "21 of 24"), TABLE);
    tolerance_for_no_cell: check_campaign(&broken_campaign("cells = \"fast/*\"", "cells = \"faster/*\""), TABLE);
    two_rows_for_a_cell: check_campaign(CAMPAIGN, &format!("{TABLE}50,prague,31\n"));
    a_row_for_no_cell: check_campaign(CAMPAIGN, &format!("{TABLE}100,prague,31\n"));
    no_number_in_the_table: check_campaign(CAMPAIGN, &TABLE.replace("9.1", "fast"));
    scenario_as_campaign: check_campaign(GOOD, TABLE);
    campaign_as_scenario: check(CAMPAIGN);
    only_that_fits_nothing: check_campaign(CAMPAIGN, TABLE).and_then(|mut c| c.only(&["100Mbit/*".to_owned()]));
    only_that_is_no_pattern: check_campaign(CAMPAIGN, TABLE).and_then(|mut c| c.only(&["{a,b".to_owned()]));
    neither_file_nor_entry: load("l4s-test/s1");
}

#[test]
fn ten_megabytes_of_noise_are_refused_at_once() {
    // Noise from a fixed generator: the same on every machine.
    let mut state = 1u64;
    let noise: Vec<u8> = (0..10 << 20)
        .map(|_| {
            state = state
                .wrapping_mul(6_364_136_223_846_793_005)
                .wrapping_add(1);
            (state >> 56) as u8
        })
        .collect();
    insta::assert_snapshot!(shown(Draft::read("noise.toml", &noise)));
    // As much as may be read, so that the reader itself meets noise, too.
    let refused = Draft::read("noise.toml", &noise[..1 << 20]);
    assert!(refused.is_err());
    let text: String = noise[..1 << 19]
        .iter()
        .map(|b| char::from(b % 95 + 32))
        .collect();
    assert!(Draft::read("noise.toml", text.as_bytes()).is_err());
}

#[test]
fn a_long_file_is_refused_before_it_is_read() {
    let file = tempfile::NamedTempFile::new().expect("a file");
    file.as_file().set_len(5 << 30).expect("a sparse file");
    let path = file.path().display().to_string();
    let refusal = load(&path).expect_err("too long");
    assert_eq!(refusal.found(), "5368709120 bytes");
    assert_eq!(refusal.file(), Some(path.as_str()));
}

#[test]
fn files_that_are_full_to_the_brim_end_in_time() {
    // Each of about a mebibyte; what is read in more than linear time hangs.
    let many = |head: &str, part: &dyn Fn(usize) -> String| {
        let mut text = head.to_owned();
        let mut number = 0;
        while text.len() < (1 << 20) - 200 {
            text.push_str(&part(number));
            number += 1;
        }
        text
    };
    let flow = |n: usize| format!("[[flow]]\nname='f{n}'\nfrom='client'\nto='server'\ncc='reno'\n");
    let plan = check(&many(GOOD, &flow)).expect("many flows");
    assert!(plan.flows.len() > 10_000);
    let link = |n: usize| format!("[[link]]\nname='l{n}'\nends=['h{n}','h{}']\n", n + 1);
    let plan = check(&many(GOOD, &link)).expect("many links");
    assert!(plan.hosts.len() > 10_000);
    let change = |_: usize| {
        "[[change]]\nat='1s'\ntarget='link/access/up/bottleneck'\nto='rate 1Mbit'\n".to_owned()
    };
    let plan = check(&many(GOOD, &change)).expect("many changes");
    assert!(plan.changes.len() > 5_000);
    let host = |n: usize| format!("[[host]]\nname='h{n}'\n");
    assert!(check(&many(GOOD, &host)).is_err());

    let mut elements = many("up = [", &|_| "'rate 1bit',".to_owned());
    elements.push(']');
    let start = GOOD.find("up   =").expect("a direction");
    let end = start + GOOD[start..].find('\n').expect("a line");
    let crowded = format!("{}{elements}{}", &GOOD[..start], &GOOD[end..]);
    insta::assert_snapshot!(shown(check(&crowded)));
    let keys = many(GOOD, &|n| format!("k{n} = 1\n"));
    assert!(check(&keys).is_err());
}
