//! What holds for every plan and every input.

use narrows_scenario::{Draft, Plan};
use proptest::prelude::*;
use proptest::test_runner::TestRunner;

use super::json_schema;

fn element() -> impl Strategy<Value = String> {
    let fixed = prop::sample::select(vec![
        "netem delay 10ms",
        "netem delay 10ms 2ms loss random 0.5%",
        "remark if dscp cs1 ecn not-ect",
        "remark dscp le",
        "by dscp 8 (netem delay 5ms) 16 (netem delay 80ms) else (netem delay 10ms)",
        "rate 1.5Mbit overhead 38 queue pfifo limit 200",
        "rate 100Mbit shaper queue cnq_codel_af",
        "rate 100Mbit queue cake bandwidth 20Mbit dual-srchost pppoe-ptm",
        "police rate 10Mbit burst 20kb",
        "netem delay 3ms corrupt 0.1%",
        "wifi mcs 7 error 1% stations 2 queue fq_codel",
    ])
    .prop_map(str::to_owned);
    let rate = (
        1u64..10_000_000_000,
        prop::sample::select(vec![
            "dualpi2",
            "dualpi2 variant linux-2020",
            "fq_codel flows 1 target 1ms interval 20ms",
            "codel",
            "pie ecn",
            "red limit 400000 avpkt 1000 adaptive bandwidth 50Mbit ecn",
            "bfifo limit 100000",
        ]),
    )
        .prop_map(|(rate, queue)| format!("rate {rate}bit queue {queue}"));
    prop_oneof![fixed, rate]
}

fn chain() -> impl Strategy<Value = String> {
    let named = (element(), any::<bool>());
    prop::collection::vec(named, 0..4).prop_map(|elements| {
        let words: Vec<String> = elements
            .iter()
            .enumerate()
            .map(|(number, (words, named))| match named {
                true => format!("\"e{number}: {words}\""),
                false => format!("\"{words}\""),
            })
            .collect();
        format!("[{}]", words.join(", "))
    })
}

prop_compose! {
    fn flow()(
        cc in prop::sample::select(vec!["cubic", "reno", "prague", "cubic hystart++", "prague variant 2020", "kernel:cubic", "kernel:bbr"]),
        ecn in prop::sample::select(vec!["", "ecn = true\n", "ecn = false\n", "ecn = \"accecn\"\n", "ecn = \"classic\"\n"]),
        dscp in 0u8..64,
        start_us in 0u64..1_000_000,
        stop in any::<bool>(),
        traffic in prop::sample::select(vec!["", "bytes = 1234567\n", "traffic = \"bulk\"\n", "traffic = \"cbr rate 1Mbit\"\n"]),
        mark in prop::sample::select(vec!["", "mark = \"d+q\"\n", "mark = \"s spin naive\"\n", "mark = \"d delay thesis tmax 225ms announce negotiate\"\n"]),
        six in any::<bool>(),
        backwards in any::<bool>(),
        server_opens in any::<bool>(),
        model in prop::sample::select(vec!["", "host_model = { segmentation = \"tso\" }\n", "host_model = { gro = true, tick = \"0s\" }\n", "host_model = { small_queues = \"unreported\", send_buffer = \"auto max 1000000\", mtu_probing = \"always floor 100\", receive_tuning = \"v6.18\" }\n"]),
    ) -> String {
        let (from, to) = if backwards { ("server", "client") } else { ("client", "server") };
        let mut text = format!("from = \"{from}\"\nto = \"{to}\"\ncc = \"{cc}\"\n{ecn}dscp = {dscp}\nstart = \"{start_us}us\"\n{traffic}{model}");
        if !traffic.contains("cbr") {
            text.push_str(mark);
        }
        if stop {
            text.push_str("stop = \"1.5s\"\n");
        }
        if six {
            text.push_str("ip = 6\n");
        }
        if server_opens {
            text.push_str("opens = \"server\"\n");
        }
        text
    }
}

prop_compose! {
    fn app()(
        cc in prop::sample::select(vec!["", "cc = \"prague\"\n", "cc = \"quic:cubic\"\n", "cc = \"kernel:bbr\"\necn = true\n"]),
        // Fewer than 24 bytes are refused.
        request in 24u64..1_000_000,
        response in 1u64..(1 << 40),
        arrivals in prop::sample::select(vec!["think", "every", "poisson"]),
        time_us in 1u64..10_000_000,
        more in prop::sample::select(vec!["", "connection = \"new\"\n", "dscp = 46\nip = 6\n", "start = \"1s\"\nstop = \"1.5s\"\n"]),
    ) -> String {
        format!("from = \"client\"\nto = \"server\"\n{cc}request = {request}\nresponse = \"{response}\"\narrivals = \"{arrivals} {time_us}us\"\n{more}")
    }
}

