mod troubles;

use super::*;
use crate::server::{Server, ServerSettings};
use narrows_units::Rng;

const NEAR: IpAddr = IpAddr::V4(std::net::Ipv4Addr::new(192, 0, 2, 1));
const ROUTER: IpAddr = IpAddr::V4(std::net::Ipv4Addr::new(198, 51, 100, 1));

/// A path of the report's round trip, with a limit on each way.
struct Path {
    there: u16,
    back: u16,
    reports: bool,
    /// Every so manieth datagram is lost, either way.
    loses: Option<u32>,
    /// So many requests for a token are answered.
    tokens: u64,
    /// What comes to the server within this time is answered at its end.
    stall: (Instant, Instant),
    /// Nothing is answered from then on.
    gone: Option<Instant>,
    rtt: Duration,
    /// MTU that reports name, where that is not the path's.
    says: Option<u32>,
    /// Whether probes that are reported arrive all the same.
    forwards: bool,
    /// Only probes up to this size are reported.
    reports_to: u16,
    /// Nothing passes within this time.
    outage: (Instant, Instant),
    /// Of a hundred datagrams so many are lost at random, each way.
    random: u32,
}

const RTT: Duration = Duration::from_millis(50);

/// What the client's datagrams come to until it is done.
fn run(client: &mut Client, path: &Path) -> Server {
    let mut server = Server::new(ServerSettings::default(), [9; 32]);
    let mut now = Instant::ZERO;
    let mut back: VecDeque<(Instant, Transmit)> = VecDeque::new();
    let mut reports: VecDeque<(Instant, Transmit)> = VecDeque::new();
    let mut rng = Rng::for_name(u64::from(path.there), "loss");
    let mut count = 0;
    let mut lost = || {
        count += 1;
        path.loses.is_some_and(|every| count % every == 0)
    };
    for _ in 0..100_000 {
        client.on_timeout(now);
        while let Some(sent) = client.poll(now) {
            if sent.len > path.there {
                if path.reports && sent.len <= path.reports_to {
                    // Before the answer of a probe that is reported and forwarded.
                    let after = if path.forwards { 20 } else { 50 };
                    reports.push_back((now + Duration::from_millis(after), sent));
                }
                if !path.forwards {
                    continue;
                }
            }
            let out = now >= path.outage.0 && now < path.outage.1;
            let at_random = rng.below(100) < path.random || rng.below(100) < path.random;
            if out || at_random || path.gone.is_some_and(|gone| gone <= now) {
                continue;
            }
            let withheld = server.counts().welcomed == path.tokens
                && Message::parse(&sent.bytes).is_some_and(|m| m.kind == MessageKind::Hello);
            if withheld {
                continue;
            }
            let answer = server.receive(now, NEAR, &sent.bytes, u32::from(sent.len));
            if let Some(answer) = answer.filter(|a| a.len <= path.back && !lost()) {
                assert!(answer.len <= sent.len);
                let stalled = now >= path.stall.0 && now < path.stall.1;
                let answered = if stalled { path.stall.1 } else { now };
                back.push_back((answered + path.rtt, answer));
            }
        }
        if client.stage().is_over() {
            return server;
        }
        let next = [
            client.next_wake(),
            back.front().map(|b| b.0),
            reports.front().map(|r| r.0),
        ];
        let next = next.into_iter().flatten().min().expect("something is next");
        now = now.max(next);
        if back.front().is_some_and(|b| b.0 <= now) {
            let (_, answer) = back.pop_front().expect("one");
            client.receive(now, &answer.bytes, u32::from(answer.len));
        }
        if reports.front().is_some_and(|b| b.0 <= now) {
            let (_, sent) = reports.pop_front().expect("one");
            let mtu = path.says.unwrap_or(u32::from(path.there) + 28);
            client.reported(now, Some(ROUTER), mtu, &sent.bytes);
        }
    }
    panic!("it does not end: {client:?}");
}

fn client(searches: &[&str], change: impl FnOnce(&mut ClientSettings)) -> Client {
    let mut settings = ClientSettings {
        settings: Settings::ipv4(1_500),
        searches: searches.iter().map(|s| Search::parse(s).unwrap()).collect(),
        back: true,
        alone: None,
        stays: false,
        nonce: 77,
    };
    change(&mut settings);
    Client::new(settings, Instant::ZERO)
}

