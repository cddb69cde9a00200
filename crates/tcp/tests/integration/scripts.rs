//! Runs every script under `tests/scripts` against an end of a connection, or
//! several, for IPv4 and IPv6. The script plays the peer.
//!
//! One step a line; `#` begins a comment.
//!
//! ```text
//! role client|server            what is tested: an end that opens (the default), or a listener
//! set KEY VALUE…                cc, ecn, sack, timestamps, nagle, buffer, option, fast-open, cookie, tso,
//!                               pacing, cwnd, compress, send-buffer, mtu, above-ip (the same without the IP header), max-rto, user-timeout; mtu-probing
//!                               off|black-hole|always [base N] [floor N] [threshold N] [interval TIME]; keep-alive TIME
//!                               [INTERVAL [PROBES]];
//!                               tolerance TIME: how far off `after` may be
//! open | write N | queue N | text WORD | read | readtext WORD | close | release | abort
//! again                         the end is made anew
//! peer N                        the next steps are about peer N (0), which has a port and an end of its
//!                               own; packets to different peers are expected in the order of sending
//! +10ms STEP                    time passes, then STEP
//! < FLAGS SEQ LEN FIELD…        the peer sends; with `burst`, LEN bytes in full segments back to back, of
//!                               which none is answered before the last is there: receive offload joins
//!                               them so; with `answered N` the application reads all of it and writes N bytes
//!                               before anything leaves
//! > FLAGS SEQ LEN FIELD…        the end sends; `after 40ms` since the last step, `after 40ms~44ms` within a
//!                               range. Where LEN is more than the first segment has, the segments of the
//!                               burst that follow are joined to it, as segmentation offload shows them
//! toobig N SEQ                  the network reports that a link takes N bytes above IP, about the segment
//!                               with SEQ
//! none [10ms]                   the end sends nothing (for so long)
//! drop N                        the end sends N packets, whatever they are
//! expect FIELD VALUE…           the end says this of itself, in any number of pairs
//! event NAME                    such an event came since the last `event`
//! noevent NAME                  none came
//! ```
//! FLAGS are letters of `SFPRAEW.`: SYN FIN PSH RST AE ECE CWR ACK, `-` for
//! none. Numbers are relative to the initial ones and may say `1+3M`, where M
//! is a full segment. Fields: `ack N`, `win N`, `ecn WORD`, `ace N`, `mss N`,
//! `nomss`, `sackok`, `nosackok`, `ws N`, `ts V E` (`E` a label or a number),
//! `sack L-R`, `nosack`, `e1b N ceb N e0b N`, `nooption`, `cookie HEX`, `ask`,
//! `text WORD`, `as LABEL` (remembers the timestamp of a packet sent). `cookie
//! new` expects one that is remembered, `cookie given` shows that one.
//!
//! What `expect` knows are the fields of `tcp_info`
//! (`narrows_core::TcpInfo`, which says what each means), by their own names
//! or by `ss`'s `cwnd`, `ssthresh` and `ca`; `in_flight`; and `readable` and
//! `cc`, which it does not have. A value is a number, a time such as `200ms`
//! where the field is one, a range `FROM~TO`, or the name of a state.

use std::path::Path as FilePath;

use crate::player::Player;

fn play(file: &FilePath, v6: bool) {
    let text = std::fs::read_to_string(file).unwrap();
    let name = file.file_name().unwrap().to_string_lossy().into_owned();
    play_text(&name, &text, v6);
}

fn play_text(name: &str, text: &str, v6: bool) {
    let mut player = Player::new(v6, name.to_owned());
    for (i, line) in text.lines().enumerate() {
        let line = line.split('#').next().unwrap_or("").trim();
        if line.is_empty() {
            continue;
        }
        player.place = format!("{name}:{} ({})", i + 1, if v6 { "IPv6" } else { "IPv4" });
        player.step(line);
    }
    player.place = format!("{name}: the end");
    player.step("none");
}

#[test]
fn every_script_plays() {
    let folder = FilePath::new(env!("CARGO_MANIFEST_DIR")).join("tests/scripts");
    let mut files: Vec<_> = std::fs::read_dir(folder)
        .unwrap()
        .map(|e| e.unwrap().path())
        .filter(|p| p.extension().is_some_and(|e| e == "script"))
        .collect();
    files.sort();
    assert!(files.len() >= 20, "scripts are missing");
    let mut failed = Vec::new();
    for file in &files {
        for v6 in [false, true] {
            if std::panic::catch_unwind(|| play(file, v6)).is_err() {
                failed.push((file.file_name().unwrap().to_owned(), v6));
            }
        }
    }
    assert!(failed.is_empty(), "failed: {failed:?}");
}

/// A connection that has just sent nine segments back to back, of which only the
/// last is pushed.
const BURST: &str = "set timestamps off
open
> S 0 0
+100ms < S. 0 0 ack 1 mss 1460 sackok ws 7
> . 1 0
write 9M
";

#[test]
fn a_script_that_says_something_else_fails() {
    // What is right, and what is almost.
    let cases = [
        ("> P. 1 9M", "> P. 1 8M"),
        ("> P. 1 9M", "> . 1 9M"),
        ("> P. 1 9M after 0ms", "> P. 1 9M after 1ms"),
        (
            "drop 9\n> P. 1+8M 1M after 202ms",
            "drop 9\n> P. 1+8M 1M after 201ms",
        ),
        (
            "drop 9\n> P. 1+8M 1M after 200ms~202ms",
            "drop 9\n> P. 1+8M 1M after 203ms~204ms",
        ),
        (
            "drop 9\nset tolerance 2ms\n> P. 1+8M 1M after 204ms",
            "drop 9\nset tolerance 1ms\n> P. 1+8M 1M after 204ms",
        ),
        ("drop 9\nexpect unacked 9", "drop 9\nexpect unacked 8"),
        (
            "drop 9\nexpect rtt 100ms rto 300ms",
            "drop 9\nexpect rtt 100ms rto 301ms",
        ),
        (
            "drop 9\nexpect segs_out 10~12",
            "drop 9\nexpect segs_out 12~14",
        ),
        (
            "drop 9\nexpect state Established",
            "drop 9\nexpect state CloseWait",
        ),
        ("drop 9\nexpect lost 0", "drop 9\nexpect losses 0"),
        ("> P. 1 9M", "peer 1\n> P. 1 9M"),
        ("drop 9\n> P. 1+8M 1M", "drop 9\nnone 202ms"),
    ];
    for (right, wrong) in cases {
        assert!(plays(BURST, right), "{right}");
        assert!(!plays(BURST, wrong), "{wrong}");
    }
}

#[test]
fn a_burst_with_a_push_in_its_middle_is_not_joined() {
    let two = BURST.replace("write 9M", "write 1M\nwrite 1M");
    assert!(plays(&two, "> P. 1 1M\n> P. 1+M 1M"));
    assert!(!plays(&two, "> P. 1 2M"));
}

/// Whether the end does what `first` and then `steps` say.
fn plays(first: &str, steps: &str) -> bool {
    let text = format!("{first}{steps}");
    std::panic::catch_unwind(|| play_text("a test of the player", &text, false)).is_ok()
}
