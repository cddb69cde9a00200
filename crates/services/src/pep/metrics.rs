//! A daemon's state in the text format of Prometheus.

use std::fmt::Write;
use std::net::SocketAddr;

use narrows_pep::{Book, Counters, Histogram};

use super::status::Status;

/// The page that is answered to `GET /metrics`.
pub fn page(status: &Status) -> String {
    let gauges = [
        ("tunnels", "Tunnels that there are", status.tunnels),
        (
            "threads",
            "Threads that serve them",
            status.threads.len() as u64,
        ),
        ("clients", "Clients that have them", status.clients),
        (
            "backlog_bytes",
            "Bytes that wait in them",
            status.backlog_bytes,
        ),
        (
            "budget_bytes",
            "Bytes that may wait in them",
            status.budget_bytes,
        ),
        (
            "kernel_bytes",
            "Bytes in the kernel's buffers of TCP, of the control group or the machine",
            status.kernel_bytes,
        ),
        (
            "memory_bytes",
            "Bytes that both may be together",
            status.memory_bytes,
        ),
        (
            "names_waiting",
            "Names that wait to be asked for",
            status.names_waiting,
        ),
        (
            "names_running",
            "Names whose addresses are being found",
            status.names_running,
        ),
        (
            "draining",
            "Whether no more clients are taken",
            u64::from(status.draining),
        ),
    ];
    let mut page = Page::default();
    for (name, help, value) in gauges {
        page.head(name, "gauge", help);
        page.sample(name, "", value);
    }
    for (at, (name, help, _)) in Counters::default().each().enumerate() {
        let name = match name.strip_prefix("bytes_") {
            Some(way) => format!("{way}_bytes_total"),
            None => format!("{name}_total"),
        };
        page.head(&name, "counter", help);
        for (listener, book) in &status.by_listener {
            let value = book.counters.each().nth(at).map_or(0, |(.., value)| value);
            page.sample(&name, &label(listener), value);
        }
    }
    type Of = fn(&Book) -> &Histogram;
    let histograms: [(&str, &str, Of); 2] = [
        (
            "opening_seconds",
            "Time from a client's arrival until its tunnel was open",
            |book| &book.opening,
        ),
        ("lasting_seconds", "Time that tunnels were open", |book| {
            &book.lasting
        }),
    ];
    for (name, help, of) in histograms {
        page.head(name, "histogram", help);
        for (listener, book) in &status.by_listener {
            page.histogram(name, &label(listener), of(book));
        }
    }
    page.0
}

fn label(listener: &SocketAddr) -> String {
    format!("listener=\"{listener}\"")
}

#[derive(Default)]
struct Page(String);

impl Page {
    fn head(&mut self, name: &str, kind: &str, help: &str) {
        // Writing to a string does not fail.
        let _ = write!(
            self.0,
            "# HELP narrows_pep_{name} {help}.\n# TYPE narrows_pep_{name} {kind}\n"
        );
    }

    fn sample(&mut self, name: &str, labels: &str, value: impl std::fmt::Display) {
        let labels = if labels.is_empty() {
            String::new()
        } else {
            format!("{{{labels}}}")
        };
        let _ = writeln!(self.0, "narrows_pep_{name}{labels} {value}");
    }

    /// Buckets are cumulative, and the last has all.
    fn histogram(&mut self, name: &str, label: &str, histogram: &Histogram) {
        let bucket = format!("{name}_bucket");
        let mut sum = 0;
        let bounds = Histogram::BOUNDS_MS.iter().map(|ms| seconds(*ms));
        let bounds = bounds.chain(["+Inf".to_owned()]);
        for (bound, count) in bounds.zip(histogram.counts) {
            sum += count;
            self.sample(&bucket, &format!("{label},le=\"{bound}\""), sum);
        }
        self.sample(&format!("{name}_sum"), label, seconds(histogram.sum_ms));
        self.sample(&format!("{name}_count"), label, sum);
    }
}

fn seconds(ms: u64) -> String {
    (ms as f64 / 1e3).to_string()
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A state with two listeners.
    fn status() -> Status {
        let mut status = Status {
            tunnels: 3,
            ..Status::default()
        };
        for (port, bytes) in [(1, 1 << 40), (2, 7)] {
            let mut book = Book::default();
            book.counters.bytes_up = bytes;
            book.counters.over_client = 4;
            book.opening.note(3);
            book.opening.note(70);
            let listener = SocketAddr::from(([10, 0, 0, 1], port));
            status.by_listener.insert(listener, book);
        }
        status
    }

    #[test]
    fn each_metric_has_its_help_its_type_and_its_values() {
        let page = page(&status());
        let mut kind = String::new();
        let mut name = String::new();
        for line in page.lines() {
            if let Some(help) = line.strip_prefix("# HELP ") {
                name = help.split(' ').next().unwrap_or_default().to_owned();
                continue;
            }
            if let Some(said) = line.strip_prefix(&format!("# TYPE {name} ")) {
                kind = said.to_owned();
                assert_eq!(kind == "counter", name.ends_with("_total"), "{line}");
                continue;
            }
            assert!(line.starts_with(&name), "{line} of {name}");
            let value = line.rsplit(' ').next().unwrap_or_default();
            assert!(value.parse::<f64>().is_ok(), "{line}");
            assert_eq!(kind == "gauge", !line.contains("listener="), "{line}");
        }
        for line in [
            "narrows_pep_tunnels 3",
            "narrows_pep_up_bytes_total{listener=\"10.0.0.1:1\"} 1099511627776",
            "narrows_pep_up_bytes_total{listener=\"10.0.0.1:2\"} 7",
            "narrows_pep_over_client_total{listener=\"10.0.0.1:1\"} 4",
        ] {
            assert!(page.lines().any(|l| l == line), "{line}: {page}");
        }
    }

    #[test]
    fn buckets_are_cumulative_and_the_last_has_all() {
        let page = page(&status());
        let bucket = |bound: &str| {
            let head = "narrows_pep_opening_seconds_bucket{listener=\"10.0.0.1:2\",le=";
            let line = page
                .lines()
                .find_map(|l| l.strip_prefix(&format!("{head}\"{bound}\"}} ")));
            line.and_then(|value| value.parse::<u64>().ok())
        };
        let buckets = ["0.002", "0.005", "0.05", "0.1", "3600", "+Inf"].map(bucket);
        assert_eq!(buckets, [0, 1, 1, 2, 2, 2].map(Some));
        let sum = "narrows_pep_opening_seconds_sum{listener=\"10.0.0.1:2\"} 0.073";
        assert!(page.lines().any(|l| l == sum), "{page}");
    }
}
