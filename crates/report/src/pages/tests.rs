//! What holds for every page.

use narrows_results::folder::RunResult;
use narrows_results::summary::TelemetrySummary;

use super::*;

mod looks;

/// A page without the parts that only scripts and eyes read.
fn structure(page: &str) -> String {
    let mut text = String::new();
    let mut rest = page;
    let cuts = [
        ("<style>", "</style>"),
        ("<script", "</script>"),
        ("<svg viewBox", "</svg>"),
    ];
    loop {
        let next = cuts
            .iter()
            .filter_map(|(from, to)| rest.find(from).map(|at| (at, *to)))
            .min();
        let Some((at, to)) = next else { break };
        text += &rest[..at];
        text += "[…]";
        let after = &rest[at..];
        rest = after.find(to).map_or("", |end| &after[end + to.len()..]);
    }
    text += rest;
    // The version is not structure.
    let text = text.replace(env!("CARGO_PKG_VERSION"), "VERSION");
    text.replace('>', ">\n")
}

fn shared() -> RunPage {
    cell_page("l4s-tests/s1", &[], "a/b", "cells/a/b")
}

/// A run whose every name is an attempt to leave its place.
fn hostile() -> RunResult {
    let nasty = "</script><script>alert(1)</script>\"'&<b>";
    let mut run = samples::run();
    run.summary.name = nasty.into();
    run.summary.title = Some(nasty.into());
    run.record.scenario = serde_json::json!({ "name": nasty });
    let entity = format!("flow/{nasty}");
    for track in &mut run.series.tracks {
        if track.entity == "flow/prague" {
            track.entity.clone_from(&entity);
        }
    }
    run.summary.flows[0].name = entity;
    run.summary.queues[0].words = nasty.into();
    run.summary.topology.hosts[0].name = nasty.into();
    run.summary.topology.links[0].ends.0 = nasty.into();
    run.summary.topology.links[0].up[0].words = nasty.into();
    run.record.verdict.findings[0].line = nasty.into();
    run
}

#[test]
fn the_structure_of_a_run_page() {
    insta::assert_snapshot!(structure(&run_html(&samples::run(), &shared())));
}

#[test]
fn the_structure_of_a_campaign_page() {
    let mut folder = samples::campaign();
    // One rate and one pair of RTTs: the rest repeats itself.
    folder
        .result
        .cells
        .retain(|cell| cell.name.starts_with("50Mbit/10-10"));
    let library = Library::Shared(script::SHARED.into());
    insta::assert_snapshot!(structure(&campaign_html(&folder, &library)));
}

#[test]
fn names_cannot_leave_their_place() {
    let page = run_html(&hostile(), &shared());
    let harmless = run_html(&samples::run(), &shared());
    let tags = |page: &str, tag: &str| page.matches(tag).count();
    for tag in ["<script", "</script", "<b>"] {
        assert_eq!(tags(&page, tag), tags(&harmless, tag), "{tag}");
    }
    assert!(page.contains("&lt;script&gt;alert(1)"));
    // Inside the data of charts, too, where plotly.js would read tags.
    assert!(page.contains("\"name\":\"&lt;/script&gt;"));
}

#[test]
fn a_page_asks_nothing_of_the_network() {
    let campaign = campaign_html(
        &samples::campaign(),
        &Library::Shared(script::SHARED.into()),
    );
    let alone = run_html(&samples::run(), &RunPage::default());
    for page in [alone, run_html(&samples::run(), &shared()), campaign] {
        for scheme in [
            "http://",
            "https://",
            "src=\"//",
            "href=\"//",
            "url(",
            "@import",
        ] {
            assert!(!page.contains(scheme), "{scheme}");
        }
        for (before, _) in page.match_indices("src=\"") {
            assert!(
                page[before..].starts_with("src=\"../../../assets/")
                    || page[before..].starts_with("src=\"assets/")
            );
        }
    }
}

