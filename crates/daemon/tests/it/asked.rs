//! What the control socket is asked for: pings of a peer's lanes, and configurations on trial.

use crate::common::*;
use std::io::Write;
use std::os::unix::net::UnixStream;
use std::path::PathBuf;
use wavelane_base::Span;
use wavelane_daemon::commands::{PingArgs, Pings, ReloadArgs, check_with, ping, reload};

fn pings(daemon: &Daemon, peer: &str, count: u64, wait: Span) -> Result<(Pings, Vec<String>), String> {
    let control = Some(daemon.control.clone());
    let interval = Span::from_millis(20);
    let args = PingArgs { peer: peer.into(), count: Some(count), interval, wait, json: false, control };
    let mut lines = Vec::new();
    let line = |text: &str| {
        lines.push(text.to_owned());
        Ok(())
    };
    let pings = ping(&args, || false, line).map_err(|why| why.to_string())?;
    Ok((pings, lines))
}

#[test]
fn ping_measures_each_lane_and_says_which_is_cut() {
    let _alone = alone();
    if !root_or_skip("ping") {
        return;
    }
    let world = World::new("ping");
    world.cable(&world.a, "wan1", "4.0.1", &world.b, "wan1", "4.0.2");
    let lanes = "[[peer.lane]]\naddress = \"10.2.0.2:4780\"\ndevice = \"wan0\"\n\
                 [[peer.lane]]\naddress = \"10.4.0.2:4780\"\ndevice = \"wan1\"\n";
    let config = world.write("a", Outside::V4, "", lanes);
    edit(&config, "address = \"10.2.0.2:4780\"\n", "");
    let mut b = world.start("b", "", "");
    let a = world.spawn("a", &config);
    a.wait_log("peer 'b' is up");
    let patience = Span::from_secs(10);
    let (found, lines) = pings(&a, "b", 5, patience).unwrap();
    let devices: Vec<&str> = found.lanes.iter().map(|lane| lane.by.as_str()).collect();
    assert_eq!((devices.len(), devices.contains(&"wan0"), devices.contains(&"wan1")), (2, true, true), "{found:?}");
    for lane in &found.lanes {
        assert_eq!((lane.sent, lane.answered), (5, 5), "{lane:?}");
        let (least, most) = (lane.min_ms.unwrap(), lane.max_ms.unwrap());
        assert!(least > 0.0 && least <= lane.avg_ms.unwrap() && lane.avg_ms.unwrap() <= most, "{lane:?}");
    }
    assert!(lines.len() == 10 && lines.iter().all(|line| line.contains(" time=")), "{lines:?}");
    // The called side has a lane back to each, without a table of its own.
    assert_eq!(pings(&b, "a", 1, patience).unwrap().0.lanes.iter().map(|lane| lane.answered).sum::<u64>(), 2);
    // Of the lane that is cut, and of no other, nothing comes back.
    world.sh(&world.b, "nft 'table ip cut { chain i { type filter hook input priority 0; iifname wan1 drop; }; }'");
    let (found, lines) = pings(&a, "b", 3, Span::from_millis(500)).unwrap();
    let of = |device: &str| found.lanes.iter().find(|lane| lane.by == device).unwrap();
    assert_eq!((of("wan0").answered, of("wan1").answered, of("wan1").loss), (3, 0, 1.0), "{lines:?}");
    assert!(found.any() && lines.iter().filter(|line| line.contains("by wan1: ")).all(|l| l.contains(" no answer: ")));
    // And of a peer that is gone.
    b.stop();
    assert!(!pings(&a, "b", 2, Span::from_millis(200)).unwrap().0.any());
    let refused = pings(&a, "c", 1, patience).unwrap_err();
    assert_eq!(refused, "no peer is called 'c': there is b");
}

/// A gateway with a connection's worth of routes, alone: what it would reach does not matter.
fn gateway(world: &World) -> (Daemon, PathBuf) {
    let config = world.write("a", Outside::V4, "", "");
    (world.spawn("a", &config), config)
}

