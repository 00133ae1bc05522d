#![allow(clippy::unwrap_used, reason = "a failed unwrap is a failed test")]
use super::*;
use crate::load::{SelfSample, SmallSample};
use crate::packet::Tally;
use crate::train::Echoed;

const EVERY_MS: u64 = 10;
const AHEAD: u64 = 1 << 50;

/// One stage of a path on which everything is known.
#[derive(Clone, Copy)]
pub(crate) struct Known {
    pub(crate) kind: StageKind,
    pub(crate) seconds: u64,
    pub(crate) up_ms: u64,
    pub(crate) down_ms: u64,
    /// Every so many probes are lost on the way there, and back; 0 for none.
    pub(crate) lost_up: u64,
    pub(crate) lost_down: u64,
    /// Bits per second each loaded way.
    pub(crate) bps: u64,
}

pub(crate) const QUIET: Known =
    Known { kind: StageKind::Idle, seconds: 5, up_ms: 6, down_ms: 4, lost_up: 0, lost_down: 0, bps: 0 };

pub(crate) fn measured(known: &[Known]) -> Measurement {
    let mut m = Measurement { probe_size: 80, interval: Span::from_millis(EVERY_MS), ..Measurement::default() };
    let (mut from, mut loaded) = (Instant::from_secs(50), 0u64);
    let span = Span::from_millis;
    for (label, k) in known.iter().enumerate() {
        let to = from + Span::from_secs(k.seconds);
        let (down, up) = k.kind.ways();
        let mut samples = Vec::new();
        let (mut received, mut back) = (0u32, 0);
        for i in 0..k.seconds * 1_000 / EVERY_MS {
            let sent = from + span(i * EVERY_MS);
            let there = sent + span(k.up_ms);
            let reached = k.lost_up == 0 || i % k.lost_up != 0;
            let home = reached && (k.lost_down == 0 || i % k.lost_down != 1);
            received += u32::from(reached);
            back += u32::from(home);
            if up {
                loaded += k.bps / 8 * EVERY_MS / 1_000;
            }
            let told = Echoed { received: there.as_nanos() + AHEAD, answered: there.as_nanos() + AHEAD, loaded };
            samples.push(Sample { sent, echo: home.then(|| (told, there + span(k.down_ms))), reached });
        }
        assert!(back > 0);
        let mut train = Train::of_samples(label as u32, 0, samples);
        train.tally = Some(Tally { received, ..Tally::default() });
        m.trains.push(train);
        let every = |n: u64| (0..k.seconds * 1_000 / n).map(move |i| from + span(i * n));
        let rtt = span(k.up_ms + k.down_ms);
        let loads = down || up;
        let octets = |at: Instant| k.bps / 8 * (at.since(from).as_millis()) / 1_000;
        m.stages.push(Stage {
            kind: k.kind,
            from,
            to,
            selfs: every(100)
                .filter(|_| loads)
                .map(|at| SelfSample {
                    asked: at,
                    back: at + rtt,
                    in_flight: (0, (k.bps / 8 * rtt.as_millis() / 1_000) as u32),
                })
                .collect(),
            smalls: every(200)
                .filter(|_| loads)
                .map(|at| SmallSample { begun: at, connect: rtt, tls: None, request: rtt })
                .collect(),
            congestions: Vec::new(),
            failures: (0, None),
            unanswered: (0, None),
            received: every(50).filter(|_| down).map(|at| (at, octets(at))).collect(),
            sent: Vec::new(),
        });
        from = to;
    }
    m
}

fn close(value: Option<f64>, truth: f64) -> bool {
    value.is_some_and(|v| (v - truth).abs() <= 0.01 * truth.abs() + 1e-9)
}