fn path(there: u16, back: u16, reports: bool) -> Path {
    Path {
        there,
        back,
        reports,
        loses: None,
        tokens: u64::MAX,
        stall: (Instant::ZERO, Instant::ZERO),
        gone: None,
        rtt: RTT,
        says: None,
        forwards: false,
        reports_to: u16::MAX,
        outage: (Instant::ZERO, Instant::ZERO),
        random: 0,
    }
}

fn ms(n: u64) -> Instant {
    Instant::ZERO + Duration::from_millis(n)
}

#[test]
fn every_search_and_the_way_back_are_found_whether_routers_report_or_not() {
    for reports in [false, true] {
        let mut client = client(&["adaptive", "binary", "step 1"], |_| {});
        run(&mut client, &path(1_432, 1_372, reports));
        let found = client.found();
        assert!(found[0].is_base && found[0].plpmtu == 1_200);
        let sizes: Vec<_> = found.iter().map(|f| (f.way, f.plpmtu, f.mtu)).collect();
        assert_eq!(
            sizes[1..],
            [
                (Way::There, 1_432, 1_460),
                (Way::There, 1_432, 1_460),
                (Way::There, 1_432, 1_460),
                (Way::Back, 1_372, 1_400),
            ]
        );
        let reported = found[1].steps.iter().find_map(|step| match step.fate {
            Fate::Reported { by, mtu, .. } => Some((by, mtu)),
            _ => None,
        });
        assert_eq!(reported, reports.then_some((Some(ROUTER), 1_460)));
        // The report's arithmetic: 233 sizes arrive, with the base.
        assert_eq!(found[3].counts.sizes_arrived, 233);
    }
}

#[test]
fn a_path_below_the_base_is_found_from_a_smaller_one() {
    for (largest, reports) in [(1_100, false), (1_100, true), (400, false), (300, true)] {
        let mut client = client(&["adaptive"], |_| {});
        run(&mut client, &path(largest, 1_472, reports));
        let found = client.found();
        assert!(found[0].plpmtu <= largest, "{found:?}");
        assert_eq!(found[1].plpmtu, largest, "{reports}");
        assert_eq!(
            found[2].plpmtu, largest,
            "the way back, as far as it can be known"
        );
    }
}

#[test]
fn one_datagram_of_seven_that_is_lost_changes_no_result() {
    for largest in [1_472, 1_432, 1_344] {
        let mut client = client(&["adaptive", "binary"], |_| {});
        let mut path = path(largest, largest, false);
        path.loses = Some(7);
        run(&mut client, &path);
        assert!(client.found()[1..].iter().all(|f| f.plpmtu == largest));
    }
}

#[test]
fn without_a_server_it_says_so_after_its_hellos() {
    let mut client = client(&["adaptive"], |_| {});
    let server = run(&mut client, &path(0, 0, false));
    assert_eq!(client.stage(), Stage::NoServer);
    assert_eq!(server.counts().received, 0);
    assert!(client.found().is_empty());
}

#[test]
fn a_server_is_asked_five_times_for_a_token_once_a_second() {
    let mut client = client(&["adaptive"], |_| {});
    let (mut now, mut asked) = (Instant::ZERO, Vec::new());
    while client.stage() == Stage::Greeting {
        asked.extend(client.poll(now).map(|_| now));
        now = client.next_wake().map_or(now, |at| at.max(now));
    }
    assert_eq!(client.stage(), Stage::NoServer);
    assert_eq!(asked, [0, 1, 2, 3, 4].map(second));
}

#[test]
fn the_way_back_is_tried_with_no_more_than_goes_there() {
    let mut client = client(&["adaptive"], |_| {});
    run(&mut client, &path(1_432, 1_472, false));
    let back = client.found().last().expect("it was searched");
    assert_eq!((back.way, back.plpmtu), (Way::Back, 1_432));
    let sizes: Vec<_> = back.steps.iter().map(|step| step.size).collect();
    // The base first, from which it is searched.
    assert_eq!(sizes, [1_200, 1_432]);
}

