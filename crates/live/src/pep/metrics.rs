//! A daemon's state in the text format of Prometheus.

use std::fmt::Write;

use super::status::Status;

/// Name, kind, help and value of each metric.
type Row = (&'static str, &'static str, &'static str, u64);

/// The page that is answered to `GET /metrics`.
pub fn page(status: &Status) -> String {
    let gauge = "gauge";
    let counter = "counter";
    let rows: [Row; 17] = [
        ("tunnels", gauge, "Tunnels that there are", status.tunnels),
        (
            "threads",
            gauge,
            "Threads that serve them",
            status.threads.len() as u64,
        ),
        (
            "backlog_bytes",
            gauge,
            "Bytes that wait in them",
            status.backlog_bytes,
        ),
        (
            "budget_bytes",
            gauge,
            "Bytes that may wait in them",
            status.budget_bytes,
        ),
        (
            "draining",
            gauge,
            "Whether no more clients are taken",
            u64::from(status.draining),
        ),
        (
            "accepted_total",
            counter,
            "Connections that clients opened",
            status.accepted,
        ),
        (
            "denied_total",
            counter,
            "Of these, by clients that are not admitted",
            status.denied,
        ),
        (
            "opened_total",
            counter,
            "Tunnels whose both ends were open",
            status.opened,
        ),
        (
            "refused_total",
            counter,
            "Clients that were refused",
            status.refused,
        ),
        (
            "closed_total",
            counter,
            "Tunnels that ended in order",
            status.closed,
        ),
        (
            "broken_total",
            counter,
            "Tunnels of which one end broke",
            status.broken,
        ),
        (
            "direct_total",
            counter,
            "Tunnels that went without the parent proxy",
            status.direct,
        ),
        (
            "request_timeouts_total",
            counter,
            "Clients whose request did not come in time",
            status.request_timeouts,
        ),
        (
            "connect_timeouts_total",
            counter,
            "Connections to destinations that did not open in time",
            status.connect_timeouts,
        ),
        (
            "idle_timeouts_total",
            counter,
            "Tunnels that were silent for too long",
            status.idle_timeouts,
        ),
        (
            "up_bytes_total",
            counter,
            "Payload bytes from clients",
            status.bytes_up,
        ),
        (
            "down_bytes_total",
            counter,
            "Payload bytes from destinations",
            status.bytes_down,
        ),
    ];
    let mut page = String::new();
    for (name, kind, help, value) in rows {
        // Writing to a string does not fail.
        let _ = write!(
            page,
            "# HELP narrows_pep_{name} {help}.\n# TYPE narrows_pep_{name} {kind}\n\
             narrows_pep_{name} {value}\n"
        );
    }
    page
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_metric_has_its_help_its_type_and_its_value() {
        let status = Status {
            bytes_up: 1 << 40,
            tunnels: 3,
            ..Status::default()
        };
        let page = page(&status);
        let lines: Vec<_> = page.lines().collect();
        assert_eq!(lines.len() % 3, 0);
        for metric in lines.chunks(3) {
            let (name, value) = metric[2].split_once(' ').expect("a value");
            assert!(
                metric[0].starts_with(&format!("# HELP {name} ")),
                "{metric:?}"
            );
            let kind = if name.ends_with("_total") {
                "counter"
            } else {
                "gauge"
            };
            assert_eq!(metric[1], format!("# TYPE {name} {kind}"));
            assert!(value.parse::<u64>().is_ok(), "{metric:?}");
        }
        assert!(
            page.contains("narrows_pep_up_bytes_total 1099511627776\n"),
            "{page}"
        );
        assert!(page.contains("narrows_pep_tunnels 3\n"), "{page}");
    }
}
