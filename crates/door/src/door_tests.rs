#![allow(clippy::unwrap_used, reason = "tests")]
use super::*;
use crate::far::FlowEvent;
use crate::own::OwnDoor;
use crate::pair::{Pair, PairConfig};
use wavelane_base::{Seed, Streams};

const NOW: Instant = Instant::ZERO;

fn ends() -> (SocketAddr, SocketAddr) {
    (SocketAddr::from(([10, 0, 0, 1], 40_000)), SocketAddr::from(([10, 9, 9, 2], 80)))
}

/// A SYN between [`ends`], as a packet.
fn packet() -> Vec<u8> {
    let mut packet = vec![0_u8; 40];
    packet[0] = 0x45;
    packet[3] = 40;
    packet[9] = 6;
    packet[32] = 0x50;
    packet[33] = 2;
    packet[12..16].copy_from_slice(&[10, 0, 0, 1]);
    packet[16..20].copy_from_slice(&[10, 9, 9, 2]);
    packet[20..22].copy_from_slice(&40_000_u16.to_be_bytes());
    packet[23] = 80;
    packet
}

/// A door on our own TCP, a pair with room for so many flows, and a connection of that TCP that is not the door's yet.
fn world(flows_max: usize) -> (OwnDoor, Pair, FlowId) {
    world_at(254, flows_max)
}

/// The same, of a door that connects from 10.0.0.`host`.
fn world_at(host: u8, flows_max: usize) -> (OwnDoor, Pair, FlowId) {
    let address = [10, 0, 0, host].into();
    let mut door = OwnDoor::on_own_tcp(NOW, address, wavelane_tcp::Config::default(), Seed(1).entropy("door"));
    let fresh = door.engine.connect(NOW, None, ends().1).unwrap();
    (door, Pair::new(PairConfig { flows_max, ..PairConfig::default() }), fresh)
}

/// Whether the engine still has the connection that [`world`] made.
fn lives(door: &mut OwnDoor) -> bool {
    let mut buf = [0; 2_000];
    // Its SYN first, then what follows.
    let sent: Vec<Vec<u8>> =
        core::iter::from_fn(|| door.poll_packet(NOW, &mut buf).map(|len| buf[..len].to_vec())).collect();
    !sent.is_empty()
}

#[test]
fn an_application_whose_flow_finds_no_room_is_reset() {
    for (room, stays) in [(1, true), (0, false)] {
        let (mut door, mut pair, fresh) = world(room);
        door.open_for(NOW, &mut pair, (), (), fresh, ends());
        assert_eq!((lives(&mut door), door.len()), (stays, room));
        assert_eq!(door.counts.get("dropped_syn_flow_table_full"), (!stays).then_some(&1));
    }
}

#[test]
fn only_a_connect_that_is_awaited_is_answered() {
    let (mut door, mut pair, fresh) = world(1);
    door.open_for(NOW, &mut pair, (), (), fresh, ends());
    assert!(matches!(pair.poll_event(), Some(FlowEvent::Incoming { .. })));
    let token = fresh.0;
    door.connected(NOW, &mut pair, token);
    assert_eq!((pair.poll_event(), door.stage(token)), (None, Some(Stage::Waiting)));
    assert_eq!(door.counts.get("connections_made"), None);
}

/// The server answers, writes, and resets, before the application's handshake has ended.
#[test]
fn last_bytes_are_looked_after_from_the_first_moment_of_a_connection() {
    let (mut door, mut pair, fresh) = world(1);
    let packet = packet();
    let syn = Syn::parse(&packet).unwrap();
    let held = door.take_syn(NOW, syn, packet).unwrap();
    door.ask(NOW, &mut pair, (), (), syn, held);
    let Some(FlowEvent::Incoming { flow: far, .. }) = pair.poll_event() else { panic!("no flow") };
    pair.accept(NOW, far);
    pair.write(NOW, far, b"last");
    pair.reset(NOW, far);
    while let Some(event) = pair.poll_event() {
        match event {
            FlowEvent::Accepted(flow) => door.accepted(NOW, flow),
            FlowEvent::Ending(flow) => door.flow_ending(NOW, flow),
            other => assert!(matches!(other, FlowEvent::Readable(_)), "{other:?}"),
        }
    }
    assert_eq!((door.pending(), door.deadline()), (1, None));
    assert_eq!(door.take(NOW, &mut pair, fresh, ends()), None);
    assert!(door.deadline().is_some(), "an application that reads nothing would keep it for ever");
}

#[test]
fn a_routers_message_is_the_doors_if_the_connection_is() {
    use wavelane_wire::icmp::TooBig;
    let (mut door, _, _) = world(1);
    let (mut syn, mut message) = ([0; 2_000], [0; 200]);
    let len = door.poll_packet(NOW, &mut syn).unwrap();
    let router = [10, 0, 0, 99].into();
    let told = TooBig::emit(router, 600, &syn[..len], &mut message).unwrap();
    assert!(door.is_about_ours(&message[..told]));
    assert!(!door.is_about_ours(&syn[..len]), "no message");
    let len = world_at(253, 1).0.poll_packet(NOW, &mut syn).unwrap();
    let told = TooBig::emit(router, 600, &syn[..len], &mut message).unwrap();
    assert!(!door.is_about_ours(&message[..told]), "another's connection");
}
