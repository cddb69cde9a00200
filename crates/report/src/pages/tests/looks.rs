//! What a page is on paper, on a phone and in black and white, and with many flows.

use super::*;

#[test]
fn paper_and_a_phone_cut_no_edge() {
    let page = campaign_html(&samples::campaign(), &Library::Inside);
    let style = page.split_once("<style>").unwrap().1;
    let style = style.split_once("</style>").unwrap().0;
    let print = style.split_once("@media print").unwrap().1;
    for rule in [
        ".still { display: block; }",
        ".live { display: none",
        "overflow-wrap: anywhere",
    ] {
        assert!(print.contains(rule), "{rule}");
    }
    // Nothing on a narrow screen is as wide as its words.
    assert!(style.contains(".controls select { min-width: 0; width: 100%; }"));
}

#[test]
fn places_that_are_names_are_marks_and_numbers_are_lines_with_ticks_at_them() {
    let shape = |chart: &crate::plot::chart::Chart| match &chart.body {
        crate::plot::chart::Body::Curves { shape, .. } => *shape,
        _ => panic!("{}", chart.id),
    };
    let mut campaign = samples::campaign().result;
    let drawn = |campaign: &narrows_results::campaign::CampaignResult| {
        let figure = crate::plot::choice::asked(campaign, &["jain".to_owned()], Some("rtt"), &[]);
        crate::plot::sweep::charts(campaign, &figure.unwrap()).remove(0)
    };
    let names = drawn(&campaign);
    assert_eq!(shape(&names), crate::plot::chart::Shape::Dots);
    assert!(!crate::pages::interactive::json(&names, 300).contains("\"mode\":\"lines+markers\""));
    for (place, value) in campaign.axes[1].values.iter_mut().enumerate() {
        let number = format!("{}ms", 10 << place);
        for cell in campaign.cells.iter_mut().filter(|c| c.at[1] == *value) {
            cell.at[1].clone_from(&number);
        }
        *value = number;
    }
    let numbers = drawn(&campaign);
    assert_eq!(shape(&numbers), crate::plot::chart::Shape::Sweep);
    assert_eq!(numbers.x.ticks, [10.0, 20.0, 40.0, 80.0, 160.0, 320.0]);
}

#[test]
fn an_axis_with_more_values_than_fit_on_paper_goes_down_the_side() {
    let mut campaign = samples::campaign().result;
    assert_eq!(crate::plot::comparison::grid(&campaign).across, "qdisc");
    let more = (campaign.axes[2].values.len()..13).map(|n| format!("queue-{n}"));
    campaign.axes[2].values.extend(more);
    let grid = crate::plot::comparison::grid(&campaign);
    assert_eq!((&*grid.across, &*grid.down), ("cc", "rate · rtt · qdisc"));
    let cells = grid.rows.iter().flat_map(|row| row.cells.iter().flatten());
    assert_eq!(cells.count(), campaign.cells.len());
}

#[test]
fn a_map_with_a_cell_of_nothing_is_coloured_by_the_difference_from_it() {
    let mut campaign = samples::campaign().result;
    campaign.axes[2].values[0] = "none".to_owned();
    for cell in campaign.cells.iter_mut().filter(|c| c.at[2] == "dualpi2") {
        cell.at[2] = "none".to_owned();
    }
    let axis = crate::plot::comparison::reference(&campaign).unwrap();
    let of = |qdisc: &str| {
        let mut cells = campaign.cells.iter();
        cells.find(|c| c.at[2] == qdisc).unwrap()
    };
    let none = crate::plot::comparison::beside(&campaign, of("pfifo"), axis, "share1_pct");
    assert_eq!(none, of("none").metric("share1_pct").unwrap().measured);
    let scale = crate::plot::comparison::scale_of_differences(&campaign, axis, "share1_pct");
    assert_eq!((scale.neutral, scale.from), (0.0, -scale.to));
    let page = campaign_html(
        &narrows_results::folder::CampaignFolder {
            result: campaign,
            ..samples::campaign()
        },
        &Library::Inside,
    );
    assert!(page.contains("coloured by the difference from qdisc none"));
}

