//! The saturation model of Bianchi (IEEE JSAC 18, 2000) with a retry limit.

/// One physical layer as the model sees it, in microseconds.
pub(crate) struct Cell {
    pub(crate) slot: f64,
    pub(crate) sifs: f64,
    pub(crate) data: f64,
    pub(crate) ack: f64,
    pub(crate) cw_min: u32,
}

const CW_MAX: u32 = 1023;
/// Transmissions of one frame at most.
const TRIES: u32 = 7;

/// Chance that a station sends in a slot, if a frame collides with chance `p`.
fn tau(p: f64, cw_min: u32) -> f64 {
    let (mut sent, mut slots, mut reached) = (0.0, 0.0, 1.0);
    for stage in 0..TRIES {
        let window = f64::from(((cw_min + 1) << stage).min(CW_MAX + 1));
        sent += reached;
        slots += reached * ((window - 1.0) / 2.0 + 1.0);
        reached *= p;
    }
    sent / slots
}

/// Goodput in Mbit/s for `payload` bytes a frame, where a collision costs the frame and DIFS, and chance of collision.
pub(crate) fn saturation(stations: u32, cell: &Cell, payload: usize) -> (f64, f64) {
    let others = |tau: f64| 1.0 - (1.0 - tau).powi(stations as i32 - 1);
    let (mut low, mut high) = (0.0, 1.0 - 1e-12);
    for _ in 0..200 {
        let p = (low + high) / 2.0;
        if others(tau(p, cell.cw_min)) > p {
            low = p;
        } else {
            high = p;
        }
    }
    let (p, tau) = ((low + high) / 2.0, tau((low + high) / 2.0, cell.cw_min));
    let difs = cell.sifs + 2.0 * cell.slot;
    let busy = 1.0 - (1.0 - tau).powi(stations as i32);
    let success = f64::from(stations) * tau * (1.0 - tau).powi(stations as i32 - 1);
    let (good, bad) = (cell.data + cell.sifs + cell.ack + difs, cell.data + difs);
    let mean = (1.0 - busy) * cell.slot + success * good + (busy - success) * bad;
    (success * (payload * 8) as f64 / mean, p)
}

/// Goodput in Mbit/s of two classes of stations, of which the second waits `extra` slots longer than the first after
/// every busy period (the model of contention zones: Robinson and Randhawa, IEEE JSAC 22, 2004). A slot belongs to
/// the first class alone until `extra` idle ones have passed, then to both.
pub(crate) fn two_classes(stations: [u32; 2], cw_min: [u32; 2], extra: u32, cell: &Cell, payload: usize) -> [f64; 2] {
    let silent = |t: f64, n: u32| (1.0 - t).powi(n as i32);
    // Shares of the slots in the two zones, if the classes send with chances t.
    let zones = |t: [f64; 2]| {
        let (alone, both) = (silent(t[0], stations[0]), silent(t[0], stations[0]) * silent(t[1], stations[1]));
        let first: f64 = (0..extra).map(|i| alone.powi(i as i32)).sum();
        let second = alone.powi(extra as i32) / (1.0 - both);
        [first / (first + second), second / (first + second)]
    };
    let mut t = [0.05, 0.05];
    for _ in 0..20_000 {
        let zone = zones(t);
        let others = [silent(t[0], stations[0] - 1), silent(t[1], stations[1] - 1)];
        let p = [
            1.0 - zone[0] * others[0] - zone[1] * others[0] * silent(t[1], stations[1]),
            1.0 - others[1] * silent(t[0], stations[0]),
        ];
        for class in 0..2 {
            t[class] += 0.01 * (tau(p[class], cw_min[class]) - t[class]);
        }
    }
    let zone = zones(t);
    let one = |class: usize| f64::from(stations[class]) * t[class] * silent(t[class], stations[class] - 1);
    let idle = [silent(t[0], stations[0]), silent(t[0], stations[0]) * silent(t[1], stations[1])];
    let alone = [one(0), one(0) * silent(t[1], stations[1])];
    let low = one(1) * silent(t[0], stations[0]);
    let success = [zone[0] * alone[0] + zone[1] * alone[1], zone[1] * low];
    let idle = zone[0] * idle[0] + zone[1] * idle[1];
    let difs = cell.sifs + 2.0 * cell.slot;
    let (good, bad) = (cell.data + cell.sifs + cell.ack + difs, cell.data + difs);
    let won = success[0] + success[1];
    let mean = idle * cell.slot + won * good + (1.0 - idle - won) * bad;
    success.map(|s| s * (payload * 8) as f64 / mean)
}