prop_compose! {
    fn scenario()(
        name in "[a-zA-Z0-9 \"'\\\\äß/=#-]{1,30}x",
        duration_us in 1_600_000u64..100_000_000,
        seed in 0u64..(1 << 63),
        up in chain(),
        down in chain(),
        middle in any::<bool>(),
        flows in prop::collection::vec(flow(), 1..5),
        apps in prop::collection::vec(app(), 0..3),
        address in any::<bool>(),
        command in prop::sample::select(vec!["", "run = [\"iperf3\", \"-c\", \"{server}\"]", "run = \"true\"\nstart = \"1s\"", "run = [\"a b\", \"{{x}}\", \"http://[{client/ipv6}]:80/\\\"\"]\nstop = \"1.1s\""]),
    ) -> String {
        let name = name.replace('\\', "\\\\").replace('"', "\\\"");
        let mut text = format!("version = 1\nname = \"{name}\"\nduration = \"{duration_us}us\"\nseed = {seed}\n");
        if middle {
            text.push_str("[[link]]\nname = \"near\"\nends = [\"client\", \"r\"]\n");
        }
        let first = if middle { "r" } else { "client" };
        text.push_str(&format!("[[link]]\nname = \"access\"\nends = [\"{first}\", \"server\"]\nup = {up}\ndown = {down}\n"));
        if address {
            text.push_str("[[host]]\nname = \"server\"\nipv4 = \"192.0.2.7\"\n");
        }
        if !command.is_empty() {
            text.push_str(&format!("[[command]]\nname = \"c\"\nhost = \"server\"\n{command}\n"));
        }
        for (number, flow) in flows.iter().enumerate() {
            text.push_str(&format!("[[flow]]\nname = \"f{number}\"\n{flow}"));
        }
        for (number, app) in apps.iter().enumerate() {
            text.push_str(&format!("[[request]]\nname = \"a{number}\"\n{app}"));
        }
        text
    }
}

fn plan(text: &str) -> Plan {
    match Draft::read("p.toml", text.as_bytes()).and_then(|d| d.check()) {
        Ok(plan) => plan,
        Err(refusal) => panic!("{}\n{text}", refusal.to_line()),
    }
}

#[test]
fn a_command_is_given_the_addresses_of_the_hosts_that_it_names() {
    let text = "version = 1\nname = \"x\"\nduration = \"1s\"\n\
        [[link]]\nname = \"l\"\nends = [\"client\", \"server\"]\n\
        [[command]]\nname = \"c\"\nhost = \"client\"\n\
        run = [\"curl\", \"http://[{server/ipv6}]:8080/\", \"{client}-{server/ipv4}\", \"%{{time}}\"]\n";
    let plan = plan(text);
    let given = plan.commands[0].arguments(&plan);
    let wanted = [
        "curl",
        "http://[fd00::2]:8080/",
        "10.0.0.1-10.0.0.2",
        "%{time}",
    ];
    assert_eq!(given, wanted);
    let line = plan.commands[0].line(&plan);
    assert_eq!(
        line,
        "curl 'http://[fd00::2]:8080/' 10.0.0.1-10.0.0.2 '%{time}'"
    );
    // Nothing else speaks of the server, which is a host for all that.
    assert!(plan.hosts.iter().all(|host| !host.router));
}

/// One link with an element of each kind that words are laid over, and one of another.
const SET: &str = "version = 1\nname = \"x\"\nduration = \"60s\"\n\
    [[link]]\nname = \"l\"\nends = [\"a\", \"b\"]\n\
    up = [\"netem delay 10ms loss random 1% limit 99\", \
          \"bottleneck: rate 50Mbit overhead 38 shaper queue dualpi2 target 5ms\", \
          \"police rate 9Mbit burst 20kb\"]\n\
    [[flow]]\nname = \"f\"\nfrom = \"a\"\nto = \"b\"\ncc = \"cubic\"\n";

