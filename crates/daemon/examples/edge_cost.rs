//! What a flow costs its two edges: `perf stat -e instructions:u target/release/examples/edge_cost MODE 400`, where the mode is
//! `plain` (neighbours that no other way joins), `kept` (another way may appear: each edge keeps what the other one has not) or
//! `sealed` (the same, sealed). 400 MB cross two gateways in one process, in chunks as the door moves them.
#![allow(
    clippy::unwrap_used,
    clippy::print_stdout,
    reason = "a program for developers; a case that cannot be set up stops it"
)]

use std::collections::VecDeque;
use wavelane_base::{FlowId, FrameMeta, Instant, Machine, PortId, ReadOutcome, Seed, Span, Streams};
use wavelane_door::Flows;
use wavelane_gateway::{
    Choice, Config, EdgeConfig, Gateway, GatewayEvent, LaneConfig, NextHop, PeerConfig, PeerId, Table,
};
use wavelane_transport::session::public_key;

/// As much as the door moves at once.
const CHUNK: usize = 64 << 10;
const DELAY: Span = Span::from_millis(1);

fn gateway(me: u8, address: &str, mode: &str) -> Gateway {
    let everything = || vec!["10.0.0.0/8".parse().unwrap()];
    let peer = 3 - me;
    let peers = vec![PeerConfig {
        name: format!("peer-{peer}"),
        public_key: public_key(&[peer; 32]),
        preshared_key: None,
        lanes: vec![LaneConfig::new(PortId(0), Some(address.parse().unwrap()))],
        choice: Choice::Bond,
        keepalive: None,
        allow_sources: Some(everything()),
        allow_targets: everything(),
        routes: if me == 1 { everything() } else { Vec::new() },
    }];
    let edge = EdgeConfig { name: "other".into(), public_key: public_key(&[peer; 32]), routes: everything() };
    let config = Config {
        private_key: [me; 32],
        peers,
        by_table: mode != "plain" && me == 1,
        seal: mode == "sealed",
        edges: if mode == "sealed" { vec![edge] } else { Vec::new() },
        aes_hardware: true,
        ..Config::default()
    };
    let mut gateway = Gateway::new(Instant::from_secs(1), config, 1, Seed(u64::from(me)).entropy("edge cost")).unwrap();
    if me == 1 {
        let mut table = Table::default();
        table.add("10.0.0.0/8".parse().unwrap(), &[NextHop::Address("192.0.2.2".parse().unwrap())]);
        gateway.set_table(Instant::from_secs(1), table);
    }
    gateway
}

/// Datagrams on their way: when each arrives, where, and how long its parts are.
type Pipe = VecDeque<(Instant, usize, usize, Vec<u8>)>;

fn main() {
    let arguments: Vec<String> = std::env::args().collect();
    let mode = arguments.get(1).map_or("sealed", String::as_str);
    let total = 1_000_000 * arguments.get(2).and_then(|text| text.parse().ok()).unwrap_or(400);
    let mut now = Instant::from_secs(1);
    let mut nodes = [gateway(1, "192.0.2.2:4780", mode), gateway(2, "192.0.2.1:4780", mode)];
    let addresses: [wavelane_base::Address; 2] = ["192.0.2.1:4780".parse().unwrap(), "192.0.2.2:4780".parse().unwrap()];
    let (mut pipe, mut buf) = (Pipe::new(), vec![0; CHUNK]);
    let (mut ours, mut theirs): (Option<FlowId>, Option<FlowId>) = (None, None);
    let (mut written, mut read, mut deliveries) = (0, 0, 0_u64);
    let data = vec![7; CHUNK];
    while read < total {
        for (side, node) in nodes.iter_mut().enumerate() {
            while let Some(out) = node.poll_transmit(now, PortId(0), &mut buf, 16) {
                let segment = out.segment_size.map_or(out.len, usize::from);
                pipe.push_back((now + DELAY, 1 - side, segment, buf[..out.len].to_vec()));
            }
            while let Some(event) = node.poll_event() {
                if let GatewayEvent::Incoming { flow, .. } = event {
                    node.accept(now, flow);
                    theirs = Some(flow);
                }
            }
        }
        if ours.is_none() && now > Instant::from_secs(2) {
            let (client, server) = ("10.0.1.2:40000".parse().unwrap(), "10.0.3.2:80".parse().unwrap());
            ours = Some(nodes[0].open(now, PeerId(0), client, server).unwrap());
        }
        if let Some(flow) = ours.filter(|_| theirs.is_some()) {
            while written < total {
                let room = nodes[0].room(now, flow).min(CHUNK).min(total - written);
                let taken = nodes[0].write(now, flow, &data[..room]);
                written += taken;
                if taken == 0 {
                    break;
                }
            }
        }
        if let Some(flow) = theirs {
            loop {
                let (front, back) = nodes[1].unread(now, flow);
                let octets = (front.len() + back.len()).min(CHUNK);
                if octets == 0 {
                    assert!(!matches!(nodes[1].read(now, flow, &mut [0]), ReadOutcome::Reset), "the flow was reset");
                    break;
                }
                nodes[1].consume(now, flow, octets);
                read += octets;
                deliveries += 1;
            }
        }
        let deadlines = nodes.iter().filter_map(|node| node.poll_timeout().map(|wakeup| wakeup.at));
        let next = deadlines.chain(pipe.front().map(|front| front.0)).min().unwrap();
        now = next.max(now);
        while pipe.front().is_some_and(|front| front.0 <= now) {
            let (_, to, segment, mut bytes) = pipe.pop_front().unwrap();
            let segment = (segment < bytes.len()).then_some(segment as u16);
            let meta = FrameMeta { rx_time: now, from: Some(addresses[1 - to]), segment, ..FrameMeta::default() };
            nodes[to].handle_frame(now, PortId(0), &mut bytes, meta);
        }
        nodes.iter_mut().for_each(|node| node.handle_timeout(now));
    }
    println!("{mode}: {read} octets in {deliveries} deliveries, {} ms simulated", now.as_nanos() / 1_000_000);
}
