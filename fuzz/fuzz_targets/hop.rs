//! A hostile but authenticated peer: arbitrary frames, fates and time at the block service, which owns two flows.
#![no_main]
use libfuzzer_sys::fuzz_target;
use wavelane_base::{Class, Instant, Octets, Span};
use wavelane_protocol::hop::{Hop, HopConfig, HopEvent};
use wavelane_wire::Writer;
use wavelane_wire::frame::Frames;

const POOL: u64 = 1 << 20;
const FLOWS_MAX: usize = 8;

fuzz_target!(|input: &[u8]| {
    let mut hop = Hop::new(HopConfig { flows_max: FLOWS_MAX, pool: Octets::new(POOL) });
    let address = "10.0.0.1:80".parse().expect("an address");
    let mut now = Instant::from_secs(1);
    for _ in 0..2 {
        let name = hop.open(now, address, address, None).expect("room for two");
        hop.write(now, name, &[7; 5000]);
    }
    let mut flying = Vec::new();
    for piece in input.chunks(64) {
        now += Span::from_millis(u64::from(piece[0]));
        hop.handle_timeout(now);
        for frame in Frames::new(&piece[1..]).flatten() {
            hop.handle_frame(now, &frame);
        }
        while let Some(event) = hop.poll_event() {
            if let HopEvent::Incoming { flow, .. } = event {
                hop.accept(now, flow, None);
            }
        }
        let mut buf = [0; 1200];
        hop.fill(now, Class::Bulk, &mut Writer::new(&mut buf), &mut flying);
        if let Some(carried) = (!flying.is_empty()).then(|| flying.swap_remove(usize::from(piece[0]) % flying.len())) {
            if piece[0] & 1 == 0 { hop.delivered(now, carried) } else { hop.lost(now, carried) }
        }
        let held = hop.status();
        assert!(held.flows <= FLOWS_MAX && held.to_send + held.unread <= POOL + FLOWS_MAX as u64 * 8192);
    }
});
