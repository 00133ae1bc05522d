//! Every knob that no other test turns, and the profiles.

use super::script::*;
use super::*;
use wavelane_base::ReadOutcome;
use wavelane_wire::tcp::{Options, TcpHeader};

/// The table in `docs/models/tcp.md`.
#[test]
fn the_defaults_are_those_of_the_documentation() {
    let millis = Span::from_millis;
    let wanted = Config {
        congestion: CongestionControl::Cubic,
        mss: 1_460,
        policers: true,
        sack: true,
        rack_tlp: true,
        prr: true,
        undo: true,
        slow_start_exit: SlowStartExit::HyStartPlusPlus,
        whole_segments: true,
        byte_counting: true,
        timestamps: true,
        window_scale: true,
        ecn: false,
        limited_transmit: true,
        limited_for_a_round: true,
        timer_from_repeat: true,
        reduce_again: false,
        quirks: Quirks::default(),
        offload: true,
        nagle: true,
        pacing: false,
        initial_window: 10,
        rto_initial: millis(1_000),
        rto_floor: RtoFloor::Variance(millis(200)),
        rto_max: millis(120_000),
        rto_tick: Span::from_nanos(1),
        freeze: None,
        probe: None,
        syn_retries: 6,
        data_retries: 15,
        delayed_ack_count: 2,
        delayed_ack_timer: millis(40),
        ack_when_read: true,
        compressed_acks: 44,
        quick_acks: 16,
        send_buffer: 4_194_304,
        unsent_low_water: None,
        receive_buffer: 6_291_456,
        receive_window_initial: Some(65_535),
        keepalive: None,
        time_wait: millis(60_000),
    };
    assert_eq!(Config::default(), wanted);
    let documentation = include_str!("../../../../docs/models/tcp.md");
    for row in [
        "| `congestion` | `Cubic` |",
        "| `policers` | on |",
        "| `sack`, `rack_tlp`, `prr` | on |",
        "| `slow_start_exit` | `HyStartPlusPlus` |",
        "| `undo` | on |",
        "| `whole_segments` | on |",
        "| `byte_counting`, `timestamps`, `window_scale` | on |",
        "| `limited_transmit` | on |",
        "| `reduce_again` | off |",
        "| `limited_for_a_round` | on |",
        "| `timer_from_repeat` | on |",
        "| `offload`, `ack_when_read` | on |",
        "| `quirks.unmeasured_after_timeout` | off |",
        "| `quirks.guess_arrivals` | off |",
        "| `quirks.no_growth_when_repaired` | off |",
        "| `quirks.any_ack_ends_backoff` | off |",
        "| `ecn`, `pacing` | off |",
        "| `nagle` | on |",
        "| `mss`, `initial_window` | 1,460; 10 |",
        "| `rto_initial`, `rto_max` | 1 s; 120 s |",
        "| `rto_floor` | `Variance(200 ms)` |",
        "| `rto_tick` | 1 ns |",
        "| `syn_retries`, `data_retries` | 6; 15 |",
        "| `compressed_acks` | 44 |",
        "| `delayed_ack_count`, `delayed_ack_timer`, `quick_acks` | 2; 40 ms; 16 |",
        "| `send_buffer`, `unsent_low_water` | 4 MiB; none |",
        "| `receive_buffer`, `receive_window_initial` | 6 MiB; 65,535 |",
        "| `keepalive`, `time_wait` | off; 60 s |",
    ] {
        assert!(documentation.contains(row), "the documentation lacks: {row}");
    }
}

#[test]
fn only_cubic_of_linux_leaves_slow_start_early() {
    use CongestionControl::{Bbr, Cubic, NewReno, Reno};
    for (congestion, exit) in [
        (Reno, SlowStartExit::Loss),
        (NewReno, SlowStartExit::Loss),
        (Cubic, SlowStartExit::HyStart),
        (Bbr, SlowStartExit::Loss),
    ] {
        let linux = Config::linux(congestion);
        assert_eq!((linux.congestion, linux.slow_start_exit), (congestion, exit));
        assert_eq!(
            Config { congestion: Cubic, slow_start_exit: SlowStartExit::HyStartPlusPlus, ..linux },
            Config::default()
        );
    }
}

/// A TCP of 2001 offers nothing but its MSS.
#[test]
fn the_profile_of_2001_offers_nothing_new() {
    let mut tcp = Script::connect(Config::tcp_2001());
    let syn = tcp.one();
    assert_eq!((syn.options, syn.window), (Options { mss: Some(1_460), ..Options::default() }, 65_535));
    let all = Options { window_scale: Some(7), timestamps: stamps(9, 0).timestamps, ..syn_options() };
    tcp.give_header(TcpHeader { options: all, ..header(S.with(A), 0, 1) }, b"");
    assert_eq!(tcp.one().options, Options::default());
    assert_eq!((tcp.tcp.sender.window, tcp.tcp.status().cwnd), (60_000, 2_000));
}

/// Each switched off alone: it is neither offered nor done, whatever the peer offers.
#[test]
fn disabled_options_are_not_offered() {
    let all = Options { window_scale: Some(7), timestamps: stamps(9, 0).timestamps, ..syn_options() };
    for which in 0..3 {
        let config = Config { sack: which != 0, timestamps: which != 1, window_scale: which != 2, ..Config::default() };
        let mut active = Script::connect(config.clone());
        for out in [active.one(), Script::accept(config, all).one()] {
            let offered =
                (out.options.sack_permitted, out.options.timestamps.is_some(), out.options.window_scale.is_some());
            assert_eq!(offered, (which != 0, which != 1, which != 2));
        }
    }
}