#[test]
fn pages_are_small() {
    // A self-contained page holds the script, 1.9 MB packed.
    let alone = run_html(&samples::run(), &RunPage::default());
    assert!(alone.len() < 2_500_000, "{}", alone.len());
    let cell = run_html(&samples::run(), &shared());
    assert!(cell.len() < 350_000, "{}", cell.len());
    // A tenfold length of the run adds no more than what thinning leaves.
    let mut long = samples::run();
    for track in &mut long.series.tracks {
        let values = track.value.repeat(10);
        track.t_s = (1..=values.len()).map(|i| i as f64 * 0.05).collect();
        track.value = values;
    }
    long.summary.duration_s = 1800.0;
    assert!(run_html(&long, &shared()).len() < 700_000);
}

#[test]
fn the_same_data_give_the_same_page() {
    let page = |about: &RunPage| run_html(&samples::run(), about);
    assert!(page(&RunPage::default()) == page(&RunPage::default()));
}

#[test]
fn every_figure_speaks_and_every_table_scrolls() {
    let page = run_html(&samples::run(), &shared());
    let figures = page.matches("<figure class=\"chart").count();
    assert!(figures >= 6);
    assert_eq!(
        page.matches("class=\"plot\" role=\"img\" aria-label=\"")
            .count(),
        figures
    );
    assert_eq!(
        page.matches("<table").count(),
        page.matches("class=\"scroll\"").count()
    );
    for chart in crate::plot::figures::of_run(&samples::run()) {
        assert!(page.contains(&chart.title), "{}", chart.title);
        for axis in [&chart.x, &chart.y] {
            assert!(page.contains(&axis.label()), "{}", axis.label());
        }
    }
}

/// The sample with a second way for data, a second busy queue and random loss.
fn two_ways() -> RunResult {
    let mut run = samples::run();
    let summary = &mut run.summary;
    summary.jain = None;
    let mut down = samples::flow("download", "cubic", 90.0, &[20.0, 21.0], 7);
    (down.from, down.to) = ("server".into(), "client".into());
    summary.flows.push(down);
    summary
        .directions
        .push(narrows_results::summary::DirectionSummary {
            from: vec!["server".into()],
            to: vec!["client".into()],
            flows: vec!["flow/download".into()],
            goodput_mbit: Some(90.0),
            jain: None,
            bulk_flows: 1,
        });
    let queue = &mut summary.queues[1];
    queue.utilisation = Some(0.97);
    queue.marks.step = 371;
    queue.drops.overflow = 91;
    summary
        .droppers
        .push(narrows_results::summary::DropperSummary {
            name: "link/access/up/netem".into(),
            drops: narrows_results::summary::DropCounts {
                loss: 8,
                ..Default::default()
            },
        });
    run
}

#[test]
fn each_direction_has_its_goodput_and_its_fairness() {
    let page = run_html(&two_ways(), &shared());
    for shown in [
        "Goodput, client → server",
        "<strong>47.23 Mbit/s</strong> in all, Jain's index of 2 bulk flows <strong>0.829</strong>",
        "Goodput, server → client",
        "<strong>90.00 Mbit/s</strong>",
    ] {
        assert!(page.contains(shown), "{shown}");
    }
    // What up- and downloads come to together says nothing.
    assert!(!page.contains("137.23"));
}

#[test]
fn every_busy_queue_is_named_and_totals_are_those_of_all() {
    let page = run_html(&two_ways(), &shared());
    for queue in ["access/up/bottleneck", "access/down/bottleneck"] {
        let head = format!("</span>Queue {queue}</h2>");
        assert!(page.contains(&head), "{head}");
    }
    // 8231 + 21 877 + 412 of the one and 371 of the other; 91 in a queue and 8
    // in the element without one.
    assert!(page.contains("together: 30\u{202f}891 CE marks, 99 drops."));
}

#[test]
fn goodputs_stand_before_everything_and_the_digest_at_the_end() {
    let run = samples::run();
    let page = run_html(&run, &shared());
    let goodput = page.find("Goodput, client").unwrap();
    assert!(goodput < page.find("<figure").unwrap());
    assert!(goodput < page.find("<table").unwrap());
    let digest = page.find(&run.record.digest).unwrap();
    assert!(digest > page.find("How to repeat this run").unwrap());
}

