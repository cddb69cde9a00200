//! Made-up results in the form of real ones, for the tests of pages and
//! figures: two flows through DualPI2, and a small campaign.

use narrows_results::campaign::{
    AxisResult, CampaignResult, CellResult, CheckResult, MetricResult,
};
use narrows_results::folder::{CampaignFolder, RunRecord, RunResult};
use narrows_results::series::{Series, Track};
use narrows_results::summary::{
    BandSummary, CodepointSummary, DirectionSummary, Distribution, DropCounts, FieldFigures,
    FlowSummary, LimitedSummary, MarkCounts, QueueSummary, RecoverySummary, RunSummary,
    TelemetrySummary, Topology, TopologyElement, TopologyHost, TopologyLink, WindowSummary,
};
use narrows_results::verdict::{Finding, Verdict, Weight};

/// A generator of pseudo-random numbers: a linear congruence (Knuth's
/// MMIX constants).
struct Noise(u64);

impl Noise {
    fn next(&mut self) -> f64 {
        self.0 = self
            .0
            .wrapping_mul(6_364_136_223_846_793_005)
            .wrapping_add(1_442_695_040_888_963_407);
        (self.0 >> 33) as f64 / (1u64 << 31) as f64
    }
}

fn distribution(values: &[f64]) -> Distribution {
    let mut sorted = values.to_vec();
    sorted.sort_by(f64::total_cmp);
    let at = |share: f64| sorted[((sorted.len() - 1) as f64 * share) as usize];
    Distribution {
        count: values.len() as u64,
        min: at(0.0),
        mean: values.iter().sum::<f64>() / values.len() as f64,
        p50: at(0.5),
        p95: at(0.95),
        p99: at(0.99),
        max: at(1.0),
    }
}

fn cdf(values: &[f64]) -> Vec<(f64, f64)> {
    let mut sorted = values.to_vec();
    sorted.sort_by(f64::total_cmp);
    (1..=200)
        .map(|i| {
            let share = f64::from(i) / 200.0;
            (sorted[((sorted.len() - 1) as f64 * share) as usize], share)
        })
        .collect()
}

fn track(entity: &str, metric: &str, values: &[f64]) -> Track {
    Track {
        entity: entity.into(),
        metric: metric.into(),
        t_s: (1..=values.len()).map(|i| i as f64 * 0.05).collect(),
        value: values.to_vec(),
    }
}

fn element(name: &str, words: &str) -> TopologyElement {
    TopologyElement {
        name: name.into(),
        words: words.into(),
    }
}

pub fn flow(name: &str, cc: &str, goodput: f64, rtt: &[f64], marks: u64) -> FlowSummary {
    FlowSummary {
        name: format!("flow/{name}"),
        from: "client".into(),
        to: "server".into(),
        cc: cc.into(),
        established_s: Some(0.02),
        ecn: true,
        accecn: cc == "prague",
        goodput_mbit: Some(goodput),
        rtt_ms: Some(distribution(rtt)),
        bytes: (goodput * 1e6 / 8.0 * 60.0) as u64,
        bytes_total: (goodput * 1e6 / 8.0 * 178.0) as u64,
        retransmissions: 0,
        ce_marks: marks,
        recovery: RecoverySummary {
            ecn_reductions: marks / 3,
            slow_start_exits: 1,
            ..Default::default()
        },
        limited: LimitedSummary::default(),
        limited_in_window: LimitedSummary::default(),
        codepoints: CodepointSummary::default(),
        telemetry: if cc == "prague" {
            vec![TelemetrySummary {
                name: "alpha".into(),
                about: "share of packets marked, as the sender estimates it".into(),
                figures: FieldFigures::Gauge {
                    mean: 0.1,
                    min: 0.08,
                    max: 0.99,
                },
                ..Default::default()
            }]
        } else {
            Vec::new()
        },
        ..Default::default()
    }
}

