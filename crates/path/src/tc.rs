//! The element that a line for tc is: `tc qdisc add dev eth0 root netem delay 10ms`.

use narrows_aqm::QueueSpec;
use narrows_aqm::tc_line::Discipline;
use narrows_units::{Rate, WordError, Words};

use crate::{ElementSpec, RateSpec};

/// Rates of devices that a line for tc does not state: those of Ethernet.
const DEVICES: [Rate; 3] = [
    Rate::from_mbit(1_000),
    Rate::from_mbit(10_000),
    Rate::from_mbit(100_000),
];

/// The element of a line for tc: netem, or a queue that shapes by itself on a device that is
/// at least twice as fast.
pub(crate) fn of_tc(discipline: Discipline<'_>, line: &str) -> Result<ElementSpec, WordError> {
    let Discipline { kind, parameters } = discipline;
    if kind.text == "netem" {
        let mut words = Words::new(parameters.text);
        if let Some(read) = ElementSpec::read(kind.text, &mut words, None) {
            return read.map_err(|e| e.shifted(parameters.start));
        }
    }
    let queue = QueueSpec::parse(line)?;
    let Some(shaped) = queue.shaped_to() else {
        let error = kind.refused("a rate with its queue");
        return Err(error.with_help(format!(
            "a queue belongs to a rate, which a device has by itself: `rate 50Mbit queue {queue}`"
        )));
    };
    let fast = |device: &Rate| device.as_bits() >= 2 * shaped.as_bits();
    let [.., fastest] = DEVICES;
    let rate = DEVICES.into_iter().find(fast).unwrap_or(fastest);
    Ok(ElementSpec::Rate(RateSpec {
        rate,
        ..RateSpec::with_queue(queue)
    }))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_line_for_tc_is_the_element_that_its_discipline_is() {
        for (line, element) in [
            (
                "tc qdisc add dev eth0 root handle 1: cake bandwidth 20mbit nat docsis ack-filter",
                "rate 1Gbit queue cake bandwidth 20mbit nat docsis ack-filter",
            ),
            // The device is at least twice as fast.
            (
                "tc qdisc add dev eth0 root cake bandwidth 500mbit",
                "rate 1Gbit queue cake bandwidth 500mbit",
            ),
            (
                "tc qdisc add dev eth0 root cake bandwidth 501mbit",
                "rate 10Gbit queue cake bandwidth 501mbit",
            ),
            (
                "tc qdisc add dev eth0 root cake bandwidth 80gbit",
                "rate 100Gbit queue cake bandwidth 80gbit",
            ),
            (
                "sudo tc qdisc add dev eth0 root netem delay 10ms loss 1%",
                "netem delay 10ms loss 1%",
            ),
            (
                "qdisc netem 8002: dev eth0 root refcnt 2 limit 1000 delay 10ms",
                "netem limit 1000 delay 10ms",
            ),
        ] {
            let found = ElementSpec::parse(line).unwrap_or_else(|e| panic!("{line}: {e}"));
            assert_eq!(found, ElementSpec::parse(element).unwrap(), "{line}");
            assert_eq!(ElementSpec::parse(&found.to_string()), Ok(found));
        }
        // Where a queue is: its rate is stated before it.
        let line = "rate 50Mbit queue tc qdisc add dev eth0 root fq_codel limit 100";
        let found = ElementSpec::parse(line).unwrap();
        assert_eq!(found.to_string(), "rate 50Mbit queue fq_codel limit 100");
    }

    #[test]
    fn what_is_no_element_is_refused_at_its_word() {
        for (line, at, says) in [
            (
                "tc qdisc add dev eth0 root handle 1: fq_codel limit 100",
                "fq_codel",
                "`rate 50Mbit queue fq_codel limit 100`",
            ),
            (
                "tc qdisc add dev eth0 root cake nat",
                "cake",
                "`rate 50Mbit queue cake nat`",
            ),
            (
                "tc qdisc add dev eth0 root cake bandwidth 20mbit autorate-ingress",
                "autorate-ingress",
                "states its rate",
            ),
            (
                "tc qdisc add dev eth0 root cake bandwidth 20mbit fwmark 0xff",
                "fwmark",
                "DS field",
            ),
            ("tc qdisc del dev eth0 root", "del", "leave its words out"),
            ("tc class add dev eth0 parent 1:", "class", "`by`"),
        ] {
            let error = ElementSpec::parse(line).unwrap_err();
            assert_eq!(&line[error.span.clone()], at, "{line}");
            let help = error.help.unwrap_or_default();
            assert!(help.contains(says), "{line}: {help}");
        }
        let line = "tc qdisc add dev eth0 root netem delay fast";
        let error = ElementSpec::parse(line).unwrap_err();
        assert_eq!(&line[error.span], "fast");
        let line = "rate 5Mbit queue tc qdisc add dev eth0 root netem delay 1ms";
        let error = ElementSpec::parse(line).unwrap_err();
        assert_eq!(&line[error.span], "netem");
    }
}