#[test]
fn times_are_rounded_for_people() {
    let mut run = samples::run();
    run.summary.duration_s = 20.0;
    run.summary.window.from_s = 20.0 / 3.0;
    let page = run_html(&run, &shared());
    assert!(page.contains("steady window, 6.667 s to 178 s,"));
    assert!(!structure(&page).contains("6.666666666666667"));
    assert!(crate::table::run_table(&run).contains("6.667 s"));
}

/// Nine flows, eight of which have a colour.
#[test]
fn eight_flows_are_eight_series_and_a_colour_is_one_flow_or_one_queue() {
    use crate::plot::chart::Body;
    let mut run = two_ways();
    let rtt = run.summary.flows[0].rtt_ms;
    for number in run.summary.flows.len()..9 {
        let name = format!("more{number}");
        let mut flow = samples::flow(&name, "cubic", 1.0, &[10.0], 0);
        flow.rtt_ms = rtt;
        run.summary.flows.push(flow);
    }
    let track = run
        .series
        .track("flow/prague", "throughput_mbit")
        .cloned()
        .unwrap();
    for flow in &run.summary.flows[2..] {
        run.series.tracks.push(narrows_results::series::Track {
            entity: flow.name.clone(),
            ..track.clone()
        });
    }
    let mut owners: std::collections::BTreeMap<usize, String> = Default::default();
    let charts = crate::plot::figures::of_run(&run);
    for chart in &charts {
        let over_flows = ["throughput", "rtt", "cwnd", "alpha"].contains(&chart.id.as_str());
        let drawn: Vec<(String, usize)> = match &chart.body {
            Body::Curves { curves, .. } => {
                let of = |c: &crate::plot::chart::Curve| (c.name.clone(), c.colour.unwrap());
                curves.iter().map(of).collect()
            }
            Body::Bars { bars, .. } => bars.iter().map(|b| (b.name.clone(), b.colour)).collect(),
            _ => Vec::new(),
        };
        if chart.id == "throughput" {
            assert_eq!(drawn.len(), 8);
        }
        for (name, colour) in drawn {
            // Bands and shades are of the queue that the title names.
            let owner = match chart.title.split_once("in queue, ") {
                Some((_, queue)) => queue.to_owned(),
                None => name,
            };
            let known = owners.entry(colour).or_insert_with(|| owner.clone());
            assert_eq!(*known, owner, "{}", chart.id);
            assert_eq!(
                colour < crate::plot::palette::FLOWS,
                over_flows,
                "{}",
                chart.id
            );
        }
    }
    let page = run_html(&run, &shared());
    assert!(page.contains("8 of 9 flows are drawn"));
}

#[test]
fn a_doubted_or_unfinished_run_says_so_first() {
    let mut run = samples::run();
    run.record.verdict.findings[0].weight = narrows_results::verdict::Weight::Distrust;
    run.record.complete = false;
    let page = run_html(&run, &shared());
    let no = page.find("trust: no, because").unwrap();
    let unfinished = page.find("incomplete").unwrap();
    let first_table = page.find("<table").unwrap();
    assert!(no < first_table && unfinished < first_table);
    assert!(!page.contains("trust: yes"));
}

#[test]
fn a_run_that_got_nowhere_still_has_a_page() {
    let page = run_html(&RunResult::default(), &RunPage::default());
    assert!(page.contains("incomplete"));
    assert!(!page.contains("<figure"));
    // Nothing to draw: no script to carry.
    assert!(page.len() < 40_000, "{}", page.len());
}

