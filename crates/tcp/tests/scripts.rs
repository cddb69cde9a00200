//! Runs every script under `tests/scripts` against one end of a connection,
//! for IPv4 and IPv6. The script plays the peer.
//!
//! One step a line; `#` begins a comment.
//!
//! ```text
//! role client|server            which end is tested (client)
//! set KEY VALUE                 cc, ecn, sack, timestamps, nagle, buffer, option, fast-open, cookie, tso, pacing
//! open | write N | queue N | text WORD | read | readtext WORD | cork on|off | close | abort
//! again                         the end is made anew
//! +10ms STEP                    time passes, then STEP
//! < FLAGS SEQ LEN FIELD…        the peer sends
//! > FLAGS SEQ LEN FIELD…        the end sends; `after 40ms` since the last step
//! none [10ms]                   the end sends nothing (for so long)
//! drop N                        the end sends N packets, whatever they are
//! expect KEY VALUE              cwnd ssthresh inflight ca state delivered delivered_ce readable cc srtt retransmits
//! event NAME                    such an event came since the last `event`
//! noevent NAME                  none came
//! ```
//! FLAGS are letters of `SFPRAEW.`: SYN FIN PSH RST AE ECE CWR ACK, `-` for
//! none. Numbers are relative to the initial ones and may say `1+3M`, where M
//! is a full segment. Fields: `ack N`, `win N`, `ecn WORD`, `ace N`, `mss N`,
//! `nomss`, `sackok`, `nosackok`, `ws N`, `ts V E` (`E` a label or a number),
//! `sack L-R`, `nosack`, `e1b N ceb N e0b N`, `nooption`, `cookie HEX`, `ask`,
//! `text WORD`, `as LABEL` (remembers the timestamp of a packet sent).

mod pipe;
mod player;

use std::path::Path as FilePath;

use player::Player;

fn play(file: &FilePath, v6: bool) {
    let text = std::fs::read_to_string(file).unwrap();
    let name = file.file_name().unwrap().to_string_lossy().into_owned();
    let mut player = Player::new(v6, name.clone());
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
