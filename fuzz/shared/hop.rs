//! A hostile but authenticated peer: arbitrary frames, fates and time at the block service, which owns two flows and takes
//! what else is offered. Each piece of 64 octets is a wait in milliseconds, what the owner does, and frames.

use wavelane_base::{Class, Instant, Octets, ReadOutcome, Span};
use wavelane_services::hop::{Datagram, Hop, HopConfig, HopEvent};
use wavelane_transport::RepairBudget;
use wavelane_wire::Writer;
use wavelane_wire::frame::Frames;

const POOL: u64 = 1 << 20;
const FLOWS_MAX: usize = 8;
/// What a flow may hold beyond its share of the pool: the floor of its credit.
const FLOOR: u64 = 8192;

/// Feeds `input`; panics if a bound or an invariant breaks. Returns how many flows the peer was given and how many octets it
/// brought to their readers.
pub(crate) fn feed(input: &[u8]) -> (u64, u64) {
    let mut reached = (0, 0);
    let mut hop = Hop::new(HopConfig { flows_max: FLOWS_MAX, pool: Octets::new(POOL), ..HopConfig::default() });
    let address = "10.0.0.1:80".parse().expect("an address");
    let mut now = Instant::from_secs(1);
    let mut names = Vec::new();
    for _ in 0..2 {
        let name = hop.open(now, address, address, None).expect("room for two");
        hop.write(now, name, &[7; 5000]);
        names.push(name);
    }
    let (mut flying, mut budget) = (Vec::new(), RepairBudget::default());
    for piece in input.chunks(64) {
        let (wait, act) = (piece[0], piece.get(1).copied().unwrap_or(0));
        now += Span::from_millis(u64::from(wait));
        hop.handle_timeout(now);
        assert!(hop.poll_timeout().is_none_or(|wakeup| wakeup.at > now), "a deadline of the past");
        for frame in Frames::new(piece.get(2..).unwrap_or(&[])).flatten() {
            hop.handle_frame(now, &frame);
        }
        while let Some(event) = hop.poll_event() {
            if let HopEvent::Incoming { flow, .. } = event {
                hop.accept(now, flow, None);
                names.push(flow);
                reached.0 += 1;
            }
        }
        let name = names[usize::from(act >> 3) % names.len()];
        match act & 7 {
            0 => drop(hop.write(now, name, &[9; 3000])),
            1 | 2 => {
                while let ReadOutcome::Data(n) = hop.read(now, name, &mut [0; 1500]) {
                    reached.1 += n as u64;
                }
            }
            3 => hop.shutdown(now, name),
            4 => hop.reset(name, wavelane_wire::frame::Reason::Aborted),
            _ => {}
        }
        let mut buf = [0; 1200];
        let mut w = Writer::new(&mut buf);
        hop.fill(now, Class::Bulk, &mut Datagram { w: &mut w, carried: &mut flying, open: None, budget: &mut budget });
        if let Some(carried) = (!flying.is_empty()).then(|| flying.swap_remove(usize::from(wait) % flying.len())) {
            if wait & 1 == 0 { hop.delivered(now, carried) } else { hop.lost(now, carried) }
        }
        let held = hop.status();
        assert!(held.flows <= FLOWS_MAX, "{held:?}");
        assert!(held.to_send + held.unread <= POOL + FLOWS_MAX as u64 * FLOOR, "{held:?}");
    }
    reached
}