fn ask(daemon: &Daemon, change: impl FnOnce(&mut ReloadArgs)) -> Result<String, String> {
    let mut args = ReloadArgs { control: Some(daemon.control.clone()), ..ReloadArgs::default() };
    change(&mut args);
    reload(&args).map_err(|why| why.to_string())
}

fn peer(daemon: &Daemon) -> String {
    daemon.status().peers[0].name.clone()
}

#[test]
fn a_configuration_on_trial_goes_back_unless_it_is_confirmed() {
    let _alone = alone();
    if !root_or_skip("trial") {
        return;
    }
    let world = World::new("trial");
    let (a, config) = gateway(&world);
    let (minute, second) = (Some(Span::from_secs(60)), Some(Span::from_secs(1)));
    let rename = |from: &str, to: &str| {
        edit(&config, &format!("name = \"{from}\"\npublic"), &format!("name = \"{to}\"\npublic"))
    };
    let none = ask(&a, |args| args.keep = true).unwrap_err();
    assert!(none.starts_with("no configuration is on trial"), "{none}");
    assert!(ask(&a, |args| args.back = true).unwrap_err().contains("no configuration is on trial"));
    // Confirmed, it stays.
    rename("b", "hill");
    let said = ask(&a, |args| args.confirm = minute).unwrap();
    assert!(said.contains("is on trial for 60 s: `wavelane reload --keep` keeps it"), "{said}");
    let status = a.status();
    assert!(status.peers[0].name == "hill" && status.trial_left_s.is_some_and(|left| left > 0.0 && left <= 60.0));
    assert!(status.to_string().contains("warning: the configuration is on trial: in "), "{status}");
    assert_eq!(ask(&a, |args| args.keep = true).unwrap(), "the configuration stays\n");
    assert_eq!((peer(&a).as_str(), a.status().trial_left_s), ("hill", None));
    // A client that is cut off after its request changes nothing: the daemon goes back.
    rename("hill", "wrong");
    let mut client = UnixStream::connect(&a.control).unwrap();
    client.write_all(b"{\"ask\":\"reload\",\"confirm_ms\":1000}\n").unwrap();
    drop(client);
    // real time: 1 s, the trial's, which the daemon's clock counts
    wait_for("the way back", || a.status().went_back.is_some());
    a.wait_log("is on trial for 1 s");
    let status = a.status();
    assert_eq!(status.peers[0].name, "hill");
    let why = status.went_back.clone().unwrap();
    assert!(why.contains("since nobody confirmed the other in 1 s; the file still says the other"), "{why}");
    assert!(status.trial_left_s.is_none() && status.to_string().contains(&format!("warning: {why}")), "{status}");
    a.wait_log("is in force again, since nobody confirmed");
    // A confirmation that comes too late says what happened.
    assert_eq!(ask(&a, |args| args.keep = true).unwrap_err(), format!("too late: {why}"));
    // Whoever wants it back has it.
    assert_eq!(ask(&a, |args| args.back = true).unwrap(), format!("no trial is left to end: {why}\n"));
    // Of two trials in a row, what was confirmed last comes back; a plain reload meanwhile ends none.
    ask(&a, |args| args.confirm = minute).unwrap();
    assert!(a.status().went_back.is_none());
    rename("wrong", "wronger");
    ask(&a, |args| args.confirm = minute).unwrap();
    let said = ask(&a, |_| ()).unwrap();
    assert!(said.contains("is on trial for ") && said.contains(" s more"), "{said}");
    assert_eq!(peer(&a), "wronger");
    let said = ask(&a, |args| args.back = true).unwrap();
    assert!(said.contains("is in force again, as was asked") && peer(&a) == "hill", "{said}");
    assert!(a.status().went_back.is_some());
    // Of a file that says the same as what comes back nothing is wrong.
    rename("wronger", "hill");
    ask(&a, |args| args.confirm = minute).unwrap();
    let said = ask(&a, |args| args.back = true).unwrap();
    assert!(said.contains("it is the file's") && a.status().went_back.is_none(), "{said}");
    rename("hill", "wronger");
    // A file that is wrong begins no trial, and one that stands goes on.
    edit(&config, "name = \"wronger\"", "nonsense = 1");
    let said = ask(&a, |args| args.confirm = second).unwrap_err();
    assert!(
        said.contains("reload refused, everything stays as it was: ") && a.status().trial_left_s.is_none(),
        "{said}"
    );
    edit(&config, "nonsense = 1", "name = \"last\"");
    assert_eq!(ask(&a, |_| ()).unwrap().lines().next().unwrap(), "the configuration was read again and is in force");
    assert_eq!((peer(&a).as_str(), a.status().went_back), ("last", None));
}