/// The flows from client to server.
pub fn direction(flows: &[&str], goodput: f64, jain: Option<f64>) -> DirectionSummary {
    DirectionSummary {
        from: vec!["client".into()],
        to: vec!["server".into()],
        flows: flows.iter().map(|name| format!("flow/{name}")).collect(),
        goodput_mbit: Some(goodput),
        jain,
        bulk_flows: flows.len(),
    }
}

/// Prague beside CUBIC on DualPI2, 180 s.
pub fn run() -> RunResult {
    let mut noise = Noise(1);
    let mut prague = [Vec::new(), Vec::new(), Vec::new()];
    let mut cubic = [Vec::new(), Vec::new(), Vec::new()];
    let mut low = Vec::new();
    let mut classic = Vec::new();
    let mut alpha = Vec::new();
    for step in 0..3600 {
        let t = f64::from(step) * 0.05;
        let start = (t / 2.0).min(1.0);
        let saw = (t % 4.0) / 4.0;
        let c = start * (11.5 + 3.0 * saw + 0.8 * noise.next());
        let l = start * (47.5 - c - 0.6 * noise.next());
        let queue = 12.0 + 6.0 * saw + 2.0 * noise.next();
        let shallow = 0.12 + 0.7 * noise.next() * noise.next();
        prague[0].push(l);
        prague[1].push(10.2 + shallow + 0.1 * noise.next());
        prague[2].push((l * 10.6 / 11.6).round());
        cubic[0].push(c);
        cubic[1].push(10.2 + queue);
        cubic[2].push((c * (10.2 + queue) / 11.6).round());
        low.push(shallow);
        classic.push(queue);
        alpha.push(0.08 + 0.02 * noise.next() + (1.0 - start) * 0.9);
    }
    let bottleneck = "link/access/up/bottleneck";
    let mut tracks = vec![track("flow/prague", "alpha", &alpha)];
    for (entity, values) in [("flow/prague", &prague), ("flow/cubic", &cubic)] {
        for (metric, values) in ["throughput_mbit", "rtt_ms", "cwnd_packets"]
            .iter()
            .zip(values)
        {
            tracks.push(track(entity, metric, values));
        }
    }
    tracks.push(track(bottleneck, "sojourn_low_latency_ms", &low));
    tracks.push(track(bottleneck, "sojourn_classic_ms", &classic));
    let marks = MarkCounts {
        step: 8_231,
        coupled: 21_877,
        probability: 412,
        overflow: 0,
    };
    let band = |name: &str, values: &[f64], packets| BandSummary {
        name: name.into(),
        packets,
        wire_bytes: packets * 1514,
        sojourn_ms: Some(distribution(values)),
        sojourn_cdf: cdf(values),
    };
    let queues = vec![
        QueueSummary {
            name: bottleneck.into(),
            words: "rate 50Mbit queue dualpi2".into(),
            rate_mbit: Some(50.0),
            utilisation: Some(0.9967),
            packets: 246_700,
            wire_bytes: 373_503_800,
            sojourn_ms: Some(distribution(&[low.clone(), classic.clone()].concat())),
            sojourn_cdf: cdf(&[low.clone(), classic.clone()].concat()),
            bands: vec![
                band("classic", &classic, 66_100),
                band("low_latency", &low, 180_600),
            ],
            marks,
            drops: DropCounts::default(),
            peak_backlog_packets: 164,
            peak_backlog_bytes: 248_296,
            probability: Some(0.0123),
        },
        QueueSummary {
            name: "link/access/down/bottleneck".into(),
            words: "rate 50Mbit queue dualpi2".into(),
            rate_mbit: Some(50.0),
            utilisation: Some(0.021),
            packets: 130_210,
            wire_bytes: 10_416_800,
            sojourn_ms: Some(distribution(&[0.0, 0.01, 0.02])),
            sojourn_cdf: cdf(&[0.0, 0.01, 0.02]),
            peak_backlog_packets: 4,
            peak_backlog_bytes: 320,
            ..Default::default()
        },
    ];
    let lane = |side: &str| {
        vec![
            element(
                &format!("link/access/{side}/delay"),
                "by dscp 8 (netem delay 5ms) 16 (netem delay 80ms) else (netem delay 10ms)",
            ),
            element(
                &format!("link/access/{side}/bottleneck"),
                "rate 50Mbit queue dualpi2",
            ),
        ]
    };
    let host = |name: &str| TopologyHost {
        name: name.into(),
        router: false,
    };
    let verdict = Verdict {
        findings: vec![Finding {
            weight: Weight::Note,
            check: "ecn".into(),
            entity: "flow/cubic".into(),
            line: "flow/cubic negotiated classic ECN, as asked".into(),
        }],
    };
    let window = WindowSummary {
        from_s: 118.0,
        to_s: 178.0,
    };
    RunResult {
        dir: None,
        record: RunRecord {
            format: 1,
            kind: "run".into(),
            name: "prague-beside-cubic".into(),
            narrows: "0.1.0".into(),
            engine: "sim".into(),
            seeds: vec![1],
            started_utc: "2026-01-02T03:04:05Z".into(),
            wall_s: 0.42,
            virtual_s: 180.0,
            events: 4_812_907,
            packets: 1_130_412,
            digest: "9f86d081884c7d659a2feaa0c55ad015a3bf4f1b2b0b822cd15d6c15b0f00a08".into(),
            verdict,
            complete: true,
            scenario: serde_json::json!({"version": 1, "name": "prague-beside-cubic", "duration": "180s"}),
            ..Default::default()
        },
        summary: RunSummary {
            name: "prague-beside-cubic".into(),
            title: Some("Prague and CUBIC share a 50 Mbit/s link with DualPI2".into()),
            engine: "sim".into(),
            seed: 1,
            duration_s: 180.0,
            window,
            jain: Some(0.829),
            directions: vec![direction(&["prague", "cubic"], 47.23, Some(0.829))],
            flows: vec![
                flow("prague", "prague", 34.21, &prague[1][2360..3560], 30_108),
                flow("cubic", "cubic", 13.02, &cubic[1][2360..3560], 412),
            ],
            queues,
            topology: Topology {
                hosts: vec![host("client"), host("server")],
                links: vec![TopologyLink {
                    name: "access".into(),
                    ends: ("client".into(), "server".into()),
                    up: lane("up"),
                    down: lane("down"),
                }],
                changes: Vec::new(),
                splits: Vec::new(),
            },
            ..Default::default()
        },
        series: Series {
            interval_s: 0.05,
            tracks,
        },
    }
}

