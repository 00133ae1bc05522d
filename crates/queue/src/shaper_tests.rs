//! The shaper against closed forms, and against a plain server behind the restatement of RFC 8290.

use super::rfc_tests::{Arrival, Fate, Item, Model, ROOMY, RefFq, arrivals, overload, reference_fq};
use super::*;
use proptest::prelude::*;
use wavelane_base::Rate;

const ROUND_TRIP: Span = Span::from_millis(100);

fn shaper(bps: u64, framing: Framing) -> Shaper<Item> {
    Shaper::new(Rate::from_bps(bps), framing, ROUND_TRIP, Tins::default(), ROOMY)
}

fn item(flow: u64, serial: u64, octets: usize) -> Item {
    Item { flow, serial, octets, ect: false, l4s: false, marked: false }
}

/// What a packet takes on the link, counted cell by cell.
fn on_the_link(octets: usize, framing: Framing) -> u64 {
    let mut left = (octets + usize::from(framing.overhead)).max(framing.least.into());
    let (cell, payload) = match framing.cells {
        Cells::None => return left as u64,
        Cells::Atm => (53, 48),
        Cells::Ptm => return (left + left.div_ceil(64)) as u64,
    };
    let mut sent = 0;
    while left > 0 {
        sent += cell;
        left = left.saturating_sub(payload);
    }
    sent
}

/// A server that sends one packet after the other, asked about at every event.
fn play_server(arrivals: &[Arrival], bps: u64, framing: Framing) -> Vec<Fate> {
    let (mut fates, mut at, mut free): (_, _, f64) = (Vec::new(), Instant::ZERO, 0.0);
    let mut fq: RefFq = reference_fq();
    let serve = |fq: &mut RefFq, until: Instant, free: &mut f64, fates: &mut Vec<Fate>| {
        while fq.waits() && Instant::from_nanos(*free as u64) <= until {
            let before = fates.len();
            fq.pop(Instant::from_nanos(*free as u64), fates);
            let sent = fates[before..].iter().find_map(|fate| match fate {
                Fate::Out { serial, .. } => Some(arrivals[*serial as usize].2),
                Fate::Dropped(_) => None,
            });
            *free += sent.map_or(0.0, |octets| on_the_link(octets, framing) as f64 * 8e9 / bps as f64);
        }
    };
    for (serial, (gap, flow, octets, ect, _)) in arrivals.iter().copied().enumerate() {
        at += Span::from_micros(gap);
        serve(&mut fq, at, &mut free, &mut fates);
        if !fq.waits() {
            free = free.max(at.as_nanos() as f64);
        }
        fq.push(at, Item { ect, ..item(flow, serial as u64, octets) }, &mut fates);
    }
    serve(&mut fq, at + Span::from_secs(60), &mut free, &mut fates);
    fates
}

fn play_shaper(arrivals: &[Arrival], mut shaper: Shaper<Item>) -> Vec<Fate> {
    let (mut fates, mut at) = (Vec::new(), Instant::ZERO);
    let serve = |shaper: &mut Shaper<Item>, until: Instant, fates: &mut Vec<Fate>| {
        while let Some(due) = shaper.due().filter(|due| *due <= until) {
            let popped = shaper.pop(due, &mut |item, _| fates.push(Fate::Dropped(item.serial)));
            fates.extend(popped.map(|p| Fate::Out { serial: p.item.serial, marked: p.item.marked }));
        }
    };
    for (serial, (gap, flow, octets, ect, _)) in arrivals.iter().copied().enumerate() {
        at += Span::from_micros(gap);
        serve(&mut shaper, at, &mut fates);
        shaper.push(at, Item { ect, ..item(flow, serial as u64, octets) }, &mut |item, _| {
            fates.push(Fate::Dropped(item.serial));
        });
    }
    serve(&mut shaper, at + Span::from_secs(60), &mut fates);
    fates
}

/// 8 Mbit/s, which is a whole number of nanoseconds per octet, so that a float's clock is exact.
const BPS: u64 = 8_000_000;
const ADSL: Framing = Framing { overhead: 32, least: 0, cells: Cells::Atm };
const VDSL: Framing = Framing { overhead: 30, least: 68, cells: Cells::Ptm };
const CABLE: Framing = Framing { overhead: 18, least: 64, cells: Cells::None };

proptest! {
    #![proptest_config(ProptestConfig::with_cases(48))]
    /// The same packets leave and are dropped, in the same order, whatever the link makes of them.
    #[test]
    fn a_shaper_is_a_server_behind_rfc_8290(arrivals in arrivals(), which in 0usize..4) {
        let framing = [Framing::default(), ADSL, VDSL, CABLE][which];
        prop_assert_eq!(play_shaper(&arrivals, shaper(BPS, framing)), play_server(&arrivals, BPS, framing));
    }

    /// A backlog leaves at the rate, to the nanosecond, whatever the rate.
    #[test]
    fn the_rate_is_exact(bps in 100_000u64..1_000_000_000, sizes in proptest::collection::vec(40usize..1500, 1..60)) {
        for framing in [Framing::default(), ADSL, VDSL] {
            let mut shaper = shaper(bps, framing);
            // One flow each, so that nothing stands long enough to be dropped, and none before another.
            for (serial, octets) in sizes.iter().enumerate() {
                shaper.push(Instant::from_secs(1), item(serial as u64, serial as u64, *octets), &mut |_, _| ());
            }
            let mut sent = 0u128;
            while let Some(due) = shaper.due() {
                let expected = 1_000_000_000 + sent * 8_000_000_000 / u128::from(bps);
                prop_assert_eq!(u128::from(due.as_nanos()), expected);
                let popped = shaper.pop(due, &mut |_, _| ()).expect("due");
                sent += u128::from(on_the_link(popped.item.octets, framing));
            }
        }
    }
}

