//! The bytes of a session: what they cost and hide, that they follow from the dice, and a frozen handshake.

use super::*;

fn hex(bytes: &[u8]) -> String {
    bytes.iter().map(|b| format!("{b:02x}")).collect()
}

#[test]
fn a_sealed_datagram_costs_28_bytes_and_hides_its_payload() {
    let mut w = World::new(MS50);
    w.want(0);
    w.run(Span::from_millis(200));
    let sealed = w.nodes[0].seal(w.now, &[7; 1000]).unwrap();
    assert_eq!(sealed.len(), 1000 + DATA_HEADER_LEN + TAG_LEN);
    assert!(!sealed.windows(8).any(|b| b == [7; 8]));
    let mut forged = sealed.clone();
    forged[1] ^= 1; // the clear header is authenticated: another lane
    let now = w.now;
    let mut take = |mut bytes: Vec<u8>| w.nodes[1].sessions.handle_datagram(now, PORT, &mut bytes, None);
    assert_eq!(take(forged), Incoming::Dropped(DropReason::Forged));
    assert!(matches!(take(sealed.clone()), Incoming::Data { number: 1, newest: true, .. }));
    assert_eq!(take(sealed.clone()), Incoming::Dropped(DropReason::Replayed));
    let mut lane = sealed;
    lane[1] = LANES_MAX as u8;
    assert_eq!(take(lane), Incoming::Dropped(DropReason::Lane));
}

/// Two nodes with a session; whether each takes partly open datagrams.
fn met(overhear: [bool; 2]) -> World {
    let [a, b] = overhear;
    let configs = [SessionsConfig { overhear: a, ..config(0, 1) }, SessionsConfig { overhear: b, ..config(1, 1) }];
    let mut w = World::with(configs, MS50, 7);
    w.want(0);
    w.run(Span::from_millis(200));
    w
}

#[test]
fn open_octets_are_authentic_and_the_others_hidden() {
    let mut w = met([true; 2]);
    let plain = [&[7; 40][..], &[9; 900]].concat();
    let sealed = w.nodes[0].seal_partly(w.now, &plain, 900).unwrap();
    assert_eq!(sealed.len(), plain.len() + DATA_HEADER_LEN + 2 + TAG_LEN);
    assert!(!sealed.windows(8).any(|b| b == [7; 8]));
    assert_eq!(open_octets(&sealed), Ok(52..952));
    assert_eq!(sealed[52..952], [9; 900]);
    let now = w.now;
    let mut take = |bytes: &mut Vec<u8>| w.nodes[1].sessions.handle_datagram(now, PORT, bytes, None);
    // The header, what is sealed, what is open, its length, the tag; and another kind.
    for (at, flip) in [(1, 1), (20, 1), (52, 1), (951, 0x80), (953, 1), (953, 2), (954, 1), (969, 1), (0, 2)] {
        let mut forged = sealed.clone();
        forged[at] ^= flip;
        assert_eq!(take(&mut forged), Incoming::Dropped(DropReason::Forged), "octet {at}");
    }
    let mut genuine = sealed.clone();
    let Incoming::Data { payload, open, .. } = take(&mut genuine) else { panic!("refused") };
    assert_eq!(genuine[payload], plain);
    assert_eq!(open, Some(OpenOctets { len: 900, digest: digest_of(&[9; 900]) }));
    assert_eq!(take(&mut sealed.clone()), Incoming::Dropped(DropReason::Replayed));
    for len in 0..60 {
        let mut short = sealed[..len].to_vec();
        assert!(matches!(take(&mut short), Incoming::Dropped(_)), "{len} octets");
    }
    let all = w.nodes[0].seal_partly(now, &[5; 30], 30).unwrap();
    let Incoming::Data { open, .. } = w.nodes[1].sessions.handle_datagram(now, PORT, &mut all.clone(), None) else {
        panic!("a datagram may be open as a whole")
    };
    assert_eq!(open.map(|open| open.len), Some(30));
}

