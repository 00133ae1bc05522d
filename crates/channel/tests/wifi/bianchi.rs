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
