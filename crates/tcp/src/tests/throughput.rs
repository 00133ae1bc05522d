//! Bulk transfers against what the path allows.

use super::world::{Way, World};
use super::*;
use wavelane_base::Ratio;

pub(super) fn bulk(config: Config, ways: [Way; 2], total: usize, limit: u64) -> (f64, Counters, World) {
    let mut world = World::new([config.clone(), config], ways, 1);
    let flows = world.open(ms(10_000));
    let start = world.now;
    let end = world.transfer(flows, 0, total, Instant::from_secs(limit));
    let end = end.unwrap_or_else(|| panic!("too slow: {:?}", world.hosts[0].status(flows[0])));
    let counters = world.hosts[0].status(flows[0]).unwrap().counters;
    (total as f64 * 8.0 / end.since(start).as_secs_f64() / 1e6, counters, world)
}

fn every() -> [(&'static str, Config); 6] {
    use CongestionControl::{Bbr, Bbr3, Cubic, NewReno, Reno};
    [
        ("reno", Config::linux(Reno)),
        ("newreno without sack", Config { sack: false, ..Config::linux(NewReno) }),
        ("newreno", Config::linux(NewReno)),
        ("cubic", Config::linux(Cubic)),
        ("bbr", Config::linux(Bbr)),
        ("bbr3", Config::linux(Bbr3)),
    ]
}

#[test]
fn every_algorithm_fills_a_clean_path() {
    for (name, config) in every() {
        // 20 Mbit/s, 40 ms round trip, 100 kB of queue: the product of both.
        let ways = [Way::clean(20, 20, 100_000), Way::clean(20, 20, 100_000)];
        let (goodput, counters, _) = bulk(config, ways, 20_000_000, 60);
        println!("{name}: {goodput:.2} Mbit/s, {counters:?}");
        // 1,448 of 1,500 bytes are payload.
        assert!(goodput < 20.0 * 1_448.0 / 1_500.0, "{name} beats the line: {goodput}");
        // A queue of one bandwidth-delay product keeps the line busy through a halving (RFC 5681 with a buffer of one
        // product); slow start and one repair of its overflow may cost a tenth. Without SACK that overflow is mended
        // one segment per round trip until the timer ends it (RFC 6582, section 4, "impatient"): a timeout of the 200 ms
        // floor and a round trip of 80 ms with the queue full, and seven round trips of 40 ms from one segment back to
        // the 67 that the path holds.
        let timeout = if name.contains("without") { 0.2 + 0.08 + 7.0 * 0.04 } else { 0.0 };
        let least = 160.0 / (160.0 / (0.9 * 20.0 * 1_448.0 / 1_500.0) + timeout);
        assert!(goodput > least, "{name}: {goodput}, wanted {least}");
        assert!(name.contains("without") || counters.timeouts == 0, "{name}: {counters:?}");
    }
}

/// The steady-state throughput of Padhye et al. (PFTK, 1998, equation 32, the full model, W_max large) in Mbit/s.
fn pftk(p: f64, rtt: f64, rto: f64, mss: f64, b: f64) -> f64 {
    let window = (2.0 + b) / (3.0 * b) + (8.0 * (1.0 - p) / (3.0 * b * p) + ((2.0 + b) / (3.0 * b)).powi(2)).sqrt();
    let still = 1.0 - p;
    let timeout_share =
        (1.0 - still.powi(3)) * (1.0 + still.powi(3) * (1.0 - still.powf(window - 3.0))) / (1.0 - still.powf(window));
    let timeout_share = timeout_share.min(1.0);
    let backed_off =
        1.0 + p + 2.0 * p.powi(2) + 4.0 * p.powi(3) + 8.0 * p.powi(4) + 16.0 * p.powi(5) + 32.0 * p.powi(6);
    let segments = still / p + window + timeout_share / still;
    let time = rtt * (b / 2.0 * window + 1.0) + timeout_share * rto * backed_off / still;
    mss * 8.0 * segments / time / 1e6
}

/// The formula describes the Reno of 1998: no SACK, no probes, no undo, growth per acknowledgement, and one
/// acknowledgement per two segments. So does this profile, but for NewReno's repair of several holes: the formula
/// takes all losses of a round for one.
#[test]
fn reno_follows_the_closed_form_under_random_loss() {
    // The formula has no beginning: where losses are rare, slow start's window takes several of them to wear off.
    for (num, den, octets) in [(1, 1_000, 160_000_000), (1, 100, 40_000_000), (5, 100, 40_000_000)] {
        let config = Config {
            sack: false,
            rack_tlp: false,
            prr: false,
            undo: false,
            slow_start_exit: SlowStartExit::Loss,
            byte_counting: false,
            quick_acks: 0,
            ..Config::linux(CongestionControl::NewReno)
        };
        let ways = [Way::clean(1_000, 20, 10_000_000).losing(num, den), Way::clean(1_000, 20, 10_000_000)];
        let (goodput, counters, world) = bulk(config, ways, octets, 900);
        let p = world.dropped as f64 / counters.segments as f64;
        let formula = pftk(p, 0.040, 0.240, 1_448.0, 2.0);
        println!("p = {p}: {goodput:.2} Mbit/s, PFTK {formula:.2}, {counters:?}");
        assert!((goodput / formula - 1.0).abs() < 0.3, "p = {p}: {goodput} against {formula}");
    }
}

#[test]
fn bbr_ignores_losses_that_are_not_its_doing_and_cubic_does_not() {
    let ways = [Way::clean(20, 50, 250_000).losing(1, 50), Way::clean(20, 50, 250_000)];
    let (bbr, counters, _) = bulk(Config::linux(CongestionControl::Bbr), ways, 20_000_000, 200);
    let (cubic, _, _) = bulk(Config::linux(CongestionControl::Cubic), ways, 5_000_000, 200);
    println!("2 % of 20 Mbit/s, 100 ms: bbr {bbr:.2}, cubic {cubic:.2} Mbit/s, {counters:?}");
    assert!(bbr > 13.0 && bbr < 19.4, "{bbr}");
    assert!(cubic < 4.0, "{cubic}");
}

#[test]
fn marks_keep_the_queue_short_without_losses() {
    let config = Config { ecn: true, ..Config::linux(CongestionControl::NewReno) };
    let marking = Way { mark_above: Some(60_000), ..Way::clean(20, 20, 400_000) };
    let (goodput, counters, world) = bulk(config, [marking, marking], 10_000_000, 60);
    assert_eq!((counters.retransmits, world.dropped), (0, 0), "{counters:?}");
    assert!(counters.marks > 0);
    // Halving from 160 kB in flight leaves the path of 100 kB idle for a while.
    assert!(goodput > 14.0, "{goodput}");
}

/// Three losses in one window: classic Reno waits for its timer, of a second or more, where SACK repairs within a round
/// trip (RFC 2018, section 1; RFC 6298, section 2.4).
#[test]
fn the_profile_of_2001_waits_for_its_timer() {
    let run = |config: Config| {
        let ways = [Way::clean(10, 20, 60_000), Way::clean(10, 20, 60_000)];
        let mut world = World::new([config.clone(), config], ways, 1);
        world.filter = Some(|side, segment, number| side == 0 && !segment.payload.is_empty() && number % 900 < 6);
        let flows = world.open(ms(10_000));
        let start = world.now;
        let end = world.transfer(flows, 0, 2_000_000, Instant::from_secs(300)).unwrap();
        (end.since(start), world.hosts[0].status(flows[0]).unwrap().counters)
    };
    let (old, counters) = run(Config::tcp_2001());
    let (new, today) = run(Config::default());
    println!("2001 {old}, today {new}, {counters:?}");
    assert!(counters.timeouts > 0 && today.timeouts == 0, "{counters:?} {today:?}");
    assert!(old >= new + Span::from_secs(counters.timeouts), "{old} against {new}, {counters:?}");
}

/// One segment in a hundred comes half a round trip late. The first such show it, by the timestamps that the originals
/// answer, and RACK waits for the others (RFC 8985, section 6.2): few are repeated, every reduction is taken back, and the
/// path stays full.
#[test]
fn late_segments_cause_few_retransmits() {
    use CongestionControl::{Bbr, Bbr3, Cubic, NewReno};
    for congestion in [NewReno, Cubic, Bbr, Bbr3] {
        let late =
            Way { swap: Ratio::new(1, 100).unwrap(), late: Span::from_millis(5), ..Way::clean(100, 5, 6_000_000) };
        let (goodput, counters, world) =
            bulk(Config::linux(congestion), [late, Way::clean(100, 5, 6_000_000)], 20_000_000, 60);
        println!("{congestion:?}: {goodput:.1} Mbit/s, {counters:?}");
        assert_eq!((world.dropped, counters.timeouts), (0, 0), "{congestion:?} {counters:?}");
        assert_eq!(counters.undone, counters.recoveries, "{congestion:?} {counters:?}");
        // Some 138 of 13,800 are late; the window takes a step of a quarter of the round trip for each round trip that
        // calls a repeat needless, and three steps are more than the lateness.
        assert!(counters.retransmits <= 138 / 4, "{congestion:?} {counters:?}");
        assert!(goodput > 80.0, "{congestion:?} {goodput}");
    }
}
