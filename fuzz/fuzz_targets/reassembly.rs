//! A hostile but authenticated peer: arbitrary packet frames and time at the receiving end of the packet service.
#![no_main]
use libfuzzer_sys::fuzz_target;
use wavelane_base::{Instant, Span};
use wavelane_services::arq::{Receiver, ReceiverLimits};
use wavelane_wire::frame::{Frame, Frames};

const LIMITS: ReceiverLimits = ReceiverLimits { octets: 1 << 20, packet: 9_000 };

fuzz_target!(|input: &[u8]| {
    let (mut receiver, mut now) = (Receiver::new(LIMITS), Instant::from_secs(1));
    for chunk in input.chunks(64) {
        now += Span::from_millis(u64::from(chunk[0]));
        receiver.handle_timeout(now);
        for frame in Frames::new(&chunk[1..]).flatten() {
            match frame {
                Frame::Packet(frame) => receiver.handle(now, &frame),
                Frame::Compressed(frame) => receiver.handle_compressed(now, &frame),
                _ => {}
            }
        }
        assert!(receiver.octets() <= LIMITS.octets);
    }
    receiver.handle_timeout(now + Span::from_secs(10));
    while receiver.poll().is_some() {}
    assert_eq!((receiver.octets(), receiver.poll_timeout()), (0, None), "nothing stays");
});
