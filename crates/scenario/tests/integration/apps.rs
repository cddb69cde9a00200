//! Applications in scenario files: what is read, what is refused and where, what is written.

use narrows_scenario::{APP_KINDS, Draft, NameTable, Plan, Refusal, Transport};

use super::json_schema::Validator;

const BASE: &str = "version = 1\nname = \"x\"\nduration = \"10s\"\n\
    [[link]]\nname = \"l\"\nends = [\"client\", \"server\"]\n";

fn check(more: &str) -> Result<Plan, Refusal> {
    Draft::read("x.toml", format!("{BASE}{more}").as_bytes())?.check()
}

/// An application with these keys.
fn app(keys: &str) -> String {
    format!(
        "[[app]]\nname = \"api\"\nkind = \"request\"\nfrom = \"client\"\nto = \"server\"\n{keys}\n"
    )
}

fn plan(more: &str) -> Plan {
    check(more).unwrap_or_else(|e| panic!("{e}\n{more}"))
}

#[test]
fn a_short_table_is_an_application_with_its_kind_said() {
    let long = app("response = \"1Mb\"\narrivals = \"poisson 20ms\"");
    let short = long.replace("[[app]]", "[[request]]");
    let short = short.replace("kind = \"request\"\n", "");
    assert_eq!(plan(&short), plan(&long));
    let both = plan(&format!("{short}{}", long.replace("api", "other")));
    let names: Vec<&str> = both.apps.iter().map(|app| app.name.as_str()).collect();
    assert_eq!(names, ["other", "api"]);
    let refusal = check(&short.replace("[[request]]", "[[request]]\nkind = \"request\""));
    let line = refusal.expect_err("said twice").to_line();
    assert!(line.contains("[[request]] says it"), "{line}");
}

#[test]
fn numbers_and_words_mean_the_same() {
    let words = plan(&app("request = \"1000\"\nresponse = \"2000b\""));
    assert_eq!(plan(&app("request = 1000\nresponse = 2000")), words);
}

#[test]
fn what_an_application_lacks_or_has_too_much_is_refused_at_its_key() {
    let at = |text: &str, of: &str| {
        let text = format!("{BASE}{text}");
        text.lines()
            .position(|line| line.starts_with(of))
            .map_or(0, |n| n + 1)
    };
    for (more, key, needs) in [
        (
            app("kind = \"requests\"").replacen("kind = \"request\"\n", "", 1),
            "kind",
            "did you mean `request`?",
        ),
        (
            app("kind = \"cbr\"").replacen("kind = \"request\"\n", "", 1),
            "kind",
            "[[flow]]",
        ),
        (app("sise = 3"), "sise", "`request`"),
        (app("respons = 3"), "respons", "did you mean `response`?"),
        (app("arrivals = \"often\""), "arrivals", "poisson TIME"),
        (app("response = 0"), "response", "more than zero"),
        (app("response = true"), "response", "a size such as"),
        (app("stop = \"11s\""), "stop", "the run's end"),
        (app("cc = \"cubik\""), "cc", "did you mean `cubic`?"),
        (app("ecn = \"maybe\""), "ecn", "accecn"),
        (
            app("transport = \"quic-model\""),
            "transport",
            "`tcp` or `quic`",
        ),
        (app("spin = \"on\""), "spin", "the unknown key"),
        (app("ip = 5"), "ip", "4 or 6"),
    ] {
        let refusal = check(&more).expect_err(&more);
        let line = refusal.to_line();
        assert!(line.contains(&format!("app/api/{key}")), "{line}");
        assert!(line.contains(needs), "{needs}: {line}");
        assert!(
            line.starts_with(&format!("x.toml:{}:", at(&more, key))),
            "{line}"
        );
    }
    for (part, key) in [
        ("kind = \"request\"\n", "kind"),
        ("to = \"server\"\n", "to"),
    ] {
        let line = check(&app("").replacen(part, "", 1))
            .expect_err(part)
            .to_line();
        assert!(
            line.contains(&format!("app/api/{key}")) && line.contains("nothing"),
            "{line}"
        );
    }
    let twice = check(&format!("{}{}", app(""), app(""))).expect_err("one name");
    assert!(twice.to_line().contains("`api` for the second time"));
    let line = check("[[reqest]]\nname = \"x\"\n")
        .expect_err("no such table")
        .to_line();
    assert!(line.contains("did you mean `request`?"), "{line}");
    let line = check("request = 3\n")
        .map(|_| ())
        .expect_err("no table")
        .to_line();
    assert!(line.contains("request"), "{line}");
}

