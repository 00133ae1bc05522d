#![allow(clippy::unwrap_used, reason = "tests")]
use super::*;
use wavelane_measure::LOST_RANK_MS;
use wavelane_scenario::Stack;

const S: u64 = 1_000_000_000;

fn bulk(completed: bool) -> FlowRaw {
    FlowRaw {
        flow: "page".into(),
        app: "download",
        connect_ns: S / 10,
        first_byte_ns: Some(S),
        last_byte_ns: Some(5 * S),
        completed,
        intact: completed.then_some(true),
        octets: 10_000_000,
        arrivals: vec![(S, 1_000_000), (2 * S, 4_000_000), (4 * S, 3_000_000), (5 * S, 2_000_000)],
        probes: Vec::new(),
        ages: Vec::new(),
        fetches: Vec::new(),
        given_ns: 10 * S,
    }
}

fn flow(app: App) -> Flow {
    Flow {
        name: "f".into(),
        app,
        from: "c".into(),
        to: "s".into(),
        start: Span::ZERO,
        stop: None,
        control: None,
        category: None,
        no_ack: false,
    }
}

fn download(size: Option<u64>) -> Flow {
    flow(App::Download { size: size.map(Octets::new) })
}

#[test]
fn goodput_of_an_unfinished_flow_counts_the_time_given() {
    let done = of_flow(&download(Some(10_000_000)), &bulk(true), None, Seed(1));
    assert_eq!(done.goodput_bps, Some(20e6));
    assert_eq!(done.duration_ms, Some(4_900.0));
    let cut = of_flow(&download(Some(20_000_000)), &bulk(false), None, Seed(1));
    assert_eq!(cut.goodput_bps, Some(8e6));
    assert_eq!((cut.duration_ms, cut.completed, cut.intact), (None, false, None));
}

#[test]
fn a_fixed_time_flow_is_measured_after_its_warm_up() {
    // First byte at 1 s, so from 3 s to the end at 10.1 s: 5 MB in 7.1 s.
    let figures = of_flow(&download(None), &bulk(false), None, Seed(1));
    assert!((figures.goodput_bps.unwrap() - 40e6 / 7.1).abs() < 1.0);
}

#[test]
fn goodput_without_bytes_or_time() {
    let raw = FlowRaw { first_byte_ns: None, last_byte_ns: None, octets: 0, arrivals: vec![], ..bulk(false) };
    for size in [Some(1), None] {
        assert_eq!(of_flow(&download(size), &raw, None, Seed(1)).goodput_bps, Some(0.0));
    }
    assert_eq!(of_flow(&download(None), &FlowRaw { given_ns: 0, ..raw }, None, Seed(1)).goodput_bps, None);
    let one = FlowRaw { last_byte_ns: Some(S), ..bulk(true) };
    assert_eq!(of_flow(&download(Some(1)), &one, None, Seed(1)).goodput_bps, None);
}

fn echo(rtts: &[Option<u64>]) -> FlowRaw {
    let probe =
        |(i, rtt): (usize, &Option<u64>)| Probe { sent_ns: i as u64 * S / 10, rtt_ns: rtt.map(|ms| ms * 1_000_000) };
    FlowRaw { app: "echo", probes: rtts.iter().enumerate().map(probe).collect(), ..bulk(true) }
}

fn echo_flow() -> Flow {
    flow(App::Echo { every: Span::from_millis(100), size: Octets::new(64), during: None })
}

#[test]
fn percentiles_are_nearest_rank_and_lost_probes_rank_last() {
    let rtts: Vec<Option<u64>> = (1..=100).map(|i| Some(101 - i)).collect();
    let f = of_flow(&echo_flow(), &echo(&rtts), None, Seed(1));
    assert_eq!((f.rtt_p50_ms, f.rtt_p95_ms, f.rtt_p99_ms), (Some(50.0), Some(95.0), Some(99.0)));
    let mut some_lost = rtts.clone();
    some_lost[..6].fill(None);
    let f = of_flow(&echo_flow(), &echo(&some_lost), None, Seed(1));
    assert_eq!((f.sent, f.lost), (Some(100), Some(6)));
    assert_eq!((f.rtt_p50_ms, f.rtt_p95_ms), (Some(50.0), Some(LOST_RANK_MS)));
    // An answer after 9 s is slower than 5 s, and a lost probe is worse than any answer.
    some_lost[10] = Some(9_000);
    assert_eq!(of_flow(&echo_flow(), &echo(&some_lost), None, Seed(1)).rtt_p99_ms, Some(9_000.0));
}

