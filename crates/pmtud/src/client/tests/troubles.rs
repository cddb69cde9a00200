//! Servers that are held up or go, outages, loss, and routers that err or lie.

use super::*;

#[test]
fn a_server_that_is_held_up_changes_no_result() {
    for rtt in [1, 50] {
        for (search, begins) in [
            ("adaptive", 60),
            ("binary", 3),
            ("step 1", 700),
            ("table", 90),
        ] {
            for lasts in [20, 50, 100, 250, 1_000, 3_000] {
                let mut client = client(&[search], |s| s.settings.max = 1_400);
                let mut path = path(1_372, 1_350, false);
                path.rtt = Duration::from_millis(rtt);
                path.stall = (ms(begins), ms(begins + lasts));
                run(&mut client, &path);
                let sizes: Vec<_> = client.found().iter().map(|f| f.plpmtu).collect();
                let context = format!("{search}, {rtt} ms, held up for {lasts} ms");
                assert_eq!(client.stage(), Stage::Done, "{context}");
                assert_eq!(sizes[1..], [1_372, 1_350], "{context}");
            }
        }
    }
}

#[test]
fn a_server_that_goes_away_is_no_word_about_the_path() {
    for gone in [20, 70, 300, 700, 2_000, 11_000, 12_000] {
        let mut client = client(&["step 1"], |_| {});
        let mut path = path(1_432, 1_372, false);
        path.gone = Some(ms(gone));
        run(&mut client, &path);
        assert_eq!(client.stage(), Stage::Silent, "{gone} ms");
        let known = client.found().iter().map(|f| f.plpmtu);
        assert!(known.into_iter().all(|size| [1_200, 1_432].contains(&size)));
    }
}

#[test]
fn a_host_that_says_that_nobody_has_the_port_ends_it_if_it_quotes_a_probe() {
    let mut client = client(&["adaptive"], |_| {});
    let mut server = Server::new(ServerSettings::default(), [9; 32]);
    let hello = client.poll(Instant::ZERO).unwrap();
    let welcome = server.receive(Instant::ZERO, NEAR, &hello.bytes, 32);
    client.receive(Instant::ZERO, &welcome.unwrap().bytes, 32);
    let probe = client.poll(ms(5)).expect("the base");
    let mut wrong = Message::parse(&probe.bytes).unwrap();
    wrong.number += 1;
    client.refused(ms(5), &wrong.write());
    (wrong.number, wrong.token[3]) = (wrong.number - 1, wrong.token[3] ^ 1);
    client.refused(ms(5), &wrong.write());
    client.refused(ms(5), &probe.bytes[..8]);
    assert_eq!(client.stage(), Stage::Searching);
    client.refused(ms(5), &probe.bytes);
    assert_eq!(client.stage(), Stage::Silent);
    assert_eq!(client.next_wake(), None);
}

#[test]
fn a_token_counts_only_with_the_nonce_of_its_request() {
    let mut client = client(&["adaptive"], |_| {});
    let hello = client.poll(Instant::ZERO).unwrap();
    let mut forged = Message::parse(&hello.bytes).unwrap();
    assert_eq!(forged.number, 77);
    (forged.kind, forged.token) = (MessageKind::Welcome, [5; TOKEN_LEN]);
    for number in [0, 1, 76, 78] {
        forged.number = number;
        client.receive(ms(1), &forged.write(), 32);
        assert_eq!(client.stage(), Stage::Greeting, "{number}");
    }
    forged.number = 77;
    client.receive(ms(1), &forged.write(), 32);
    assert_eq!(client.stage(), Stage::Searching);
    let probe = client.poll(ms(10)).map(|sent| Message::parse(&sent.bytes));
    assert_eq!(probe.flatten().unwrap().number, 78);
}

#[test]
fn a_round_trip_above_a_second_is_waited_for() {
    for rtt in [1_100, 1_500, 2_800] {
        let mut client = client(&["adaptive"], |_| {});
        let mut path = path(1_432, 1_472, false);
        path.rtt = Duration::from_millis(rtt);
        run(&mut client, &path);
        let sizes: Vec<_> = client.found().iter().map(|f| f.plpmtu).collect();
        assert_eq!(sizes, [1_200, 1_432, 1_432], "{rtt} ms");
        // The first answer counts, though its probe had been given up.
        assert_eq!(client.found()[0].time, path.rtt);
    }
}