#[test]
fn a_campaign_opens_with_what_it_is_about_against_its_axes() {
    let folder = samples::campaign();
    let page = campaign_html(&folder, &Library::Shared(script::SHARED.into()));
    let figure = page.find("<figure").unwrap();
    assert!(page.find("0 of 2 checks pass").is_none());
    let passed = page.find(" of 2 checks pass").unwrap();
    let checks = page.find("<h2>Checks</h2>").unwrap();
    let maps = page.find("<h2>Cell by cell</h2>").unwrap();
    let table = page.find("<table").unwrap();
    let digest = page.find(&folder.record.digest).unwrap();
    assert!(passed < figure && figure < checks && checks < maps && maps < table);
    assert!(digest > page.find("How to repeat this campaign").unwrap());
    // One drawing for each rate and queue, of what is judged.
    let judged = page.matches("id=\"share1_pct-over-rtt-").count();
    assert_eq!(judged, 8);
    assert!(page.contains("Hollow marks: published, with the tolerance."));
    assert!(!page.contains("the published figures are"));
}

#[test]
fn what_is_not_published_has_no_columns() {
    let mut folder = samples::campaign();
    let with = campaign_html(&folder, &Library::Shared(script::SHARED.into()));
    for cell in &mut folder.result.cells {
        for m in &mut cell.metrics {
            (m.published, m.difference, m.tolerance, m.within, m.band) = Default::default();
        }
    }
    folder.result.checks.clear();
    folder.result.seeds = vec![1];
    let without = campaign_html(&folder, &Library::Shared(script::SHARED.into()));
    for words in [
        "published beside measured",
        ">published</th>",
        ">difference</th>",
        ">tolerance</th>",
        ">within</th>",
        ">spread</th>",
        "only outside",
        "Measured against published",
        "Hollow marks",
        "outside its band",
        "nothing published",
    ] {
        assert!(with.contains(words), "{words}");
        assert!(!without.contains(words), "{words}");
    }
    assert!(without.contains(">measured</th>"));
}

#[test]
fn metrics_have_titles_and_units_that_the_file_gives() {
    let mut folder = samples::campaign();
    folder.result.titles = ["first rate", "first share", "fairness"]
        .map(|title| narrows_results::campaign::MetricTitle {
            title: title.to_owned(),
            unit: "parsec".to_owned(),
        })
        .into();
    let page = campaign_html(&folder, &Library::Shared(script::SHARED.into()));
    assert!(page.contains("first share (parsec)"));
    assert!(page.contains("<option value=\"jain\">fairness</option>"));
}

#[test]
fn a_colour_scale_enlarges_no_difference_that_means_nothing() {
    use crate::plot::comparison::scale;
    let mut folder = samples::campaign();
    let mut set = |value: &dyn Fn(usize) -> f64, spread: f64| {
        for (place, cell) in folder.result.cells.iter_mut().enumerate() {
            let m = &mut cell.metrics[0];
            (m.metric, m.published, m.band) = ("rtt_ms".into(), None, None);
            (m.measured, m.spread) = (Some(value(place)), spread);
        }
        folder.result.metrics[0] = "rtt_ms".into();
        let scale = scale(&folder.result, "rtt_ms");
        let places = (0..192).map(|place| scale.place(value(place)));
        places.fold(0.0, f64::max) - 0.5
    };
    // 60.38 to 60.41 ms: the same colour but for a trace.
    assert!(set(&|place| 60.38 + 0.03 * (place as f64 / 191.0), 0.0) < 0.01);
    // Twice as long is the other end of the scale.
    assert!(set(&|place| 60.0 + 60.0 * (place as f64 / 191.0), 0.0) > 0.49);
    // Unless seeds differ as much.
    assert!(set(&|place| 60.0 + 60.0 * (place as f64 / 191.0), 60.0) < 0.2);
}

#[test]
fn a_campaign_leads_to_each_of_its_cells_and_shares_one_script() {
    let dir = tempfile::tempdir().unwrap();
    let folder = samples::campaign();
    let path = write_campaign(dir.path(), &folder).unwrap();
    let page = std::fs::read_to_string(path).unwrap();
    for cell in &folder.result.cells {
        let link = format!("href=\"{}/report.html\"", cell.folder);
        assert!(page.contains(&link), "{link}");
    }
    let cell = &folder.result.cells[0];
    let about = cell_page(&folder.result.name, &[], &cell.name, &cell.folder);
    let at = dir.path().join(&cell.folder);
    write_run(&at, &samples::run(), &about).unwrap();
    let Library::Shared(script) = &about.library else {
        panic!("cells share the script");
    };
    assert!(at.join(script).exists());
    let (_, back) = about.within.unwrap();
    assert!(at.join(back).exists());
}

