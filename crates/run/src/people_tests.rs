#![allow(clippy::unwrap_used, reason = "tests")]
use super::*;
use crate::{Fetch, Probe};
use wavelane_base::{Octets, Span};
use wavelane_scenario::{Codec, Spurts, Web};

const MS: u64 = 1_000_000;

fn flow(app: App) -> Flow {
    let (from, to) = ("a".into(), "b".into());
    let (control, category) = (None, None);
    Flow { name: "f".into(), app, from, to, start: Span::ZERO, stop: None, control, category, no_ack: false }
}

fn raw(app: &'static str, given_ms: u64) -> FlowRaw {
    FlowRaw {
        flow: "f".into(),
        app,
        connect_ns: 0,
        first_byte_ns: None,
        last_byte_ns: None,
        completed: true,
        intact: None,
        octets: 0,
        arrivals: Vec::new(),
        probes: Vec::new(),
        ages: Vec::new(),
        fetches: Vec::new(),
        given_ns: given_ms * MS,
    }
}

fn call() -> Voice {
    let codec = Codec::G726;
    let (on, off) = (Span::from_secs(1), Span::from_millis(1_350));
    let spurts = Spurts { rate: codec.rate(), size: Octets::new(200), on, off };
    Voice { spurts, deadline: Span::from_millis(500), codec }
}

/// Scores of G.711 with concealment at 250 ms and of G.726, computed apart by hand from G.107's equations.
#[test]
fn scores_are_those_of_the_e_model() {
    let g711 = Codec::G711.impairment();
    for (delay, loss, expected) in [(150.0, 0.0, 4.32), (150.0, 1.0, 4.21), (150.0, 8.0, 3.44)] {
        let got = mos(delay, loss, g711);
        assert!((got - expected).abs() < 0.06, "{delay} ms, {loss} %: {got}");
    }
    for (loss, expected) in [(1.0, 3.80), (2.0, 3.50), (8.0, 2.24)] {
        let got = mos(150.0, loss, Codec::G726.impairment());
        assert!((got - expected).abs() < 0.02, "{loss} %: {got}");
    }
    assert_eq!(mos(5_000.0, 100.0, g711), 1.0);
}

#[test]
fn a_call_counts_lost_and_late_datagrams() {
    let flow = flow(App::Voice(call()));
    let probe = |i: u64, rtt: Option<u64>| Probe { sent_ns: i * 50 * MS, rtt_ns: rtt.map(|ms| ms * MS) };
    // The last is sent when the deadline reaches beyond the end.
    let delays = [Some(20), Some(40), None, Some(600), Some(30), Some(10)];
    let probes: Vec<Probe> = delays.iter().enumerate().map(|(i, rtt)| probe(i as u64, *rtt)).collect();
    let given = 500 + 4 * 50;
    let heard = of_voice(&flow, &FlowRaw { probes, ..raw("voice", given) }).unwrap();
    assert_eq!((heard.sent, heard.lost, heard.late, heard.loss), (5, 1, 1, Some(0.4)));
    assert_eq!((heard.delay_p50_ms, heard.delay_p95_ms), (Some(30.0), Some(600.0)));
    assert_eq!(heard.jitter_ms, Some((20.0 + 560.0 + 570.0) / 3.0));
    // 3 of 5 within 40 ms and the 50 ms that it takes to fill a datagram.
    assert_eq!(heard.mos, Some(mos(90.0, 40.0, Codec::G726.impairment())));
    let none = of_voice(&flow, &raw("voice", given)).unwrap();
    assert_eq!((none.loss, none.mos, none.delay_mean_ms), (None, None, None));
}

#[test]
fn a_page_ends_with_its_last_object_and_counts_if_it_is_whole() {
    let web = Web {
        document: None,
        objects: 2,
        size: Octets::new(1_000),
        shape: 1.2,
        parallel: 2,
        gap: Span::ZERO,
        think: Span::from_secs(1),
        pages: None,
    };
    let fetch = |page, connect: u64, total: Option<u64>| Fetch {
        page,
        connect_ns: connect * MS,
        first_byte_ns: None,
        total_ns: total.map(|t| t * MS),
    };
    let fetches = vec![
        fetch(0, 100, Some(300)),
        fetch(0, 150, Some(100)),
        fetch(1, 900, Some(40)),
        fetch(1, 900, Some(60)),
        fetch(2, 2_000, Some(20)),
        fetch(2, 2_000, None),
    ];
    let seen = of_web(&flow(App::Web(Box::new(web))), &FlowRaw { fetches, ..raw("web", 2_100) }).unwrap();
    assert_eq!((seen.objects, seen.unfinished, seen.pages), (5, 1, 2));
    assert_eq!((seen.page_mean_ms, seen.page_p50_ms), (Some(180.0), Some(60.0)));
    assert_eq!((seen.response_mean_ms, seen.response_p50_ms), (Some(104.0), Some(60.0)));
}