#[test]
fn words_that_are_set_leave_what_they_do_not_name_as_it_was() {
    for (set, words) in [
        (
            "bottleneck=rate 20Mbit",
            "rate 20Mbit overhead 38 shaper queue dualpi2 target 5ms",
        ),
        (
            "bottleneck=rate 20Mbit overhead 14",
            "rate 20Mbit shaper queue dualpi2 target 5ms",
        ),
        // A queue is named with all of its parameters.
        (
            "bottleneck=rate 20Mbit queue dualpi2",
            "rate 20Mbit overhead 38 shaper queue dualpi2",
        ),
        (
            "bottleneck=rate 20Mbit queue pfifo",
            "rate 20Mbit overhead 38 shaper queue pfifo",
        ),
        (
            "netem=netem delay 5ms",
            "netem delay 5ms loss random 1% limit 99",
        ),
        ("netem=netem loss none", "netem delay 10ms limit 99"),
        // Another element takes the place.
        ("netem=rate 1Mbit", "rate 1Mbit"),
        ("police=netem delay 1ms", "netem delay 1ms"),
        (
            "police=police rate 1Mbit burst 9kb",
            "police rate 1Mbit burst 9kb",
        ),
    ] {
        let mut draft = Draft::read("p.toml", SET.as_bytes()).expect("TOML");
        draft.set(&format!("link/l/up/{set}")).expect("a name");
        let plan = draft.check().unwrap_or_else(|e| panic!("{set}: {e}"));
        let (name, _) = set.split_once('=').expect("a name");
        let name = format!("link/l/up/{name}");
        let element = plan
            .elements()
            .find(|e| e.name == name)
            .expect("it keeps its name");
        let wanted = narrows_scenario::ElementSpec::parse(words).expect("words");
        assert_eq!(element.spec, wanted, "{set}");
    }
}

#[test]
fn what_is_saved_follows_what_is_changed_later() {
    let draft = Draft::read("p.toml", SET.as_bytes()).expect("TOML");
    let saved = draft.check().expect("a plan").to_toml();
    assert!(saved.contains("# measure  = \"20s..60s\""), "{saved}");
    assert!(saved.contains("# ecn      = \"off\""), "{saved}");
    let mut again = Draft::read("saved.toml", saved.as_bytes()).expect("TOML");
    again.set("duration=15s").expect("a name");
    again.set("flow/f/cc=prague").expect("a name");
    let plan = again.check().expect("a shorter run is one, too");
    assert_eq!(plan.measure.to_string(), "5s..15s");
    assert_eq!(
        narrows_scenario::ecn_mode_word(plan.flows[0].transport.ecn()),
        "accecn"
    );
    // What was said is kept.
    let text = SET.replace("duration", "measure = \"1s..2s\"\nduration");
    let draft = Draft::read("p.toml", text.as_bytes()).expect("TOML");
    let saved = draft.check().expect("a plan").to_toml();
    assert!(saved.contains("\nmeasure  = \"1s..2s\""), "{saved}");
}

#[test]
fn the_datapath_of_a_link_and_what_is_expected_are_saved() {
    let text = SET.replace("[[flow]]", "datapath = \"kernel\"\n[[flow]]");
    let text = text.replacen("[[link]]", "expected = [\"unanswered\"]\n[[link]]", 1);
    let read = |text: &str| Draft::read("p.toml", text.as_bytes()).and_then(|d| d.check());
    let plan = read(&text).expect("a plan");
    assert_eq!(plan.expected, ["unanswered"]);
    assert_eq!(read(&plan.to_toml()).expect("a plan"), plan);
}

/// The scenario [`SET`] whose link has no name.
fn without_a_name() -> Draft {
    let text = SET.replace("name = \"l\"\n", "");
    Draft::read("p.toml", text.as_bytes()).expect("TOML")
}

