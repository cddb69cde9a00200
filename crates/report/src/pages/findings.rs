//! Key findings, as the pages of campaigns and of collections have them.

use maud::{Markup, html};
use narrows_results::campaign::{CampaignResult, Outcome};

/// The key findings of `campaign`, each with how its checks came out.
pub fn html(campaign: &CampaignResult) -> Markup {
    html! {
        @for finding in &campaign.key_findings {
            section.finding aria-label="Key finding" {
                h2 { (finding.title) }
                p { (badge(campaign.outcome_of(finding))) (finding.severity) }
                dl.definitions {
                    @if let Some(when) = &finding.when { dt { "when" } dd { (when) } }
                    @if let Some(cure) = &finding.cure { dt { "cure" } dd { (cure) } }
                }
            }
        }
    }
}

/// How a check, or those of a finding, came out.
pub fn badge(outcome: Option<Outcome>) -> Markup {
    html! {
        @match outcome {
            Some(Outcome::Pass) => span.badge.yes { "✓ pass" },
            Some(Outcome::Differs) => span.badge.differs { "≠ differs" },
            Some(Outcome::Fail) => span.badge.no { "✗ fail" },
            None => span.badge { "not judged" },
        }
    }
}

#[cfg(test)]
mod tests {
    use narrows_results::campaign::KeyFindingResult;

    use super::super::samples;
    use crate::pages::{Library, campaign_html};

    #[test]
    fn a_campaigns_page_begins_with_what_it_found_and_how_its_checks_came_out() {
        let mut folder = samples::campaign();
        let finding = |checks: &[&str]| KeyFindingResult {
            title: "Prague is ahead".to_owned(),
            severity: "It has <70 %.".to_owned(),
            cure: Some("A queue for each.".to_owned()),
            checks: checks.iter().map(|c| (*c).to_owned()).collect(),
            ..KeyFindingResult::default()
        };
        for (checks, badge) in [
            (vec!["qdisc=fq_codel"], "✓ pass"),
            (vec!["qdisc=fq_codel", "qdisc=dualpi2"], "✗ fail"),
            (vec!["elsewhere"], "not judged"),
        ] {
            folder.result.key_findings = vec![finding(&checks)];
            let page = campaign_html(&folder, &Library::Shared("x.js".to_owned()));
            let (begins, _) = page.split_once("Verdict of the checks").expect("a verdict");
            for part in [
                "Prague is ahead",
                "It has &lt;70 %.",
                "A queue for each.",
                badge,
            ] {
                assert!(begins.contains(part), "{part}");
            }
            assert!(!begins.contains("<dt>when</dt>"));
        }
    }
}
