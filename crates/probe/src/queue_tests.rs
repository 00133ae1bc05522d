#![allow(clippy::unwrap_used, reason = "a failed unwrap is a failed test")]
use super::*;
use crate::figures::tests::{Known, QUIET, measured};
use crate::hops::HopSample;
use crate::vantage::Vantage;

/// A path of three hops, whose round trips under load are given.
fn path(kind: StageKind, rises_ms: [u64; 3], up_ms: u64, down_ms: u64) -> Measurement {
    let mut m = measured(&[QUIET, Known { kind, seconds: 12, up_ms, down_ms, bps: 1_000_000, ..QUIET }]);
    for (i, stage) in m.stages.clone().iter().enumerate() {
        for n in 0..stage.to.since(stage.from).as_millis() / 500 {
            for (hop, rise) in (1u8..).zip(rises_ms) {
                let sent = stage.from + Span::from_millis(n * 500);
                let takes = u64::from(hop) * 3 + if i == 1 { rise } else { 0 };
                let from = std::net::Ipv4Addr::new(10, 0, 0, hop).into();
                m.hops.push(HopSample { hop, from, sent, back: sent + Span::from_millis(takes), target: hop == 3 });
            }
        }
    }
    m
}

/// The queue of the direction that rises most.
fn worst(target: &str, m: &Measurement) -> Option<QueueAt> {
    locate(target, m).into_iter().next().flatten()
}

#[test]
fn both_directions_have_a_queue_of_their_own() {
    let down = Known { kind: StageKind::Down, seconds: 12, up_ms: 6, down_ms: 104, bps: 1_000_000, ..QUIET };
    let m = measured(&[QUIET, down, Known { kind: StageKind::Up, up_ms: 206, down_ms: 4, ..down }]);
    let directions = locate("server", &m).map(|at| at.unwrap().direction);
    assert_eq!(directions, ["up", "down"], "the worse first");
    let one = measured(&[QUIET, down]);
    assert!(matches!(locate("server", &one), [Some(at), None] if at.direction == "down"));
}

#[test]
fn upwards_the_queue_stands_before_the_first_hop_that_rises() {
    let at = worst("server", &path(StageKind::Up, [190, 200, 210], 206, 4)).unwrap();
    assert_eq!((at.hop, at.direction), (Some(0), "up"));
    assert!(at.what.contains("this host") && at.rises.len() == 3, "{at:?}");
    let at = worst("server", &path(StageKind::Up, [1, 200, 210], 206, 4)).unwrap();
    assert_eq!(at.hop, Some(1));
    assert!(at.what.contains("10.0.0.1") && at.remedy.contains("smart queue"), "{at:?}");
}

#[test]
fn downwards_it_stands_at_the_first_hop_that_rises() {
    let at = worst("server", &path(StageKind::Down, [200, 200, 200], 6, 204)).unwrap();
    assert_eq!((at.hop, at.direction), (Some(1), "down"));
    let at = worst("server", &path(StageKind::Down, [0, 200, 200], 6, 204)).unwrap();
    assert!(at.hop == Some(2) && at.remedy.contains("provider"), "{at:?}");
}

#[test]
fn no_rise_names_no_hop_and_silent_routers_are_reported() {
    assert_eq!(worst("server", &path(StageKind::Up, [0, 0, 0], 20, 4)), None);
    let mut silent = path(StageKind::Up, [0, 0, 0], 206, 4);
    let at = worst("server", &silent).unwrap();
    assert!(at.what.contains("beyond hop 3"), "{at:?}");
    silent.hops.clear();
    let at = worst("server", &silent).unwrap();
    assert_eq!((at.hop, at.by), (None, "cannot tell"));
    assert!(at.what.contains("no router"), "{at:?}");
}

/// The same path, and a second vantage whose delay rises by so much under load.
fn seen_from(m: Measurement, rise_ms: u64) -> Measurement {
    seen_at(m, 2, rise_ms)
}

/// The same from so far away.
fn seen_at(mut m: Measurement, idle_ms: u64, rise_ms: u64) -> Measurement {
    let ours: Vec<Sample> = m.trains.iter().flat_map(|t| t.samples.clone()).collect();
    let loaded = m.stages[1].from;
    let samples = ours.into_iter().map(|s| {
        let rise = Span::from_millis(if s.sent < loaded { 0 } else { rise_ms });
        let echo = s.echo.map(|(told, _)| {
            (crate::train::Echoed { received: 0, answered: 0, ..told }, s.sent + Span::from_millis(idle_ms) + rise)
        });
        Sample { echo, ..s }
    });
    m.vantage = Some(Vantage { name: "desk".into(), samples: samples.collect() });
    m
}

#[test]
fn a_vantage_that_rises_puts_the_queue_before_it() {
    let at = worst("server", &seen_from(path(StageKind::Up, [1, 200, 210], 206, 4), 195)).unwrap();
    assert!(
        (at.hop, at.by) == (Some(0), "vantage") && at.what.contains("this host") && at.what.contains("desk"),
        "{at:?}"
    );
    let at = worst("server", &seen_from(path(StageKind::Down, [0, 200, 200], 6, 204), 195)).unwrap();
    assert!(at.hop == Some(1) && at.what.contains("access point"), "{at:?}");
}

#[test]
fn a_vantage_that_does_not_rise_puts_it_beyond() {
    let at = worst("server", &seen_from(path(StageKind::Up, [1, 200, 210], 206, 4), 3)).unwrap();
    assert!((at.hop, at.by) == (Some(1), "vantage and hops") && at.what.contains("beyond desk"), "{at:?}");
    let mut silent = seen_from(path(StageKind::Down, [0, 0, 0], 6, 204), 3);
    silent.hops.clear();
    let at = worst("server", &silent).unwrap();
    assert!(at.by == "vantage" && at.what == "beyond desk, between it and server", "{at:?}");
}

#[test]
fn a_vantage_with_heavy_loss_is_ignored() {
    let mut m = seen_from(path(StageKind::Up, [1, 200, 210], 206, 4), 195);
    let samples = &mut m.vantage.as_mut().unwrap().samples;
    samples.iter_mut().enumerate().filter(|(i, _)| i % 3 != 0).for_each(|(_, s)| s.echo = None);
    let at = worst("server", &m).unwrap();
    assert!(at.by == "hops" && at.doubt.unwrap().contains("too few"));
}

#[test]
fn a_vantage_as_far_as_the_target_decides_nothing() {
    // The target answers within 10 ms when nothing else goes on.
    let far = |rise_ms| seen_at(path(StageKind::Up, [1, 200, 210], 206, 4), 9, rise_ms);
    for rise_ms in [195, 3] {
        let at = worst("server", &far(rise_ms)).unwrap();
        assert_eq!((at.hop, at.by), (Some(1), "hops"));
        assert!(at.doubt.unwrap().contains("no nearer than server (9.0 and 10.0 ms without load)"));
    }
    let mut silent = far(195);
    silent.hops.clear();
    let at = worst("server", &silent).unwrap();
    assert_eq!((at.hop, at.by), (None, "cannot tell"));
    let near = worst("server", &seen_at(path(StageKind::Up, [1, 200, 210], 206, 4), 8, 195)).unwrap();
    assert_eq!((near.by, near.doubt), ("vantage", None));
}