/// The way back must not fail by one lane whose port another program took in the meantime.
#[test]
fn a_trial_goes_back_past_a_port_that_is_taken_meanwhile() {
    let _alone = alone();
    if !root_or_skip("a port taken during a trial") {
        return;
    }
    let world = World::new("taken");
    let lane = "[[peer.lane]]\naddress = \"10.2.0.2:4780\"\nlocal = \"10.2.0.1:4790\"\n";
    let config = world.write("a", Outside::V4, "", lane);
    edit(&config, "address = \"10.2.0.2:4780\"\n", "");
    let _b = world.start("b", "", "");
    let a = world.spawn("a", &config);
    a.wait_log("peer 'b' is up");
    edit(&config, "10.2.0.1:4790", "10.2.0.1:4791");
    ask(&a, |args| args.confirm = Some(Span::from_secs(60))).unwrap();
    let other = world.a.run(|| std::net::UdpSocket::bind("10.2.0.1:4790").unwrap()).unwrap();
    let said = ask(&a, |args| args.back = true).unwrap();
    assert!(said.contains("is in force again, as was asked"), "{said}");
    a.wait_log("a lane has no socket: ");
    assert_eq!((a.counter("reloads_refused"), a.status().trial_left_s), (0, None));
    drop(other);
    // Once it is free, the lane has it again.
    wait_for("the lane", || pings(&a, "b", 1, Span::from_secs(2)).is_ok_and(|(found, _)| found.any()));
}

#[test]
fn pings_of_clients_that_went_keep_no_place() {
    let _alone = alone();
    if !root_or_skip("pings of clients that went") {
        return;
    }
    let world = World::new("gone");
    let (a, b) = world.start_both("", "interfaces = [\"lan0\"]");
    let signal = |what: &str| world.sh(&world.b, &format!("kill -{what} {}", b.child.id()));
    signal("STOP");
    let ping = |number: u64| format!("{{\"ask\":\"ping\",\"peer\":\"b\",\"number\":{number},\"wait_ms\":60000}}\n");
    let mut client = UnixStream::connect(&a.control).unwrap();
    client.set_read_timeout(Some(PATIENCE)).unwrap();
    (0..4_200).for_each(|number| client.write_all(ping(number).as_bytes()).unwrap());
    let mut line = String::new();
    std::io::BufRead::read_line(&mut std::io::BufReader::new(&client), &mut line).unwrap();
    assert!(line.contains("4096 pings wait for their answers"), "{line}");
    drop(client);
    signal("CONT");
    wait_for("an answer", || pings(&a, "b", 1, Span::from_secs(2)).is_ok_and(|(found, _)| found.any()));
}