#[test]
fn what_is_written_is_read_as_the_same() {
    for keys in [
        "",
        "cc = \"prague\"\nstart = \"1s\"\nstop = \"9s\"\ndscp = \"ef\"\nip = 6",
        "cc = \"cubic\"\necn = true\nfast_open = true\nhost_model = { segmentation = \"tso\" }",
        "cc = \"quic:cubic\"\necn = false",
        "transport = \"quic\"",
        "request = \"1Kb\"\nresponse = 3000000\narrivals = \"every 1ms\"\nconnection = \"new\"",
    ] {
        let plan = plan(&app(keys));
        let text = plan.to_toml();
        let again = Draft::read("again.toml", text.as_bytes()).and_then(|d| d.check());
        assert_eq!(
            again.unwrap_or_else(|e| panic!("{e}\n{text}")),
            plan,
            "{text}"
        );
        assert!(Validator::of_files().takes(&text), "{text}");
    }
}

/// A table of `kind` with these keys.
fn of_kind(kind: &str, keys: &str) -> String {
    format!("[[{kind}]]\nname = \"a\"\nfrom = \"client\"\nto = \"server\"\n{keys}\n")
}

#[test]
fn every_kind_is_written_as_it_was_read() {
    for (kind, keys) in [
        (
            "call",
            "media = \"video rate 1Mbit fps 25\"\ncodepoint = \"ect1\"\ndscp = 46",
        ),
        (
            "call",
            "direction = \"up\"\ndeadline = \"400ms\"\nwindow = \"2s\"",
        ),
        (
            "short",
            "sizes = [\"list\", 1000, \"2kb\"]\narrivals = \"load 5Mbit\"",
        ),
        (
            "short",
            "sizes = \"cdf 1kb:0.2 10kb:0.8 1Mb:1\"\ndirection = \"down\"\ncc = \"prague\"",
        ),
        (
            "short",
            "ideal = \"rate 50Mbit rtt 20ms\"\nfast_open = true",
        ),
        (
            "video",
            "ladder = [\"1Mbit\", \"2Mbit\"]\nrule = \"bola\"\npace = 1.25",
        ),
        (
            "video",
            "ladder = \"uhd\"\nsegment = \"2s\"\nbuffer = \"20s\"\nstartup = \"1s\"",
        ),
        (
            "web",
            "page = \"1x30kb 8x10kb+12x25kb\"\nconnections = 1\nthink = \"1s\"",
        ),
        ("web", "cc = \"quic:cubic\""),
    ] {
        let plan = plan(&of_kind(kind, keys));
        let text = plan.to_toml();
        let again = Draft::read("again.toml", text.as_bytes()).and_then(|d| d.check());
        assert_eq!(
            again.unwrap_or_else(|e| panic!("{e}\n{text}")),
            plan,
            "{text}"
        );
        assert!(Validator::of_files().takes(&text), "{text}");
    }
}