#[test]
fn a_page_says_which_kernel_in_virtual_time_ran() {
    let mut run = samples::run();
    run.summary.engine = "kernel".to_owned();
    run.record.kernel = "7.3.4".to_owned();
    run.record.virtual_kernel = Some(narrows_engine::VirtualKernel {
        id: "7.3.4-0123456789ab".to_owned(),
        release: "7.3.4".to_owned(),
        source: "/src/net-next".to_owned(),
        source_sha256: "cd".repeat(32),
        compiler: "gcc (Debian 12.2.0-14) 12.2.0".to_owned(),
        changes: vec!["seeded randomness".to_owned(), "tick".to_owned()],
        ..Default::default()
    });
    let page = run_html(&run, &shared());
    for said in [
        "7.3.4-0123456789ab",
        "/src/net-next",
        &"cd".repeat(32),
        "gcc (Debian 12.2.0-14) 12.2.0",
        "seeded randomness, tick",
    ] {
        assert!(page.contains(said), "{said}");
    }
    assert!(!page.contains("pahole"), "what is not known has no line");
}

#[test]
fn a_live_run_tells_of_its_rig_and_a_simulated_one_of_its_digest() {
    let mut run = samples::run();
    let simulated = run_html(&run, &shared());
    assert!(!simulated.contains("The rig") && simulated.contains("byte for byte"));
    run.summary.engine = "live".to_owned();
    run.record.rig = Some(narrows_engine::Rig {
        kernel: "6.18.44".to_owned(),
        lateness: narrows_engine::Lateness {
            count: 12_345,
            p99_us: 23.4,
            ..Default::default()
        },
        flows: vec![narrows_engine::FlowFacts {
            name: "flow/prague".to_owned(),
            congestion_control: "nw_prague".to_owned(),
            accecn: true,
            received_ce: Some(77),
            delivered_ce: Some(77),
            notes: vec!["the socket was slow".to_owned()],
            ..Default::default()
        }],
        ..Default::default()
    });
    let live = run_html(&run, &shared());
    for told in [
        "The rig",
        "23.4 µs",
        "nw_prague",
        "AccECN, 77 marks received and 77 fed back",
        "flow/prague: the socket was slow",
    ] {
        assert!(live.contains(told), "{told}");
    }
    assert!(!live.contains("byte for byte"));
}

#[test]
fn fields_that_declare_a_chart_are_drawn_together_where_they_have_one_unit() {
    let mut run = samples::run();
    let flow = run.summary.flows[0].name.clone();
    let fields = [
        ("target_mbit", "mbit"),
        ("achieved_mbit", "mbit"),
        ("error", ""),
    ];
    run.summary.flows[0].telemetry = fields
        .iter()
        .map(|(name, unit)| TelemetrySummary {
            name: (*name).into(),
            unit: (*unit).into(),
            chart: "rates".into(),
            ..TelemetrySummary::default()
        })
        .collect();
    for (name, _) in fields {
        let mut track = run.series.tracks[0].clone();
        track.entity.clone_from(&flow);
        track.metric = name.into();
        run.series.tracks.push(track);
    }
    let charts = crate::plot::figures::of_run(&run);
    let drawn = |id: &str| -> Vec<String> {
        let chart = charts.iter().find(|c| c.id == id).expect(id);
        let crate::plot::chart::Body::Curves { curves, .. } = &chart.body else {
            panic!("{id}: {:?}", chart.body)
        };
        curves.iter().map(|c| c.name.clone()).collect()
    };
    assert_eq!(
        drawn("prague-target_mbit"),
        ["target_mbit", "achieved_mbit"]
    );
    assert_eq!(drawn("prague-error"), ["error"]);
}
