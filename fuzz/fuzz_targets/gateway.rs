//! Strangers: arbitrary datagrams and time at a whole gateway. None may draw more than its share of answers.
#![no_main]
use libfuzzer_sys::fuzz_target;
use wavelane_base::{FrameMeta, Instant, Machine, PortId, Seed, Span};
use wavelane_protocol::gateway::{Config, Gateway};

fuzz_target!(|input: &[u8]| {
    let config = Config { private_key: [1; 32], ..Config::default() };
    let mut now = Instant::from_secs(1);
    let mut gateway = Gateway::new(now, config, 1, Seed(1).entropy("fuzz")).expect("a valid configuration");
    let from = Some("192.0.2.1:4780".parse().expect("an address"));
    let mut buf = [0; 2048];
    for piece in input.chunks(160) {
        now += Span::from_millis(u64::from(piece[0]));
        gateway.handle_timeout(now);
        let meta = FrameMeta { rx_time: now, from, ..FrameMeta::default() };
        gateway.handle_frame(now, PortId(0), &mut piece[1..].to_vec(), meta);
        let answers = core::iter::from_fn(|| gateway.poll_transmit(now, PortId(0), &mut buf, 1)).count();
        assert!(answers <= 1, "{answers} answers to one stranger's datagram");
        while gateway.poll_event().is_some() {}
    }
});