#[test]
fn the_only_link_may_do_without_its_name() {
    let mut draft = without_a_name();
    assert_eq!(draft.check().expect("a plan").links[0].name, "access");
    draft.set("link/mtu=1400").expect("a key of the link");
    draft
        .set("link/up/bottleneck=rate 20Mbit")
        .expect("an element");
    draft
        .set("link/access/up/netem=netem delay 3ms")
        .expect("an element");
    let plan = draft.check().expect("a plan");
    assert_eq!(plan.links[0].mtu, 1400);
    let words: Vec<String> = plan.elements().map(|e| e.spec.to_string()).collect();
    assert!(words[0].starts_with("netem delay 3ms"), "{words:?}");
    assert!(words[1].starts_with("rate 20Mbit overhead 38"), "{words:?}");
    assert_eq!(
        plan,
        Draft::read("q.toml", plan.to_toml().as_bytes())
            .expect("TOML")
            .check()
            .expect("a plan")
    );

    // So it is for a link that has one, and for changes in mid-run.
    let change = "[[change]]\nat = \"1s\"\ntarget = \"link/up/bottleneck\"\nto = \"rate 9Mbit\"\n";
    let mut draft = Draft::read("p.toml", format!("{SET}{change}").as_bytes()).expect("TOML");
    draft
        .set("link/datapath=kernel")
        .expect("a key of the link");
    let plan = draft.check().expect("a plan");
    assert_eq!(plan.changes[0].target, "link/l/up/bottleneck");
    assert!(!plan.links[0].datapath.is_own());

    // Of two links each is called by its name.
    let two = "[[link]]\nname = \"m\"\nends = [\"b\", \"c\"]\n";
    let mut draft = Draft::read("p.toml", format!("{SET}{two}").as_bytes()).expect("TOML");
    assert!(draft.set("link/mtu=1400").is_err());
    let text = format!("{SET}{two}").replace("name = \"m\"\n", "");
    let draft = Draft::read("p.toml", text.as_bytes()).expect("TOML");
    let refusal = draft.check().expect_err("no name");
    assert_eq!((refusal.key(), refusal.found()), ("link 2/name", "nothing"));
}

#[test]
fn the_schema_takes_what_is_read_and_what_is_written() {
    let schema = json_schema::Validator::of_files();
    let mut runner = TestRunner::new(ProptestConfig::with_cases(128));
    let taken = runner.run(&scenario(), |text| {
        prop_assert!(schema.takes(&text), "{}", text);
        let written = plan(&text).to_toml();
        prop_assert!(schema.takes(&written), "{}", written);
        Ok(())
    });
    taken.expect("every scenario fits");
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(128))]

    #[test]
    fn a_plan_that_is_written_and_read_is_the_same(text in scenario()) {
        let first = plan(&text);
        let written = first.to_toml();
        let second = plan(&written);
        prop_assert_eq!(&first, &second, "{}", written);
        prop_assert_eq!(written, second.to_toml());
    }

    #[test]
    fn a_value_that_is_set_is_the_value(text in scenario(), seconds in 2u64..1_000) {
        let mut draft = Draft::read("p.toml", text.as_bytes()).expect("TOML");
        draft.set(&format!("duration={seconds}s")).expect("a name");
        draft.set("flow/f0/cc=reno").expect("a name");
        let changed = draft.check().expect("a plan");
        prop_assert_eq!(changed.duration.as_nanos(), seconds * 1_000_000_000);
        // Datagrams have no control to be set.
        let control = changed.flows[0].transport.cc().unwrap_or("reno".to_owned());
        prop_assert_eq!(control, "reno");
        prop_assert_eq!(&changed.flows[1..], &plan(&text).flows[1..]);
    }

    #[test]
    fn no_text_makes_the_reader_panic(text in "\\PC{0,400}") {
        let _ = Draft::read("p.toml", text.as_bytes()).and_then(|d| d.check());
    }

    #[test]
    fn no_bytes_make_the_reader_panic(bytes in prop::collection::vec(any::<u8>(), 0..400)) {
        let _ = Draft::read("p.toml", &bytes).and_then(|d| d.check());
    }

    #[test]
    fn no_value_makes_the_check_panic(
        key in prop::sample::select(vec![
            "name", "duration", "measure", "seed", "sample_interval", "version", "link/access/up",
            "link/access/ends", "link/access/mtu", "flow/f0/cc", "flow/f0/ecn", "flow/f0/dscp",
            "flow/f0/start", "flow/f0/bytes", "flow/f0/traffic", "flow/f0/ip", "host/server/ipv4",
            "flow/f0/host_model/gro", "flow/f0/mark",
        ]),
        value in "\\PC{0,40}",
        text in scenario(),
    ) {
        let mut draft = Draft::read("p.toml", text.as_bytes()).expect("TOML");
        if draft.set(&format!("{key}={value}")).is_ok() {
            if let Err(refusal) = draft.check() {
                // What was set is what is refused, unless it made something
                // else wrong (a shorter run, another host).
                prop_assert!(refusal.file().is_some());
            }
        }
    }
}
