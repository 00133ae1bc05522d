//! Saturated cells: frozen tables, each beside its bound. `docs/models/wifi.md` and `docs/results/wifi.md` reprint the rows.

use super::bianchi::{Cell, saturation};
use super::drive::*;
use wavelane_base::Span;
use wavelane_channel::wifi::{BusySlot, Phy, Rules, WifiConfig};

const WARM: Span = Span::from_secs(1);
const MEASURED: Span = Span::from_secs(20);
const PAGES: [&str; 2] =
    [include_str!("../../../../../docs/models/wifi.md"), include_str!("../../../../../docs/results/wifi.md")];

/// Every row must stand in one of the pages as it is; a row that has changed is printed.
pub(crate) fn reprinted(rows: &[String]) {
    for row in rows {
        println!("{row}");
    }
    let missing: Vec<_> = rows.iter().filter(|row| !PAGES.iter().any(|page| page.contains(row.as_str()))).collect();
    assert!(missing.is_empty(), "neither docs/models/wifi.md nor docs/results/wifi.md holds these rows:\n{missing:#?}");
}

fn runs(seeds: u64, config: &WifiConfig, senders: usize) -> Vec<Outcome> {
    (1..=seeds).map(|seed| saturate(seed, config, &uplink(senders), WARM, MEASURED)).collect()
}
fn mean_of(outcomes: &[Outcome], what: impl Fn(&Outcome) -> f64) -> (f64, f64) {
    interval(&outcomes.iter().map(what).collect::<Vec<_>>())
}

/// Bianchi's model against the machine under the model's own assumptions, for three PHYs and 1 to 50 stations: the bound
/// demanded is 3 %, held here is 1 %. `standard` is another machine and stands beside it with a bound of its own; what
/// parts the two is shown by the test after this one.
#[test]
fn bianchi() {
    let cells = [
        ("802.11a 54", OFDM_54, None, Cell { slot: 9.0, sifs: 16.0, data: 248.0, ack: 28.0, cw_min: 15 }, 0.03),
        ("802.11b 11", HR_11, Some(110), Cell { slot: 20.0, sifs: 10.0, data: 1310.0, ack: 203.0, cw_min: 31 }, 0.03),
        // Slots of 20 us beside frames of 254 us: what a busy slot counts for weighs more.
        ("802.11g 54", ERP_54, None, Cell { slot: 20.0, sifs: 10.0, data: 254.0, ack: 34.0, cw_min: 15 }, 0.04),
    ];
    let mut rows = Vec::new();
    for (name, phy, answer, model, bound_standard) in cells {
        for stations in [1, 2, 3, 5, 8, 10, 20, 30, 50] {
            // The largest cells take most of the time: in `make test-all`.
            if stations > 20 && std::env::var_os("WAVELANE_TEST_ALL").is_none() {
                continue;
            }
            let (expected, p) = saturation(stations, &model, PAYLOAD);
            let run = |seeds, rules| {
                let config = WifiConfig { answer_rate: answer.map(mbit), ..cell(phy, rules, stations as usize + 1) };
                runs(seeds, &config, stations as usize)
            };
            let (own, standard) = (run(4, Rules::bianchi_2000()), run(2, Rules::standard()));
            let ((own, _), (own_p, half_p)) = (mean_of(&own, Outcome::mbps), mean_of(&own, Outcome::p_coll));
            let (standard, _) = mean_of(&standard, Outcome::mbps);
            let off = |value: f64| (value / expected - 1.0) * 100.0;
            rows.push(format!(
                "| {name} | {stations} | {expected:.3} | {own:.3} | {:+.2} | {p:.4} | {own_p:.4} | {standard:.3} | {:+.2} |",
                off(own),
                off(standard)
            ));
            assert!(off(own).abs() < 1.0, "{rows:#?}");
            // The model's stations are independent, which two or three are not.
            let bound_p = if stations < 5 { 0.07 } else { 0.03 };
            assert!((own_p - p).abs() <= bound_p * p + half_p + 1e-9, "{rows:#?}");
            assert!(off(standard).abs() < bound_standard * 100.0, "{rows:#?}");
        }
    }
    reprinted(&rows);
}