#[test]
fn what_a_kind_has_no_place_for_and_what_has_no_meaning_is_refused_at_its_key() {
    for (kind, key, value, needs) in [
        (
            "call",
            "cc",
            "\"cubic\"",
            "nothing, for `call` sends plain datagrams",
        ),
        ("call", "ecn", "true", "`codepoint`"),
        ("call", "media", "\"video fps 0\"", "1 to 240"),
        ("call", "media", "\"video rate 1Kbit\"", "at least 64 bytes"),
        ("short", "arrivals", "\"poisson 0s\"", "10us or more"),
        ("short", "arrivals", "\"every 1ns\"", "10us or more"),
        ("request", "arrivals", "\"every 1us\"", "10us or more"),
        // 49 kB each 10 us.
        ("short", "arrivals", "\"load 1Tbit\"", "a load below 39"),
        ("short", "sizes", "\"constant 1\"", "at least 24 bytes"),
        ("short", "sizes", "\"list 100 2 3\"", "at least 24 bytes"),
        ("call", "media", "\"video rate 1000Gbit\"", "up to 10Gbit"),
        (
            "video",
            "startup",
            "\"31s\"",
            "at most what `buffer` asks for, 30s",
        ),
        ("video", "segment", "\"1ns\"", "100ms or more"),
        ("short", "arrivals", "\"load 0bit\"", "more than zero"),
        ("short", "sizes", "\"list\"", "a size such as"),
        (
            "short",
            "sizes",
            "\"cdf 10kb:0.5 1kb:1\"",
            "no smaller than in the point before",
        ),
        ("short", "size", "1000", "did you mean `sizes`?"),
        ("video", "ladder", "\"\"", "rates that rise"),
        ("video", "ladder", "[]", "rates that rise"),
        (
            "video",
            "ladder",
            "\"2Mbit 1Mbit\"",
            "a higher rate than the one before",
        ),
        ("video", "segment", "\"0s\"", "100ms or more"),
        ("web", "page", "\"0x1kb\"", "desktop, or levels such as"),
        ("web", "connections", "0", "1 to 256"),
    ] {
        let more = of_kind(kind, &format!("{key} = {value}"));
        let line = check(&more).expect_err(&more).to_line();
        assert!(line.contains(&format!("app/a/{key}")), "{line}");
        assert!(line.contains(needs), "{needs}: {line}");
    }
}

#[test]
fn a_buffer_below_what_is_there_before_it_plays_is_refused_at_that() {
    let film = |keys: &str| {
        let keys = keys.replace(';', "\n");
        app("")
            .replace("[[app]]", "[[video]]")
            .replace("kind = \"request\"\n", "")
            + &keys
    };
    let line = check(&film("buffer = \"2s\""))
        .expect_err("a startup of 4 s")
        .to_line();
    assert!(
        line.contains("app/api/startup") && line.contains("at most"),
        "{line}"
    );
    plan(&film("buffer = \"2s\";startup = \"2s\""));
}

#[test]
fn a_value_is_set_by_the_name_of_the_application() {
    let short = app("")
        .replace("[[app]]", "[[request]]")
        .replace("kind = \"request\"\n", "");
    let mut draft = Draft::read("x.toml", format!("{BASE}{short}").as_bytes()).expect("TOML");
    draft.set("app/api/response=1Mb").expect("a name");
    draft.set("app/api/cc=reno").expect("a name");
    draft
        .set("app/api/host_model/segmentation=tso")
        .expect("a name");
    let plan = draft.check().expect("a plan");
    let parameters: Vec<_> = plan.apps[0].spec.parameters().collect();
    assert!(
        parameters.contains(&("response", "1Mb".to_owned())),
        "{parameters:?}"
    );
    let tcp = plan.apps[0].transport.tcp().expect("TCP");
    assert_eq!(tcp.cc.to_string(), "reno");
    assert!(draft.set("app/other/cc=reno").is_err());
}