#[test]
fn a_report_of_less_than_the_path_carries_is_contradicted_and_no_other_is_used() {
    // A router that names too little, and one that reports what it forwards.
    for (there, says, forwards) in [
        (1_432, 1_300, false),
        (1_432, 1_459, false),
        (1_300, 900, true),
        (1_300, 68, true),
        (1_300, 1_499, true),
    ] {
        let mut client = client(&["adaptive"], |s| s.back = false);
        let mut path = path(there, 1_472, true);
        (path.says, path.forwards) = (Some(says), forwards);
        run(&mut client, &path);
        let found = client.found().last().unwrap();
        let carried = if forwards { 1_472 } else { there };
        assert_eq!(found.plpmtu, carried, "{says}: {found:#?}");
        // What was reported too little is not believed again.
        assert!(found.steps.len() < 40, "{says}: {}", found.steps.len());
        let contradicted = |step: &Step| matches!(step.fate, Fate::Contradicted { .. });
        assert_eq!(found.steps.iter().any(contradicted), forwards, "{says}");
    }
}

#[test]
fn reports_during_the_way_back_are_not_about_it() {
    let mut client = client(&["adaptive"], |_| {});
    let mut server = Server::new(ServerSettings::default(), [9; 32]);
    let mut now = Instant::ZERO;
    while !client.stage().is_over() {
        client.on_timeout(now);
        while let Some(sent) = client.poll(now) {
            let answer = server.receive(now, NEAR, &sent.bytes, u32::from(sent.len));
            let answer = answer.expect("all arrives");
            if client.found().len() == 2 {
                client.reported(now, Some(ROUTER), 79, &sent.bytes);
            }
            client.receive(now, &answer.bytes, u32::from(answer.len));
        }
        now = client.next_wake().unwrap_or(now).max(now);
    }
    let sizes: Vec<_> = client.found().iter().map(|f| f.plpmtu).collect();
    assert_eq!(sizes, [1_200, 1_472, 1_472]);
    let used = |step: &&Step| match step.fate {
        Fate::Reported { effect, .. } => effect != Effect::Unverified,
        _ => false,
    };
    let used = client.found()[2].steps.iter().find(used);
    assert_eq!(used, None);
}

#[test]
fn a_path_of_ipv6_below_what_it_has_to_carry_is_told_from_one_that_is_down() {
    let ipv6 = |s: &mut ClientSettings| s.settings = Settings::ipv6(1_500);
    let mut narrow = client(&["adaptive"], ipv6);
    run(&mut narrow, &path(552, 1_452, false));
    assert_eq!(narrow.stage(), Stage::Done);
    let sizes: Vec<_> = narrow.found().iter().map(|f| f.plpmtu).collect();
    assert_eq!(sizes, [0]);
    let steps = narrow.found()[0].steps.iter();
    let mut arrived = steps.filter(|step| matches!(step.fate, Fate::Arrived(_)));
    assert!(arrived.all(|step| step.size == 32));
    let mut down = client(&["adaptive"], ipv6);
    let mut path = path(1_452, 1_452, false);
    path.gone = Some(ms(1));
    run(&mut down, &path);
    assert_eq!(down.stage(), Stage::Silent);
}

#[test]
fn reports_that_are_to_be_ignored_are_so_in_the_check_too() {
    let mut client = client(&["adaptive"], |s| s.settings.reports = Reports::Ignored);
    run(&mut client, &path(1_432, 1_472, true));
    let found = &client.found()[1];
    assert_eq!(found.plpmtu, 1_432);
    let reported = found.steps.iter().filter_map(|step| match step.fate {
        Fate::Reported { effect, .. } => Some(effect),
        _ => None,
    });
    let effects: Vec<_> = reported.collect();
    assert!(effects.len() > 3, "{effects:?}");
    assert!(effects.iter().all(|e| *e == Effect::Unverified));
}