#[test]
fn the_comparison_meets_drops() {
    let fates = play_shaper(&overload(false, false), shaper(BPS, ADSL));
    assert!(fates.iter().filter(|fate| matches!(fate, Fate::Dropped(_))).count() > 50);
}

/// Full packets and bare acknowledgements over PPPoE on ADSL, 40 octets of overhead: 33 cells and 2.
#[test]
fn cells_are_counted_as_the_link_counts_them() {
    let pppoe = Framing { overhead: 40, least: 0, cells: Cells::Atm };
    assert_eq!((pppoe.octets(1_500).get(), pppoe.octets(40).get()), (33 * 53, 2 * 53));
    assert_eq!((VDSL.octets(1_500).get(), VDSL.octets(1).get()), (1_530 + 24, 68 + 2));
    assert_eq!((CABLE.octets(1_500).get(), CABLE.octets(20).get()), (1_518, 64));
}

/// Woken every 4 ms only, it has sent what a punctual one would have, less what came due since.
#[test]
fn one_that_is_served_late_keeps_its_rate() {
    let mut late = shaper(6_000_000, Framing::default());
    let (mut sent, mut serial) = (0u64, 0u64);
    for ms in (0..10_000u64).step_by(4) {
        let now = Instant::from_millis(ms);
        while late.len() < 20 {
            late.push(now, item(serial % 7, serial, 1_500), &mut |_, _| ());
            serial += 1;
        }
        while let Some(popped) = late.pop(now, &mut |_, _| ()) {
            sent += popped.item.octets as u64;
        }
    }
    assert!((7_500_000 - 4 * 1_500..=7_500_000).contains(&sent), "{sent}");
}

/// Nothing is saved up while nothing waits: of two packets after a pause the second leaves a packet's time later.
#[test]
fn unused_time_is_no_burst() {
    let mut shaper = shaper(12_000_000, Framing::default());
    for second in 0..3 {
        let now = Instant::from_secs(second);
        (0..2).for_each(|n| shaper.push(now, item(n, n, 1_500), &mut |_, _| ()));
        assert!(shaper.pop(now, &mut |_, _| ()).is_some() && shaper.pop(now, &mut |_, _| ()).is_none());
        assert_eq!(shaper.due(), Some(now + Span::from_millis(1)));
        assert!(shaper.pop(now + Span::from_millis(1), &mut |_, _| ()).is_some());
    }
}

/// A sparse flow's packet passes a standing queue: it waits for the packet in service and one turn at the most.
#[test]
fn a_sparse_flow_goes_first() {
    let mut shaper = shaper(6_000_000, Framing::default());
    let (mut waits, mut bulk) = (Vec::new(), 0u64);
    for tenth_ms in 0..50_000u64 {
        let now = Instant::from_micros(tenth_ms * 100);
        // Bulk of twice the rate, and a ping every 50 ms.
        if tenth_ms % 10 == 0 {
            shaper.push(now, item(0, bulk, 1_500), &mut |_, _| ());
            bulk += 1;
        }
        if tenth_ms % 500 == 7 {
            shaper.push(now, item(1, tenth_ms, 64), &mut |_, _| ());
        }
        while let Some(popped) = shaper.pop(now, &mut |_, _| ()) {
            if popped.item.flow == 1 {
                waits.push(popped.sojourn);
            }
        }
    }
    assert!(waits.len() >= 99 && shaper.len() > 100, "{} {}", waits.len(), shaper.len());
    assert!(waits.iter().all(|wait| *wait <= Span::from_micros(4_100)), "{:?}", waits.iter().max());
}

/// On a slow link a packet's own time is no standing queue (RFC 8289, section 4.3): 1,514 octets at 512 kbit/s are 24 ms.
#[test]
fn a_slow_links_own_time_is_not_taken_for_a_queue() {
    let mut slow = shaper(512_000, Framing::default());
    let mut serial = 0;
    for _ in 0..2_000 {
        // Two packets of one flow wait at any time: a window of two.
        let now = slow.due().unwrap_or(Instant::ZERO);
        while slow.len() < 2 {
            slow.push(now, item(0, serial, 1_500), &mut |_, _| ());
            serial += 1;
        }
        slow.pop(slow.due().expect("full"), &mut |_, _| ());
    }
    assert_eq!(slow.counters().dropped_delay, 0);
}

#[test]
fn a_change_of_rate_holds_from_the_next_packet_on() {
    let mut shaper = shaper(12_000_000, Framing::default());
    (0..4).for_each(|n| shaper.push(Instant::ZERO, item(0, n, 1_500), &mut |_, _| ()));
    shaper.pop(Instant::ZERO, &mut |_, _| ());
    shaper.set_rate(Rate::from_bps(1_200_000));
    shaper.pop(Instant::from_millis(1), &mut |_, _| ());
    assert_eq!(shaper.due(), Some(Instant::from_millis(11)));
    shaper.set_rate(Rate::from_bps(0));
    assert_eq!(shaper.rate(), RATE_MIN);
}
