//! Arbitrary bytes as an IP packet that passes through: what parses still parses after every edit of a router.

use wavelane_wire::packet::{IcmpError, Packet, answer, fragments_v4, mark_congestion, may_answer};

pub(crate) fn drive(input: &[u8]) {
    let Ok(view) = Packet::parse(input) else { return };
    let _ = (view.ports(), view.segment(), view.has_routable_addresses());
    for error in [IcmpError::NoRoute, IcmpError::TooBig(1280)] {
        if let Some(error) = answer(error, &view, view.target).filter(|_| may_answer(&view)) {
            assert!(!may_answer(&Packet::parse(&error).expect("an error is a packet")));
        }
    }
    for piece in fragments_v4(&view, 68).into_iter().flatten() {
        assert!(piece.len() <= input.len().max(68) && Packet::parse(&piece).is_ok());
    }
    let mut edited = view.to_owned();
    let _ = (edited.clamp_mss(1280), edited.decrement_hops());
    assert_eq!(Packet::parse(edited.bytes()), Ok(edited.view()));
    let mut marked = edited.into_bytes();
    mark_congestion(&mut marked);
    assert!(Packet::parse(&marked).is_ok_and(|marked| marked.bytes.len() == view.bytes.len()));
}