/// 96 cells with made-up figures around made-up published ones.
pub fn campaign() -> CampaignFolder {
    let mut noise = Noise(7);
    let axis = |name: &str, values: &[&str]| AxisResult {
        name: name.into(),
        values: values.iter().map(|v| (*v).to_owned()).collect(),
    };
    let axes = vec![
        axis("rate", &["10Mbit", "50Mbit"]),
        axis(
            "rtt",
            &["10-10", "20-10", "20-20", "80-80", "80-20", "160-10"],
        ),
        axis("qdisc", &["dualpi2", "pfifo", "fq_codel", "cnq_codel_af"]),
        axis(
            "cc",
            &[
                "cubic-cubic",
                "prague-prague",
                "cubic-prague",
                "prague-cubic",
            ],
        ),
    ];
    let mut cells = Vec::new();
    for rate in &axes[0].values {
        for rtt in &axes[1].values {
            for qdisc in &axes[2].values {
                for cc in &axes[3].values {
                    let lean = match (qdisc.as_str(), cc.as_str()) {
                        ("dualpi2", "prague-cubic") => 20.0,
                        ("dualpi2", "cubic-prague") => -20.0,
                        ("pfifo", "prague-cubic") => -9.0,
                        ("pfifo", "cubic-prague") => 9.0,
                        _ => 0.0,
                    };
                    let long = if rtt == "160-10" && qdisc != "fq_codel" {
                        -34.0
                    } else {
                        0.0
                    };
                    let share: f64 = (50.0 + lean + long + 2.0 * noise.next()).max(2.3);
                    let measured = (share + 8.0 * (noise.next() - 0.5)).clamp(0.5, 99.0);
                    let name = format!("{rate}/{rtt}/{qdisc}/{cc}");
                    let published = (rate == "50Mbit").then_some(share);
                    let metric =
                        |name: &str, p: Option<f64>, m: f64, band: Option<&str>| MetricResult {
                            metric: name.into(),
                            published: p,
                            measured: Some(m),
                            spread: 1.3,
                            by_seed: vec![Some(m), Some(m + 0.8), Some(m - 0.5)],
                            difference: p.map(|p| m - p),
                            tolerance: band.map(Into::into),
                            band: p.and_then(|p| band.map(|_| (p - 3.0, p + 3.0))),
                            within: p.and_then(|p| band.map(|_| (m - p).abs() <= 3.0)),
                        };
                    let jain = |s: f64| {
                        let x = s / 100.0;
                        1.0 / (2.0 * (x * x + (1.0 - x) * (1.0 - x)))
                    };
                    cells.push(CellResult {
                        at: vec![rate.clone(), rtt.clone(), qdisc.clone(), cc.clone()],
                        folder: format!("cells/{name}"),
                        metrics: vec![
                            metric(
                                "rate1_mbit",
                                published.map(|s| s * 0.478),
                                measured * 0.478,
                                None,
                            ),
                            metric("share1_pct", published, measured, Some("±3")),
                            metric("jain", published.map(jain), jain(measured), None),
                        ],
                        verdict: Verdict::default(),
                        by_seed: Vec::new(),
                        error: None,
                        name,
                    });
                }
            }
        }
    }
    let outside: Vec<String> = cells
        .iter()
        .filter(|c| c.at[2] == "dualpi2" && c.metrics[1].within == Some(false))
        .map(|c| c.name.clone())
        .collect();
    let check = |qdisc: &str, inside: usize, needed: usize, outside: Vec<String>| CheckResult {
        group: format!("qdisc={qdisc}"),
        metric: "share1_pct".into(),
        tolerance: "±3".into(),
        judged: 24,
        inside,
        needed,
        passed: inside >= needed,
        line: format!(
            "qdisc={qdisc}: share1_pct within ±3 in {inside} of 24 cells, {needed} needed"
        ),
        outside,
        conditions: Vec::new(),
    };
    CampaignFolder {
        dir: "results/s1".into(),
        record: RunRecord {
            kind: "campaign".into(),
            narrows: "0.1.0".into(),
            engine: "sim".into(),
            wall_s: 48.2,
            virtual_s: 103_680.0,
            events: 912_113_204,
            started_utc: "2026-01-02T03:04:05Z".into(),
            digest: "60303ae22b998861bce3b28f33eec1be758a213c86c93c076dbe9f558c11c752".into(),
            complete: true,
            ..Default::default()
        },
        result: CampaignResult {
            name: "l4s-tests/s1".into(),
            title: Some("RTT fairness of two flows through four bottlenecks".into()),
            source: Some("heistp/l4s-tests, README, scenario 1, 50 Mbit half".into()),
            seeds: vec![1, 2, 3],
            metrics: vec!["rate1_mbit".into(), "share1_pct".into(), "jain".into()],
            titles: Vec::new(),
            figures: Vec::new(),
            key_findings: Vec::new(),
            checks: vec![
                check("dualpi2", 24 - outside.len(), 21, outside.clone()),
                check("fq_codel", 24, 22, Vec::new()),
            ],
            planned: cells.len(),
            complete: true,
            axes,
            cells,
        },
    }
}