#[test]
fn a_report_or_an_answer_that_bears_another_token_changes_nothing() {
    let mut client = client(&["adaptive"], |_| {});
    let mut server = Server::new(ServerSettings::default(), [9; 32]);
    let hello = client.poll(Instant::ZERO).unwrap();
    let welcome = server
        .receive(Instant::ZERO, NEAR, &hello.bytes, 32)
        .unwrap();
    client.receive(Instant::ZERO, &welcome.bytes, 32);
    let now = Instant::ZERO + SPACING;
    let probe = client.poll(now).expect("the base");
    let mut wrong = Message::parse(&probe.bytes).unwrap();
    wrong.token[0] ^= 1;
    client.reported(now, Some(ROUTER), 800, &wrong.write());
    client.reported(now, Some(ROUTER), 800, &[]);
    wrong.kind = MessageKind::Answer;
    wrong.size = probe.len;
    client.receive(now, &wrong.write(), 32);
    // Neither does an answer that says that another size arrived.
    let mut short = Message::parse(&probe.bytes).unwrap();
    (short.kind, short.size) = (MessageKind::Answer, probe.len - 1);
    client.receive(now, &short.write(), 32);
    assert!(client.found().is_empty());
    let answer = server
        .receive(now, NEAR, &probe.bytes, u32::from(probe.len))
        .unwrap();
    client.receive(now, &answer.bytes, 32);
    assert_eq!(client.found().len(), 1);
    assert_eq!(client.found()[0].counts.reports_ignored, 2);
}

#[test]
fn a_long_search_asks_for_its_token_again_before_it_is_over() {
    let mut client = client(&["step 1"], |s| {
        s.settings.max = 9_000;
        s.settings.reports = Reports::Ignored;
        s.back = false;
    });
    // 7,800 steps of 50 ms are 390 s.
    let server = run(&mut client, &path(9_000, 9_000, false));
    assert_eq!(client.found()[1].plpmtu, 9_000);
    assert!(server.counts().welcomed >= 2);
    assert_eq!(server.counts().unauthenticated, 0);
}

#[test]
fn a_search_whose_token_is_not_renewed_ends_without_a_word_about_the_path() {
    let mut client = client(&["step 1"], |s| {
        s.settings.max = 9_000;
        s.settings.reports = Reports::Ignored;
        s.back = false;
    });
    let mut path = path(9_000, 9_000, false);
    path.tokens = 1;
    let server = run(&mut client, &path);
    assert_eq!(client.stage(), Stage::NoServer);
    // The base was found; the search, which takes 390 s, has no result.
    assert_eq!(client.found().len(), 1);
    assert_eq!(
        server.counts().unauthenticated,
        0,
        "it ended with its token"
    );
}

#[test]
fn alone_it_takes_a_refused_port_for_arrival_and_says_nothing_of_the_way_back() {
    let mut client = client(&["adaptive"], |s| s.alone = Some([3; TOKEN_LEN]));
    let mut now = Instant::ZERO;
    let mut sent_at = Vec::new();
    while client.stage() == Stage::Searching {
        client.on_timeout(now);
        if let Some(sent) = client.poll(now) {
            sent_at.push(now);
            if sent.len <= 1_464 {
                client.refused(now + RTT, &sent.bytes);
            }
        }
        now = now.max(client.next_wake().unwrap_or(now));
    }
    assert_eq!(client.found().last().unwrap().plpmtu, 1_464);
    assert!(client.found().iter().all(|f| f.way == Way::There));
    let closest = sent_at.windows(2).map(|w| w[1].since(w[0])).min().unwrap();
    assert!(closest >= ICMP_SPACING, "{closest}");
}