#[test]
fn a_known_path_gives_its_own_figures() {
    let m = measured(&[
        QUIET,
        Known { kind: StageKind::Down, seconds: 30, down_ms: 104, bps: 10_000_000, ..QUIET },
        Known { kind: StageKind::Up, seconds: 30, up_ms: 66, bps: 4_000_000, lost_up: 50, lost_down: 20, ..QUIET },
        Known { kind: StageKind::After, ..QUIET },
    ]);
    let d = document("path", &m);
    let [idle, down, up] = &d.phases[..] else { panic!("{:?}", d.phases) };
    assert!(close(idle.foreign_p50_ms, 10.0) && close(idle.owd_up_p50_ms, 5.0), "an idle path is split in half");
    assert!(close(down.foreign_p99_ms, 110.0) && close(down.self_p50_ms, 110.0) && close(down.goodput_bps, 10e6));
    assert!(close(down.owd_down_p50_ms, 105.0) && close(down.owd_up_p50_ms, 5.0), "{down:?}");
    assert!(close(up.owd_up_p50_ms, 65.0) && close(up.owd_down_p50_ms, 5.0) && close(up.goodput_bps, 4e6), "{up:?}");
    assert!(close(up.loss_up, 0.02) && (up.lost_up, up.lost_down) == (60, 150), "{up:?}");
    assert!(close(up.loss_down, 150.0 / 2_940.0));
    // One percent more than the twentieth that the 99th percentile leaves is lost.
    assert_eq!(up.foreign_p99_ms, None);
    assert!(close(up.foreign_p50_ms, 70.0));
    // Mean rises of 100 and 60 ms.
    assert_eq!((d.grade, d.grade_scale), (Some("C"), "DSLReports bufferbloat"));
    // Every delay of the download is 110 ms.
    assert!(close(down.rpm, 60_000.0 / 110.0) && down.rpm_confidence == Some("high"), "{:?}", down.rpm);
    // Seven of 100 small packets of the upload are lost, two more than the draft excludes: two of 95 count as 5 s.
    let bound = 60_000.0 / ((2.0 * 5_000.0 + 93.0 * 70.0) / 95.0);
    assert!((d.rpm.unwrap() / bound - 1.0).abs() < 0.05, "{:?} {bound}", d.rpm);
    assert_eq!((d.rpm_phase, d.rpm_bounded_by_loss, d.rpm_class), (Some("up"), true, Some("fair")));
    assert!(close(d.bloat_ratio, 11.0), "{:?}", d.bloat_ratio);
    assert!(close(Some(d.probe_cost_bps), 86_400.0));
    assert!(d.after.is_some_and(|p| close(p.foreign_p50_ms, 10.0)));
    assert!(d.clock_drift_ppm.unwrap().abs() < 1.0);
}

/// Loses the probes of a stage from a share of it on.
fn dies(m: &mut Measurement, stage: usize, from_percent: usize) {
    let samples = &mut m.trains[stage].samples;
    let kept = samples.len() * from_percent / 100;
    for sample in &mut samples[kept..] {
        sample.echo = None;
        sample.reached = false;
    }
    m.trains[stage].tally = Some(Tally { received: kept as u32, ..Tally::default() });
}

#[test]
fn a_link_that_dies_under_load_gets_no_good_grade_and_no_good_score() {
    let down = Known { kind: StageKind::Down, seconds: 30, bps: 170_000, ..QUIET };
    let mut m = measured(&[QUIET, down, Known { kind: StageKind::After, ..QUIET }]);
    let fine = document("path", &m);
    assert_eq!((fine.grade, fine.rpm_class, fine.grade_bound), (Some("A+"), Some("excellent"), None));
    // Half of the probes are lost and all those afterwards; the answers of requests end with them.
    dies(&mut m, 1, 50);
    dies(&mut m, 2, 0);
    let d = document("path", &m);
    assert_eq!((d.grade, d.rpm_class, d.rpm_bounded_by_loss), (Some("F"), Some("poor"), true), "{d:?}");
    let said = |figure| d.explained.iter().find(|e| e.figure == figure).map(|e| e.sentence.clone()).unwrap();
    assert!(said("grade").contains("after the load 100.0 % of all small packets had no answer"), "{}", said("grade"));
    assert!(!said("grade").contains("not felt") && said("rpm").contains("bounded by lost packets"));
    // Random loss, before the load as well as during it.
    let lossy = |every| {
        let idle = Known { lost_up: every, ..QUIET };
        document("path", &measured(&[idle, Known { lost_up: every, ..down }]))
    };
    let at = |every| (lossy(every).grade, lossy(every).rpm_class);
    assert_eq!(at(5), (Some("F"), Some("poor")));
    assert_eq!(at(8).0, Some("D"));
    assert_eq!(at(25), (Some("C"), Some("excellent")));
    assert_eq!(at(50).0, Some("B"));
    assert_eq!(at(200).0, Some("A+"));
    // What a busy machine's socket drops is not the network's loss.
    let mut busy = measured(&[QUIET, Known { lost_down: 25, ..down }]);
    busy.socket_drops.own = 10_000;
    assert_eq!(document("path", &busy).grade, Some("A+"));
}