/// RFC 8985, section 7: without probes silence ends by the timeout.
#[test]
fn without_rack_there_are_no_probes() {
    let mut tcp = Script::established(Config { rack_tlp: false, ..plain() });
    tcp.write(3_000);
    tcp.data();
    assert_eq!(tcp.deadline().0, "retransmission timeout");
    assert_eq!(tcp.counters().tail_probes, 0);
}

/// Without proportional reduction the window falls at once: what is in flight above it holds everything back but the repeat.
#[test]
fn without_prr_the_window_falls_at_once() {
    for (prr, more) in [(true, true), (false, false)] {
        let mut tcp = ten(Config { prr, ..plain() });
        tcp.sack(1, &[(1_001, 4_001)]);
        assert_eq!(tcp.data(), [(1, 1_000)]);
        tcp.sack(1, &[(1_001, 5_001)]);
        assert_eq!(tcp.data().is_empty(), !more);
    }
}

/// RFC 3042 as a switch: without it, two duplicates let nothing go.
#[test]
fn limited_transmit_is_a_switch() {
    let mut tcp = ten(Config { sack: false, limited_transmit: false, ..plain() });
    for _ in 0..2 {
        tcp.ack(1);
        tcp.quiet();
    }
    tcp.ack(1);
    assert_eq!(tcp.data()[0], (1, 1_000));
}

/// What was in flight at a timeout is measured, or not.
#[test]
fn measuring_across_a_timeout_is_a_switch() {
    for (unmeasured_after_timeout, measured) in [(false, true), (true, false)] {
        let quirks = Quirks { unmeasured_after_timeout, ..Quirks::default() };
        let config = Config { quirks, sack: false, undo: false, ..plain() };
        let mut tcp = ten(config);
        tcp.deadline();
        assert_eq!(tcp.data(), [(1, 1_000)]);
        let before = tcp.tcp.status().rtt;
        // The first went twice and is no measure (Karn); the next two went once, and are marked lost.
        tcp.ack(1_001);
        assert_eq!(tcp.tcp.status().rtt, before);
        tcp.ack(3_001);
        assert_eq!(tcp.tcp.status().rtt != before, measured);
    }
}

#[test]
fn the_initial_window_and_the_first_timeout_are_knobs() {
    let config = Config { initial_window: 3, rto_initial: Span::from_millis(2_500), ..plain() };
    let mut tcp = Script::connect(config);
    tcp.drain();
    assert_eq!(tcp.deadline(), ("retransmission timeout", Span::from_millis(2_500)));
    let mut tcp = Script::established(Config { initial_window: 3, ..plain() });
    tcp.write(9_000);
    assert_eq!(tcp.data().len(), 3);
}

/// RFC 6298, sections 2.4 and 2.5: the floor and the ceiling.
#[test]
fn the_timeout_has_a_floor_and_a_ceiling() {
    let floor = RtoFloor::Total(Span::from_millis(700));
    let config = Config { rto_floor: floor, rto_max: Span::from_millis(1_500), rack_tlp: false, ..plain() };
    let mut tcp = Script::established(config);
    tcp.write(1_000);
    tcp.data();
    for millis in [700, 1_400, 1_500, 1_500] {
        assert_eq!(tcp.deadline().1, Span::from_millis(millis));
        tcp.data();
    }
}

#[test]
fn delayed_acknowledgements_are_knobs() {
    let config = Config { delayed_ack_count: 3, delayed_ack_timer: Span::from_millis(90), ..plain() };
    let mut tcp = Script::established(config);
    for k in 0..2 {
        tcp.give(A, 1 + 1_000 * k, 1, &[7; 1_000]);
    }
    tcp.quiet();
    assert_eq!(tcp.deadline(), ("delayed acknowledgement", Span::from_millis(90)));
    assert_eq!(tcp.one().ack, 2_001);
    for k in 2..5 {
        tcp.give(A, 1 + 1_000 * k, 1, &[7; 1_000]);
    }
    assert_eq!(tcp.one().ack, 5_001);
    // The count begins anew with every acknowledgement that goes.
    tcp.give(A, 5_001, 1, &[7; 1_000]);
    tcp.write(10);
    assert_eq!(tcp.one().ack, 6_001);
    for k in 6..8 {
        tcp.give(A, 1 + 1_000 * k, 11, &[7; 1_000]);
    }
    tcp.quiet();
}

#[test]
fn the_wait_at_the_end_is_a_knob() {
    let mut tcp = Script::established(Config { time_wait: Span::from_secs(7), ..plain() });
    tcp.tcp.shutdown(tcp.now);
    tcp.drain();
    tcp.give(A.with(F), 1, 2, b"");
    tcp.drain();
    assert_eq!(tcp.deadline(), ("end of TIME-WAIT", Span::from_secs(7)));
}

/// A window that begins with less than a segment opens again as it is read (RFC 9293, section 3.8.6.2.2).
#[test]
fn a_first_window_of_less_than_a_segment() {
    let mut tcp = Script::established(Config { receive_window_initial: Some(500), ..plain() });
    tcp.give(A, 1, 1, &[7; 500]);
    tcp.wait(40);
    assert_eq!(tcp.drain().pop().unwrap().window, 0);
    assert_eq!(tcp.tcp.read(tcp.now, &mut [0; 600]), ReadOutcome::Data(500));
    assert!(tcp.one().window >= 250);
}