#[test]
fn probes_that_no_connection_took_are_lost() {
    // Asked for at 0.1 s for 10 s: 8 s lie behind the warm-up.
    let never = of_flow(&echo_flow(), &echo(&[]), None, Seed(1));
    assert_eq!((never.sent, never.lost, never.rtt_p50_ms), (Some(80), Some(80), Some(LOST_RANK_MS)));
    // Accepted after 5 s: 29 were due before.
    let mut late = echo(&[Some(1); 50]);
    late.probes.iter_mut().for_each(|probe| probe.sent_ns += 5 * S);
    let late = of_flow(&echo_flow(), &late, None, Seed(1));
    assert_eq!((late.sent, late.lost, late.rtt_p95_ms), (Some(79), Some(29), Some(LOST_RANK_MS)));
}

#[test]
fn only_probes_due_while_the_bulk_flow_ran_count() {
    // Probes at 0, 0.1, ... 9.9 s; the flow runs from 0.1 s to 5 s if complete, to 10.1 s if not.
    let raw = echo(&vec![Some(1); 100]);
    let sent = |size, done| {
        let (flow, bulk) = (download(size), bulk(done));
        of_flow(&echo_flow(), &raw, Some((&flow.app, &bulk)), Seed(1)).sent
    };
    assert_eq!([sent(Some(1), true), sent(Some(1), false)], [Some(50), Some(99)]);
    // One of a given time runs to its end even if bytes cease to arrive.
    assert_eq!(sent(None, true), Some(99));
}

#[test]
fn shares_are_over_all_runs_and_null_when_not_counted() {
    let raw = |wire, repair| StackRaw {
        stack: Stack::WAVELANE,
        flows: vec![bulk(true)],
        wire_octets: wire,
        ways: vec![],
        repair_octets: repair,
        first_octets: Some(10_000_000),
        inconclusive: None,
        notes: Vec::new(),
        radios: Vec::new(),
        lines: Vec::new(),
        spent: crate::Spent { programs_s: repair.map(|_| 2.0), machine_s: Some(5.0) },
        kernels: Vec::new(),
        packets: None,
        timeouts: None,
    };
    let run = |wire, repair| RunTotals::of(&raw(wire, repair), Seed(1));
    let (a, b) = (run(11_000_000, Some(500_000)), run(13_000_000, Some(1_500_000)));
    assert_eq!(wire_bytes_per_delivered_byte(&[a.clone(), b.clone()]), Some(1.2));
    assert_eq!(wire_bytes_per_delivered_byte(&[run(0, None)]), None, "a radio cell counts none");
    assert_eq!(repair_share(&[a.clone(), b.clone()]), Some(0.1));
    assert_eq!(repair_share(&[a.clone(), run(1, None)]), None);
    // Each run delivered 10^7 bytes.
    assert_eq!(seconds_per_gb(&[a.clone(), b.clone()], |r| r.cpu_s), Some(200.0));
    assert_eq!(seconds_per_gb(&[a.clone(), run(1, None)], |r| r.cpu_s), None);
    assert_eq!(seconds_per_gb(&[a.clone(), run(1, None)], |r| r.machine_s), Some(500.0));
}

#[test]
fn ages_skip_the_warm_up_and_open_fetches_rank_last() {
    let ages = (0..100).map(|i| (S + i * S / 25, (i + 1) * 1_000_000)).collect();
    let raw = FlowRaw { ages, ..bulk(true) };
    // All 100 of a sized flow; of a fixed-time flow those from 3 s on, which are the upper half.
    assert_eq!(of_flow(&download(Some(10_000_000)), &raw, None, Seed(1)).age_p95_ms, Some(95.0));
    assert_eq!(of_flow(&download(None), &raw, None, Seed(1)).age_p95_ms, Some(98.0));
    assert_eq!(of_flow(&download(None), &bulk(true), None, Seed(1)).age_p95_ms, None);
    let fetch = flow(App::Fetch { every: Span::from_millis(100), size: Octets::new(1000) });
    let one = |first: u64, total: Option<u64>| crate::Fetch {
        page: 0,
        connect_ns: 0,
        first_byte_ns: Some(first * 1_000_000),
        total_ns: total.map(|t| t * 1_000_000),
    };
    let fetches = vec![one(30, Some(40)), one(10, Some(20)), one(20, None)];
    let raw = FlowRaw { app: "fetch", fetches, ..bulk(true) };
    let figures = of_flow(&fetch, &raw, None, Seed(1));
    assert_eq!((figures.sent, figures.lost, figures.goodput_bps), (Some(3), Some(1), None));
    let times = figures.fetch.unwrap();
    assert_eq!((times.first_byte_mean_ms, times.first_byte_p50_ms), (20.0, 20.0));
    assert_eq!((times.total_mean_ms, times.total_p50_ms), ((40.0 + 20.0 + LOST_RANK_MS) / 3.0, 40.0));
}