/// Requests that come while the kernel is being told of another: each is answered by its own outcome, in its turn, and no trial loses its
/// timer.
#[test]
fn requests_during_a_reload_have_their_own_outcomes() {
    let _alone = alone();
    if !root_or_skip("turns") {
        return;
    }
    let world = World::new("turns");
    let config = world.write("a", Outside::V4, "", "[intercept]\ninterfaces = [\"lan0\"]");
    let a = world.spawn("a", &config);
    let rename = |from: &str, to: &str| {
        edit(&config, &format!("name = \"{from}\"\npublic"), &format!("name = \"{to}\"\npublic"))
    };
    // All come at once, so that the kernel still makes the first change when the last is read.
    let ask_all = |requests: &[&str]| {
        use std::io::{BufRead, BufReader};
        let mut client = UnixStream::connect(&a.control).unwrap();
        client.set_read_timeout(Some(PATIENCE)).unwrap();
        client.write_all((requests.join("\n") + "\n").as_bytes()).unwrap();
        let mut answers = BufReader::new(client).lines();
        requests.iter().map(|_| answers.next().unwrap().unwrap()).collect::<Vec<_>>()
    };
    rename("b", "hill");
    let plain = "{\"ask\":\"reload\",\"confirm_ms\":null}";
    let tried = "{\"ask\":\"reload\",\"confirm_ms\":60000}";
    let said = ask_all(&[plain, tried, plain]);
    assert!(said[0].contains("read again and is in force"), "{said:?}");
    assert!(said[1].contains("is on trial for 60 s: "), "{said:?}");
    assert!(said[2].contains("is on trial for ") && said[2].contains(" s more"), "{said:?}");
    assert!(a.status().trial_left_s.is_some(), "the timer goes on");
    // A signal overtakes no trial either.
    ask(&a, |args| args.keep = true).unwrap();
    rename("hill", "dale");
    let before = a.counter("reloads");
    a.hang_up();
    let said = ask_all(&[tried]);
    wait_for("both", || a.counter("reloads") == before + 2);
    assert!(said[0].contains("is on trial for 60 s: ") && a.status().trial_left_s.is_some(), "{said:?}");
    // A confirmation that comes while the former file is on its way back is too late, and is told so.
    let said = ask_all(&["{\"ask\":\"back\"}", "{\"ask\":\"keep\"}"]);
    assert!(said[0].starts_with("{\"done\":") && said[0].contains("is in force again"), "{said:?}");
    assert!(said[1].starts_with("{\"refused\":") && said[1].contains("is in force again"), "{said:?}");
    // One that came before the time was up counts, whatever the kernel does meanwhile.
    let said = ask_all(&["{\"ask\":\"reload\",\"confirm_ms\":1000}", plain, "{\"ask\":\"keep\"}"]);
    // The plain request is answered after it.
    assert!(said[1].contains("the configuration stays") && a.status().trial_left_s.is_none(), "{said:?}");
    assert!(a.status().went_back.is_none());
    // More than anybody needs are not kept.
    let said = ask_all(&[plain; 80]);
    let refused = said.iter().filter(|line| line.contains("64 requests wait for the kernel's answer")).count();
    let done = said.iter().filter(|line| line.contains("is in force")).count();
    assert!(refused > 0 && done + refused == 80, "{done} done, {refused} refused: {said:?}");
}

#[test]
fn requests_that_make_no_sense_are_refused_and_harm_nothing() {
    let _alone = alone();
    if !root_or_skip("asked") {
        return;
    }
    let world = World::new("asked");
    let (a, _) = gateway(&world);
    let answer = |request: &str| {
        use std::io::{BufRead, BufReader};
        let mut client = UnixStream::connect(&a.control).unwrap();
        client.set_read_timeout(Some(PATIENCE)).unwrap();
        client.write_all(request.as_bytes()).unwrap();
        let mut line = String::new();
        // Who is let go with something unread is told so as an error.
        let _ = BufReader::new(client).read_line(&mut line);
        line
    };
    for wrong in ["x\n", "{}\n", "{\"ask\":\"dance\"}\n", "\n"] {
        let said = answer(wrong);
        assert!(said.starts_with("{\"refused\":\"no request that this wavelaned knows"), "{wrong}: {said}");
    }
    let said = answer("{\"ask\":\"reload\",\"confirm_ms\":10}\n");
    assert!(said.contains("on trial for 1 s to 86400 s"), "{said}");
    assert_eq!(answer(&"x".repeat(10_000)), "", "no request is that long");
    assert!(answer("").starts_with("{\"format\":\"wavelane-status/1\""), "who asks nothing gets the document");
    assert_eq!(a.counter("reloads"), 0);
}

