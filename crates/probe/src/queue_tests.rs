#![allow(clippy::unwrap_used, reason = "a failed unwrap is a failed test")]
use super::*;
use crate::figures::tests::{Known, QUIET, measured};
use crate::hops::HopSample;

/// A path of three hops, whose round trips under load are given.
fn path(kind: Kind, rises_ms: [u64; 3], up_ms: u64, down_ms: u64) -> Measurement {
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

#[test]
fn upwards_the_queue_stands_before_the_first_hop_that_rises() {
    let at = locate(&path(Kind::Up, [190, 200, 210], 206, 4)).unwrap();
    assert_eq!((at.hop, at.direction), (0, "up"));
    assert!(at.what.contains("this host") && at.rises.len() == 3, "{at:?}");
    let at = locate(&path(Kind::Up, [1, 200, 210], 206, 4)).unwrap();
    assert_eq!(at.hop, 1);
    assert!(at.what.contains("10.0.0.1") && at.remedy.contains("smart queue"), "{at:?}");
}

#[test]
fn downwards_it_stands_at_the_first_hop_that_rises() {
    let at = locate(&path(Kind::Down, [200, 200, 200], 6, 204)).unwrap();
    assert_eq!((at.hop, at.direction), (1, "down"));
    let at = locate(&path(Kind::Down, [0, 200, 200], 6, 204)).unwrap();
    assert!(at.hop == 2 && at.remedy.contains("provider"), "{at:?}");
}

#[test]
fn no_rise_names_no_hop_and_silent_routers_are_reported() {
    assert_eq!(locate(&path(Kind::Up, [0, 0, 0], 20, 4)), None);
    let mut silent = path(Kind::Up, [0, 0, 0], 206, 4);
    let at = locate(&silent).unwrap();
    assert!(at.what.contains("beyond hop 3"), "{at:?}");
    silent.hops.clear();
    assert!(locate(&silent).unwrap().what.contains("no router"));
}