#[test]
fn a_check_that_differs_has_neither_the_badge_nor_the_colour_of_one_that_passes() {
    let mut folder = samples::campaign();
    let check = &mut folder.result.checks[0];
    (check.needed, check.passed, check.inside) = (0, true, 3);
    folder.result.checks[1].passed = true;
    let page = campaign_html(&folder, &Library::Inside);
    assert!(page.contains("1 of 2 checks pass, 1 differs (not required)"));
    assert!(page.contains("<section class=\"verdict differs\""));
    assert!(page.contains("<span class=\"badge differs\">≠ differs</span>"));
}

/// A run of so many flows of two controls.
fn crowd(flows: usize) -> RunResult {
    let mut run = samples::run();
    let made = (0..flows).map(|n| {
        let mut flow = run.summary.flows[n % 2].clone();
        flow.name = format!("flow/f{n:05}");
        flow.bytes_total = 1_000_000 + n as u64;
        flow
    });
    run.summary.flows = made.collect();
    let names = run.summary.flows.iter().map(|flow| flow.name.clone());
    run.summary.directions = vec![narrows_results::summary::DirectionSummary {
        flows: names.collect(),
        ..run.summary.directions[0].clone()
    }];
    run
}

#[test]
fn a_page_of_ten_thousand_flows_sums_them_up_and_is_no_longer_than_one_of_a_hundred() {
    let page = |flows| run_html(&crowd(flows), &RunPage::default());
    let (hundred, many) = (page(100), page(10_000));
    assert!(
        many.contains("All 10\u{202f}000 flows"),
        "the page names what it sums up"
    );
    assert!(many.contains("flow") && many.contains("f09999") && !many.contains("f00007"));
    // Numbers have a few digits more.
    assert!(
        many.len() < hundred.len() + 1_000,
        "{} and {}",
        hundred.len(),
        many.len()
    );
    let few = page(20);
    assert!(few.contains("f00000") && !few.contains("id=\"crowd\""));
}

/// Pixels of a phone that pages have to fit.
const PHONE: f64 = 390.0;

#[test]
fn no_rule_makes_a_page_wider_than_a_phone() {
    let style = include_str!("../style.css");
    // What a declaration asks for at least, in pixels; letters are 15 px there.
    let least = |declaration: &str| -> Option<f64> {
        let (name, value) = declaration.split_once(':')?;
        let value = value.trim();
        let wanted = match name.trim() {
            "width" | "min-width" => value,
            "grid-template-columns" => value.split_once("minmax(")?.1.split([',', ')']).next()?,
            _ => return None,
        };
        let digits = wanted.trim_end_matches(|c: char| !c.is_ascii_digit());
        let number: f64 = digits.parse().ok()?;
        match &wanted[digits.len()..] {
            "px" => Some(number),
            "rem" => Some(16.0 * number),
            "em" => Some(15.0 * number),
            _ => None,
        }
    };
    let (mut asked, mut declared) = (Vec::new(), 0);
    for declaration in style.split(['{', '}', ';']) {
        declared += 1;
        asked.extend(least(declaration).map(|px| (px, declaration)));
    }
    assert!(declared > 300 && asked.len() > 8, "{declared} {asked:?}");
    let wide: Vec<_> = asked.iter().filter(|(px, _)| *px > PHONE - 26.0).collect();
    assert!(wide.is_empty(), "{wide:?}");
}

#[test]
fn the_terminal_sums_up_what_pages_sum_up() {
    let table = |flows| crate::table::run_table(&crowd(flows));
    assert!(table(50).contains("f00049") && !table(50).contains("summary.csv has each flow"));
    let (fewer, more) = (table(51), table(10_000));
    for text in [&fewer, &more] {
        assert!(text.contains("summary.csv has each flow"), "{text}");
        assert!(text.lines().count() < 150, "{text}");
    }
    // Half of the flows have each control.
    assert_eq!(more.matches(" 5000 ").count(), 2, "{more}");
    assert!(!more.contains("f09999"), "{more}");
}