#[test]
fn a_proxy_says_that_it_is_one_to_whoever_asks_for_more() {
    let _alone = alone();
    if !root_or_skip("asked_proxy") {
        return;
    }
    let world = World::new("askproxy");
    let proxy = crate::proxy::start(&world, "kernel", "");
    let what = "is the socket of a proxy, which has no peers, and no `reload --confirm`: `wavelane status` and `wavelane top` show what it does, SIGHUP";
    // It ends each conversation by itself, before the question or after.
    for _ in 0..20 {
        let said = ask(&proxy, |_| ()).unwrap_err();
        assert!(said.contains(what), "{said}");
        let said = pings(&proxy, "b", 1, Span::from_secs(1)).unwrap_err();
        assert!(said.contains(what), "{said}");
    }
}

#[test]
fn check_asks_the_peer_and_names_what_contradicts() {
    let _alone = alone();
    if !root_or_skip("with") {
        return;
    }
    let world = World::new("with");
    let config = world.write("a", Outside::V4, "", "");
    let mut b = world.start("b", "source = \"keep\"", "");
    let a = world.spawn("a", &config);
    a.wait_log("peer 'b' is up");
    b.wait_log("peer 'a' is up");
    let found = check_with(&config, "b", None).unwrap();
    assert!(found.sound && found.text.contains("fit together"), "{found:?}");
    // The file, not what runs: it is checked before it is taken.
    edit(&config, "\"10.3.0.0/24\"", "\"10.3.0.0/24\", \"10.77.0.0/16\"");
    edit(&config, "serves = [", "serves = [\"10.88.0.0/16\", ");
    let found = check_with(&config, "b", Some(&a.control)).unwrap();
    assert!(!found.sound, "{found:?}");
    assert!(found.text.contains("wrong 10.77.0.0/16 is a route here, and not served there"), "{found:?}");
    assert!(found.text.contains("wrong what comes from 10.88.0.0/16, a network here, is refused there"), "{found:?}");
    // Keys, of which the text says only that they differ.
    let good = std::fs::read_to_string(&config).unwrap();
    let (other, psk) = (key_pair(), world.dir.join("psk"));
    wavelane_daemon::keys::write_key(&psk, &other.private).unwrap();
    edit(&config, "public_key", &format!("preshared_key = \"{}\"\npublic_key", psk.display()));
    edit(&config, &world.keys[1].public, &other.public);
    let found = check_with(&config, "b", Some(&a.control)).unwrap();
    assert!(found.text.contains("wrong the peer's `public_key` here is not the key that it has"), "{found:?}");
    assert!(found.text.contains("wrong only this side has a preshared_key for the other"), "{found:?}");
    assert!(!found.text.contains(&std::fs::read_to_string(&psk).unwrap().trim().to_owned()), "{found:?}");
    std::fs::write(&config, good).unwrap();
    // More at once than it answers: each of the others is told to ask again.
    let said: Vec<_> = std::thread::scope(|scope| {
        let ask = || scope.spawn(|| check_with(&config, "b", Some(&a.control)).map_err(|why| why.to_string()));
        let all: Vec<_> = (0..12).map(|_| ask()).collect();
        all.into_iter().map(|one| one.join().unwrap()).collect()
    });
    let others = said.iter().filter_map(|said| said.as_ref().err());
    assert!(others.clone().all(|why| why.contains("answers others now: ask again")), "{said:?}");
    assert!(others.count() < 12, "{said:?}");
    assert!(check_with(&config, "c", None).unwrap_err().to_string().starts_with("no peer is called 'c'"));
    wait_for("the end of its flows", || (a.status().flows, b.status().flows) == (0, 0));
    b.stop();
    wait_for("the end of the peer", || !a.status().peers[0].up);
    let gone = check_with(&config, "b", None).unwrap_err().to_string();
    assert_eq!(gone, "peer 'b' does not answer: see `wavelane netcheck`");
}