#[test]
fn a_phase_that_carried_nothing_and_answers_that_never_came_are_no_good_news() {
    let down = Known { kind: StageKind::Down, seconds: 30, bps: 10_000_000, ..QUIET };
    let mut m = measured(&[QUIET, down, Known { kind: StageKind::Up, seconds: 30, bps: 0, ..QUIET }]);
    let d = document("path", &m);
    assert_eq!((d.grade, d.grade_bound.as_deref()), (None, Some("in the upload nothing was transferred")));
    assert!(d.explained.iter().any(|e| e.figure == "grade" && e.sentence.starts_with("No grade: in the upload")));
    let said = |d: &ProbeDocument| d.explained.iter().find(|e| e.figure == "rpm").map(|e| e.sentence.clone()).unwrap();
    assert_eq!((d.rpm, d.rpm_class), (None, None), "the upload has no score");
    assert!(said(&d).starts_with("No responsiveness: in the upload"), "{}", said(&d));
    // All small packets are lost as well: these bound it.
    dies(&mut m, 2, 0);
    let d = document("path", &m);
    assert_eq!((d.grade, d.rpm_class, d.rpm_phase), (Some("F"), Some("poor"), Some("up")));
    assert!(close(d.rpm, 12.0) && d.rpm_bounded_by_loss && said(&d).contains("poor"), "{}", said(&d));
    // Requests inside the load: most have no answer.
    m = measured(&[QUIET, down]);
    m.stages[1].unanswered = (1_000, None);
    assert!(document("path", &m).rpm.unwrap() < 0.6 * document("path", &measured(&[QUIET, down])).rpm.unwrap());
    // None after a third of the phase.
    m = measured(&[QUIET, down]);
    let end = m.stages[1].from + Span::from_secs(10);
    m.stages[1].selfs.retain(|s| s.back < end);
    assert!(document("path", &m).rpm.unwrap() < 0.6 * document("path", &measured(&[QUIET, down])).rpm.unwrap());
    // Handshakes are the small packets of an HTTP server: from then on none succeeds.
    m = measured(&[QUIET, down]);
    m.beside = Beside::Connections("HTTP/2");
    m.stages[0].smalls = m.stages[1].smalls.iter().take(20).copied().collect();
    let from = m.stages[0].from;
    for (i, small) in m.stages[0].smalls.iter_mut().enumerate() {
        small.begun = from + Span::from_millis(200 * i as u64);
    }
    assert_eq!(document("path", &m).grade, Some("A+"));
    m.stages[1].smalls.retain(|s| s.begun < end);
    let d = document("path", &m);
    assert_eq!((d.grade, d.rpm_class), (Some("F"), Some("poor")), "{:?}", d.phases[1]);
}

#[test]
fn losses_of_sockets_are_told_apart_from_the_networks() {
    let told = |server, own| {
        let mut m = measured(&[QUIET]);
        m.socket_drops = crate::plan::SocketDrops { server, own };
        let d = document("path", &m);
        let json: serde_json::Value = serde_json::from_str(&d.to_json()).unwrap();
        assert_eq!(json["socket_drops"], serde_json::json!({ "server": server, "own": own }));
        d.explained.into_iter().filter(|e| e.figure == "socket_drops").map(|e| e.sentence).collect::<Vec<_>>()
    };
    assert!(told(0, 0).is_empty());
    let both = told(12, 3);
    assert!(both.len() == 2 && both[0].contains("server's socket dropped 12 datagrams"), "{both:?}");
    assert!(both[1].contains("This machine's socket dropped 3 answers"), "{both:?}");
}