#[test]
fn a_line_says_an_application_with_its_parameters_and_transport() {
    let words = |all: &[&str]| all.iter().map(|w| (*w).to_owned()).collect::<Vec<_>>();
    let of = |app: &str| {
        let links = words(&["rate 10Mbit"]);
        Draft::with_apps(&links, &[], &words(&[app]), None).and_then(|draft| draft.check())
    };
    let plan = of("api: request request 1Kb response 1Mb arrivals poisson 20ms cc prague start 1s");
    let app = &plan.expect("a plan").apps[0];
    let said = "request request 1Kb response 1Mb arrivals poisson 20ms connection kept";
    assert_eq!(app.spec.to_string(), said);
    assert_eq!(app.transport.control_name(), "prague");
    assert_eq!(
        (app.name.as_str(), app.start.as_nanos()),
        ("api", 1_000_000_000)
    );
    let plain = of("request").expect("a plan");
    assert_eq!(plain.apps[0].name, "request");
    assert!(matches!(&plain.apps[0].transport, Transport::Tcp(tcp) if tcp.cc.name() == "cubic"));
    for (app, needs) in [
        ("", "`request`"),
        ("requests", "did you mean `request`?"),
        ("request 1Kb", "`1Kb`"),
        ("request response", "app/request/response"),
    ] {
        let line = of(app).expect_err(app).to_line();
        assert!(line.starts_with("--app") && line.contains(needs), "{line}");
    }
}

#[test]
fn applications_have_names_and_metrics_of_their_own() {
    let plan = plan(&app(""));
    assert!(NameTable::of(&plan).id("app/api").is_some());
    let json = serde_json::to_value(&plan).expect("JSON");
    assert_eq!(json["apps"][0]["response"], "20000b");
    assert_eq!(json["apps"][0]["cc"], "cubic");
    let campaign = |formula: &str| {
        let text = format!(
            "version = 1\nkind = \"campaign\"\nname = \"c\"\ncell = \"{{cc}}\"\n\
             [scenario]\nduration = \"5s\"\n\
             [[scenario.link]]\nname = \"l\"\nends = [\"client\", \"server\"]\n\
             up = [\"rate 1Mbit\"]\n\
             [[scenario.request]]\nname = \"api\"\nfrom = \"client\"\nto = \"server\"\n\
             [axis]\ncc = [\"cubic\", \"reno\"]\n[set]\n\"app/api/cc\" = \"{{cc}}\"\n\
             [metric]\nm = \"{formula}\"\n"
        );
        struct Empty;
        impl narrows_scenario::Shelf for Empty {
            fn open(&self, _: &str) -> Result<Vec<u8>, String> {
                Err("no files".to_owned())
            }
        }
        let read = narrows_scenario::Campaign::read("c.toml", text.as_bytes(), &Empty, &[]);
        read.map_err(|refusal| refusal.to_line())
    };
    for formula in [
        "response_ms.p99 of app/api",
        "requests.per_s of app/api",
        "outstanding.max of app/api",
    ] {
        let campaign = campaign(formula).expect(formula);
        let words = campaign.cells[1].plan.apps[0].transport.control_words();
        assert_eq!(words, "reno");
    }
    for formula in ["response_ms.total of app/api", "requests.p99 of app/api"] {
        assert!(campaign(formula).is_err(), "{formula}");
    }
}

#[test]
fn the_schema_knows_the_keys_of_each_kind() {
    let schema = Validator::of_files();
    for kind in APP_KINDS {
        let table = format!(
            "{BASE}[[{}]]\nname = \"a\"\nfrom = \"client\"\nto = \"server\"\n",
            kind.name
        );
        assert!(schema.takes(&table), "{}", kind.name);
        assert!(
            !schema.takes(&format!("{table}nosuch = 1\n")),
            "{}",
            kind.name
        );
    }
    assert!(schema.takes(&format!("{BASE}{}", app("response = 1000"))));
    assert!(!schema.takes(&format!(
        "{BASE}{}",
        app("").replace("\"request\"", "\"requests\"")
    )));
}

#[test]
fn the_drawing_says_that_plain_datagrams_go_where_there_is_no_transport() {
    let search = "[[pmtud]]\nname = \"search\"\nfrom = \"client\"\nto = \"server\"\n";
    let drawn = plan(&format!("{search}{}", app(""))).drawing();
    let lines: Vec<&str> = drawn.lines().filter(|l| l.contains("<->")).collect();
    assert!(lines[1].ends_with(", cubic"), "{drawn}");
    assert!(lines[2].ends_with(", datagrams"), "{drawn}");
}