/// The standard's 802.11g misses the model by more than 3 % at three to eight stations because a busy slot does not
/// count in its back-off: with that one switch set as the model has it, it is within 3 %.
#[test]
fn the_busy_slot_parts_the_standard_from_the_model() {
    let model = Cell { slot: 20.0, sifs: 10.0, data: 254.0, ack: 34.0, cw_min: 15 };
    let counted = Rules { busy_slot: BusySlot::Counts, ..Rules::standard() };
    let mut rows = Vec::new();
    for stations in [3, 5, 8] {
        let (expected, _) = saturation(stations, &model, PAYLOAD);
        let off = |rules| {
            let outcomes = runs(2, &cell(ERP_54, rules, stations as usize + 1), stations as usize);
            (mean_of(&outcomes, Outcome::mbps).0 / expected - 1.0) * 100.0
        };
        let (frozen, counts) = (off(Rules::standard()), off(counted));
        rows.push(format!("| 802.11g 54 | {stations} | {frozen:+.2} | {counts:+.2} |"));
        assert!(counts.abs() < 3.0 && counts.abs() < frozen.abs(), "{rows:#?}");
    }
    reprinted(&rows);
}

/// What ns-3 3.44 gives (five runs, mean and half width of the 95 % interval): PHY, stations, Mbit/s, chance of
/// collision, attempts a second, drops a second. `benches/ns3/dcf_sat.cc` is the program.
type Row = ((Phy, u64), &'static str, usize, [(f64, f64); 4]);
const NS3: [Row; 9] = [
    (HR_11, "802.11b 11", 1, [(6.2549, 0.013), (0.0, 0.0), (531.12, 1.1), (0.0, 0.0)]),
    (HR_11, "802.11b 11", 5, [(6.4853, 0.015), (0.1762, 0.0024), (668.42, 0.71), (0.0, 0.0)]),
    (HR_11, "802.11b 11", 10, [(6.2071, 0.04), (0.2795, 0.0092), (731.6, 4.6), (0.1, 0.12)]),
    (HR_11, "802.11b 11", 50, [(5.1576, 0.028), (0.5255, 0.0051), (923.0, 5.3), (5.3, 0.54)]),
    (OFDM_54, "802.11a 54", 1, [(29.934, 0.03), (0.0, 0.0), (2541.9, 2.6), (0.0, 0.0)]),
    (OFDM_54, "802.11a 54", 2, [(30.198, 0.065), (0.1109, 0.0023), (2884.3, 1.4), (0.0, 0.0)]),
    (OFDM_54, "802.11a 54", 10, [(27.613, 0.12), (0.3625, 0.0062), (3678.5, 21.0), (3.04, 0.64)]),
    (OFDM_54, "802.11a 54", 20, [(25.621, 0.079), (0.4651, 0.0027), (4067.8, 12.0), (12.7, 1.9)]),
    (ERP_54, "802.11g 54", 1, [(23.658, 0.065), (0.0, 0.0), (2009.0, 5.5), (0.0, 0.0)]),
];

/// Goodput, chance of collision and attempts within 2 % of ns-3; drops within 10 % or the two intervals.
#[test]
fn ns3() {
    let mut rows = Vec::new();
    for (phy, name, stations, [mbps, p, attempts, drops]) in NS3 {
        let ours = runs(10, &cell(phy, Rules::ns3_3_44(), stations + 1), stations);
        let figures = [
            ("Mbit/s", mbps, mean_of(&ours, Outcome::mbps)),
            ("p_coll", p, mean_of(&ours, Outcome::p_coll)),
            ("attempts/s", attempts, mean_of(&ours, Outcome::attempts_per_s)),
        ];
        for (what, (expected, half), (mean, own_half)) in figures {
            let off = if expected > 0.0 { (mean / expected - 1.0) * 100.0 } else { 0.0 };
            rows.push(format!(
                "| {name} | {stations} | {what} | {expected} +- {half} | {mean:.4} +- {own_half:.4} | {off:+.2} |"
            ));
            assert!((mean - expected).abs() <= 0.02 * expected, "{rows:#?}");
            assert!(own_half <= 0.02 * expected, "too few runs to tell: {rows:#?}");
        }
        let (mean, own_half) = mean_of(&ours, Outcome::drops_per_s);
        rows.push(format!(
            "| {name} | {stations} | drops/s | {} +- {} | {mean:.4} +- {own_half:.4} | |",
            drops.0, drops.1
        ));
        assert!((mean - drops.0).abs() <= (0.1 * drops.0).max(drops.1 + own_half), "{rows:#?}");
    }
    reprinted(&rows);
}