#[test]
fn sentences_explain_the_grade() {
    let said = |d: &ProbeDocument, figure| {
        let all = crate::explain::sentences(d);
        all.into_iter().find(|e| e.figure == figure).map(|e| e.sentence).unwrap()
    };
    let loaded = Known { kind: StageKind::Down, seconds: 30, down_ms: 104, bps: 10_000_000, ..QUIET };
    let mut d = document("path", &measured(&[QUIET, loaded]));
    let letter = said(&d, "grade");
    assert!(letter.contains("100 ms in the download") && letter.contains("A+ below 5 ms"), "{letter}");
    assert!(said(&d, "bloat_ratio").contains("about 91 % of it waited"));
    d.bloat_ratio = Some(0.7);
    assert!(said(&d, "bloat_ratio").contains("nothing waited"));
    d.phases[0].foreign_p50_ms = Some(0.2);
    assert!(said(&d, "bloat_ratio").contains("any queue is many times what it holds"));
    let mut at = |what: &str| {
        let (what, remedy) = (what.into(), "shape it".into());
        let (hop, direction, by) = (Some(1), "down", "hops");
        d.queue_at =
            Some(crate::document::QueueAt { hop, direction, what, remedy, by, doubt: None, rises: Vec::new() });
        said(&d, "queue_at")
    };
    assert_eq!(at("router r (hop 1)"), "The queue is at router r (hop 1): shape it.");
    assert_eq!(
        at("beyond hop 3, the last that answers"),
        "The queue is beyond hop 3, the last that answers: shape it."
    );
    let unknown = at("unknown: no router on the way answers probes that expire");
    assert!(unknown.starts_with("The place of the queue is unknown: no router"), "{unknown}");
    assert!(unknown.contains("--vantage"), "{unknown}");
    d.queue_at_other =
        d.queue_at.clone().map(|at| crate::document::QueueAt { direction: "up", what: "desk".into(), ..at });
    assert!(said(&d, "queue_at").starts_with("The place of the queue of the download is unknown: "));
    assert_eq!(said(&d, "queue_at_other"), "The queue of the upload is at desk: shape it.");
    d.queue_at.as_mut().unwrap().doubt = Some("desk was not used, for it is no nearer".into());
    assert_eq!(said(&d, "vantage"), "The second vantage desk was not used, for it is no nearer.");
}

#[test]
fn a_server_that_says_absurd_counts_of_bytes_gives_a_figure_and_no_overflow() {
    let mut m = measured(&[QUIET, Known { kind: StageKind::Up, bps: 8_000_000, ..QUIET }]);
    for (i, sample) in m.trains[1].samples.iter_mut().enumerate() {
        if let Some((told, _)) = &mut sample.echo {
            told.loaded = if i % 2 == 0 { 0 } else { u64::MAX };
        }
    }
    assert!(document("path", &m).phases[1].goodput_up_bps.is_some_and(f64::is_finite));
}

#[test]
fn unmeasured_figures_are_null() {
    let d = document("path", &Measurement::default());
    assert!(d.phases.is_empty() && d.rpm.is_none() && d.grade.is_none() && d.queue_at.is_none());
    let json: serde_json::Value = serde_json::from_str(&d.to_json()).unwrap();
    assert_eq!((&json["format"], &json["rpm"]), (&"wavelane-probe/1".into(), &serde_json::Value::Null));
    let one = document("path", &measured(&[QUIET]));
    assert!(one.phases[0].goodput_bps.is_none() && one.phases[0].rpm.is_none());
}

#[test]
fn probes_still_under_way_when_the_user_ends_it_are_not_lost() {
    let mut m = measured(&[QUIET, Known { kind: StageKind::Down, seconds: 9, down_ms: 304, bps: 10_000_000, ..QUIET }]);
    m.interrupted = true;
    let end = m.stages[1].to;
    m.trains[1].tally = None;
    for sample in &mut m.trains[1].samples {
        if sample.echo.is_some_and(|(_, back)| back > end) {
            sample.echo = None;
            sample.reached = false;
        }
    }
    let d = document("path", &m);
    assert_eq!((d.phases[1].lost_up, d.phases[1].lost_down), (0, 0));
    assert!(close(d.phases[1].foreign_p99_ms, 310.0) && d.interrupted);
}

#[test]
fn curves_cover_every_probe_and_every_byte() {
    let m = measured(&[QUIET, Known { kind: StageKind::Both, seconds: 6, bps: 8_000_000, lost_down: 10, ..QUIET }]);
    let points = crate::document::points(&m);
    assert_eq!((points.len(), points.iter().filter(|p| p.rtt_ms.is_none()).count()), (1_100, 60));
    let curve = crate::document::goodput_curve(&m);
    let megabits = |pick: fn(&(f64, f64, f64)) -> f64| curve.iter().map(pick).sum::<f64>() * 0.25 / 1e6;
    let (down, up) = (megabits(|c| c.1), megabits(|c| c.2));
    assert!((down - 48.0).abs() < 1.0 && (up - 48.0).abs() < 1.0, "{down} {up}");
}