/// What a client that stays does until `until`, on a path that carries `largest` at a time and
/// says nothing.
fn stay(client: &mut Client, largest: impl Fn(Instant) -> u16, until: Instant) {
    let mut server = Server::new(ServerSettings::default(), [9; 32]);
    let mut now = Instant::ZERO;
    let mut back: VecDeque<(Instant, Transmit)> = VecDeque::new();
    loop {
        client.on_timeout(now);
        while let Some(sent) = client.poll(now) {
            if sent.len <= largest(now) {
                let answer = server.receive(now, NEAR, &sent.bytes, u32::from(sent.len));
                back.extend(answer.map(|answer| (now + RTT, answer)));
            }
        }
        let arrives = back.front().map(|b| b.0);
        let next = client.next_wake().into_iter().chain(arrives).min();
        now = now.max(next.expect("it goes on"));
        if now > until {
            return;
        }
        if let Some((_, answer)) = back.front().copied().filter(|b| b.0 <= now) {
            back.pop_front();
            client.receive(now, &answer.bytes, u32::from(answer.len));
        }
    }
}

fn staying() -> Client {
    client(&["adaptive"], |s| {
        s.settings.timers.confirmation = Some(Duration::from_secs(1));
        s.back = false;
        s.stays = true;
    })
}

fn second(n: u64) -> Instant {
    Instant::ZERO + Duration::from_secs(n)
}

#[test]
fn one_that_stays_searches_again_when_the_path_has_become_smaller() {
    let mut client = staying();
    let largest = |now| if now < second(10) { 1_372 } else { 1_272 };
    stay(&mut client, largest, second(30));
    let found = client.found();
    let sizes: Vec<_> = found.iter().map(|f| (f.is_base, f.plpmtu)).collect();
    assert_eq!(sizes, [(true, 1_200), (false, 1_372), (false, 1_272)]);
    assert_eq!((client.stage(), client.plpmtu()), (Stage::Searching, 1_272));
    // The second search is counted by itself, from the base that it has to confirm again.
    assert!(found[2].counts.probes < 25, "{:?}", found[2].counts);
    assert!(found[2].time < Duration::from_secs(3), "{}", found[2].time);
    assert_eq!(found[2].steps[0].size, 1_200);
    assert_eq!(client.counts().black_holes, 1);
    let of_searches: u64 = found.iter().map(|f| f.counts.probes).sum();
    assert!(
        client.counts().probes > of_searches,
        "confirmations are counted"
    );
}

#[test]
fn a_black_hole_is_found_within_five_timeouts_of_probes_alone() {
    let largest = |now| if now < second(10) { 1_372 } else { 1_272 };
    let at = |ms| {
        let mut client = staying();
        stay(&mut client, largest, second(10) + Duration::from_millis(ms));
        client.counts()
    };
    let before = at(0).probes;
    let first = |holds: &dyn Fn(Counts) -> bool| (0..2_000).step_by(5).find(|ms| holds(at(*ms)));
    let lost = first(&|counts| counts.probes > before).expect("a confirmation");
    let found = first(&|counts| counts.black_holes == 1).expect("a black hole");
    // A timeout is one and a half round trips; what is sent at once is spaced.
    let (timeout, burst) = (75, SPACING.as_nanos() / 1_000_000 * 7);
    let took = found - lost;
    assert!(took <= 5 * timeout + 2 * burst, "{took} ms");
}

#[test]
fn one_that_stays_greets_its_server_again_after_it_was_away() {
    // The server has given its token, and is not there when the base is tried.
    let largest = |now| match now < Instant::ZERO + RTT || now >= second(70) {
        true => 1_472,
        false => 0,
    };
    let mut client = staying();
    stay(&mut client, largest, second(69));
    assert_eq!((client.stage(), client.plpmtu()), (Stage::Greeting, 0));
    let mut client = staying();
    stay(&mut client, largest, second(90));
    assert_eq!((client.stage(), client.plpmtu()), (Stage::Searching, 1_472));
}

#[test]
fn a_path_that_carries_nothing_for_a_while_is_probed_seldom_and_keeps_its_size() {
    let largest = |now| match now < second(10) || now >= second(70) {
        true => 1_472,
        false => 0,
    };
    let mut client = staying();
    stay(&mut client, largest, second(10));
    let before = client.counts().probes;
    let mut client = staying();
    stay(&mut client, largest, second(70));
    let sent = client.counts().probes - before;
    assert!((20..200).contains(&sent), "{sent}");
    let mut client = staying();
    stay(&mut client, largest, second(90));
    assert_eq!((client.found().len(), client.plpmtu()), (2, 1_472));
    assert_eq!(client.counts().black_holes, 0);
}