#[test]
fn an_outage_of_any_length_and_time_changes_no_result_or_is_an_honest_end() {
    for rtt in [1, 40] {
        for begins in [2, 6, 9, 12, 30, 70, 140, 200, 330, 500] {
            for lasts in [3, 8, 21, 60, 170, 230, 400, 1_000, 3_000, 30_000] {
                for reports in [false, true] {
                    let mut client = client(&["adaptive"], |_| {});
                    let mut path = path(1_372, 1_350, reports);
                    path.rtt = Duration::from_millis(rtt);
                    path.outage = (ms(begins), ms(begins + lasts));
                    run(&mut client, &path);
                    let context = format!("{rtt} ms, out at {begins} for {lasts}, {reports}");
                    if client.stage() == Stage::Silent {
                        assert!(lasts >= 3_000, "{context}");
                        continue;
                    }
                    let sizes: Vec<_> = client.found().iter().map(|f| f.plpmtu).collect();
                    assert_eq!(sizes[1..], [1_372, 1_350], "{context}");
                }
            }
        }
    }
}

#[test]
fn loss_of_four_in_ten_each_way_seldom_changes_a_result() {
    let mut wrong = 0;
    for there in 1_300..1_400 {
        let mut client = client(&["adaptive"], |s| s.back = false);
        let mut path = path(there, 1_472, false);
        (path.random, path.rtt) = (40, Duration::from_millis(2));
        run(&mut client, &path);
        let found = client.found().last().map(|f| f.plpmtu);
        wrong += u32::from(client.stage() == Stage::Done && found != Some(there));
    }
    // Two thirds of all probes are lost, and a search that saw none of it has no reason to doubt.
    assert!(wrong <= 3, "{wrong} of 100");
}

#[test]
fn a_router_that_reports_some_sizes_wrongly_is_not_followed_for_ever() {
    // Nothing is said of the largest, and too little of others: several paths, of which one reports.
    for says in [1_300, 1_240, 900] {
        let mut client = client(&["adaptive"], |s| s.back = false);
        let mut path = path(1_392, 1_472, true);
        (path.says, path.reports_to) = (Some(says), 1_471);
        run(&mut client, &path);
        let found = client.found().last().unwrap();
        assert_eq!(found.plpmtu, 1_392, "{says}");
        assert!(found.steps.len() < 80, "{says}: {}", found.steps.len());
    }
}

#[test]
fn a_pause_does_not_slow_down_what_follows() {
    let mut client = client(&["adaptive"], |_| {});
    let mut path = path(1_372, 1_372, false);
    (path.rtt, path.stall) = (Duration::from_millis(1), (ms(7), ms(1_007)));
    run(&mut client, &path);
    let there = &client.found()[1];
    assert_eq!(there.plpmtu, 1_372);
    assert!(there.time < Duration::from_secs(3), "{}", there.time);
}

#[test]
fn a_report_that_quotes_nothing_ends_no_check() {
    let mut client = client(&["adaptive"], |s| s.back = false);
    let mut server = Server::new(ServerSettings::default(), [9; 32]);
    let mut now = Instant::ZERO;
    while !client.stage().is_over() {
        client.on_timeout(now);
        while let Some(sent) = client.poll(now) {
            let plpmtu = client.plpmtu();
            client.reported(now, Some(ROUTER), u32::from(plpmtu) + 28, &[]);
            if sent.len <= 1_432 {
                let answer = server.receive(now, NEAR, &sent.bytes, u32::from(sent.len));
                client.receive(now, &answer.expect("one").bytes, 32);
            }
        }
        now = client.next_wake().unwrap_or(now).max(now);
    }
    let found = client.found().last().unwrap();
    assert_eq!(found.plpmtu, 1_432);
    let effects: Vec<_> = (found.steps.iter())
        .filter_map(|step| match step.fate {
            Fate::Reported { effect, .. } => Some(effect),
            _ => None,
        })
        .collect();
    assert!(effects.len() > 3, "{effects:?}");
    assert!(effects.iter().all(|e| *e == Effect::Unverified));
}