#[test]
fn nothing_is_open_unless_both_agree() {
    for overhear in [[true, false], [false, true], [false, false]] {
        let mut w = met(overhear);
        assert!(!w.nodes[0].sessions.overhears(0) && !w.nodes[1].sessions.overhears(0));
        let mut sealed = w.nodes[0].seal_partly(w.now, &[9; 500], 400).unwrap();
        assert!(!sealed.windows(8).any(|b| b == [9; 8]));
        assert_eq!((sealed[0], sealed.len()), (4, DATA_HEADER_LEN + 500 + TAG_LEN));
        let taken = w.nodes[1].sessions.handle_datagram(w.now, PORT, &mut sealed, None);
        assert!(matches!(taken, Incoming::Data { open: None, .. }), "{taken:?}");
    }
    assert!(met([true; 2]).nodes.iter().all(|node| node.sessions.overhears(0)));
}

#[test]
fn the_same_dice_give_the_same_bytes() {
    let run = |seed| {
        let mut w = World::with([config(0, 1), config(1, 1)], MS50, seed);
        w.want(0);
        w.want(1);
        for _ in 0..300 {
            w.send(0, b"x");
            w.run(Span::from_secs(1));
        }
        w.sent
    };
    assert!(run(1) == run(1));
    assert!(run(1) != run(2));
}

/// Frozen: a change here breaks every second implementation. `vectors/check_session.py` is one, written from
/// docs/protocol/session.md.
#[test]
fn golden_handshake() {
    assert_eq!(golden(false), include_str!("../../../../../../vectors/session-handshake.txt"));
    assert_eq!(golden(true), include_str!("../../../../../../vectors/session-open.txt"));
}

/// The vector; with partly open datagrams or without.
fn golden(overhear: bool) -> String {
    let preshared = [0x42; 32];
    let mut configs = [config(0, 0x1111), config(1, 0x2222)];
    configs.iter_mut().for_each(|c| c.peers[0].preshared_key = Some(preshared));
    configs.iter_mut().for_each(|c| c.overhear = overhear);
    let mut w = World::with(configs, MS50, 99);
    w.want(0);
    w.run(Span::from_millis(100));
    w.send(0, b"golden");
    w.run(MS50);
    w.send(1, b"vector");
    // The dice a node threw before its ephemeral key: the cookie secret and, for the initiator, an index.
    let ephemeral = |node: usize| {
        let mut dice = entropy(node, 99);
        let mut key = [0; 32];
        dice.fill(&mut key);
        if node == 0 {
            dice.next_u64();
        }
        dice.split().fill(&mut key);
        key
    };
    assert_eq!(public_key(&ephemeral(0)), w.sent[0].2[6..38], "the ephemeral key of the first message");
    assert_eq!(public_key(&ephemeral(1)), w.sent[1].2[10..42], "and of its answer");
    let mut text = String::from("# One session, both epochs and every secret given. All values are hexadecimal.\n");
    for (name, bytes) in [
        ("initiator_private", &private_key(0)[..]),
        ("responder_private", &private_key(1)),
        ("initiator_ephemeral", &ephemeral(0)),
        ("responder_ephemeral", &ephemeral(1)),
        ("preshared", &preshared),
        ("initiator_epoch", &0x1111u64.to_be_bytes()),
        ("responder_epoch", &0x2222u64.to_be_bytes()),
        ("init", &w.sent[0].2),
        ("response", &w.sent[1].2),
        ("data_confirm", &w.sent[2].2),
        ("data_forth", &w.sent[3].2),
        ("data_back", &w.sent[4].2),
        ("plain_forth", b"golden"),
        ("plain_back", b"vector"),
    ] {
        text += &format!("{name} = {}\n", hex(bytes));
    }
    if overhear {
        let open = w.nodes[0].seal_partly(w.now, b"frames, then octets", 6).unwrap();
        let last =
            [("capabilities", &3_u32.to_be_bytes()[..]), ("data_open", &open), ("plain_open", b"frames, then octets")];
        last.into_iter().for_each(|(name, bytes)| text += &format!("{name} = {}\n", hex(bytes)));
    }
    text
}
