//! What opens, what does not, and the golden vector.

use super::*;
use crate::session::public_key;
use proptest::prelude::*;
use wavelane_base::Seed;
use wavelane_wire::frame::PARCEL_MAX;
use wavelane_wire::parcel::flow_prologue;

const INGRESS: [u8; 32] = [0x11; 32];
const EGRESS: [u8; 32] = [0x22; 32];

fn prologue(token: u8) -> Vec<u8> {
    let address = |text: &str| text.parse().expect("an address");
    flow_prologue(&[token; 16], address("10.0.0.10:40000"), address("[2001:db8::9]:80"))
}

/// Of a gateway that knows both edges.
fn own(private: [u8; 32]) -> Arc<Statics> {
    Statics::new(private, [INGRESS, EGRESS].map(|key| public_key(&key)))
}

fn dice(name: &str) -> Entropy {
    Seed(1).entropy(name)
}

fn agreed(aes: [bool; 2]) -> (FlowKeys, FlowKeys) {
    let mut asking = Asking::new(&mut dice("ingress"), &own(INGRESS), &public_key(&EGRESS), &prologue(7), aes[0]);
    let asked = Asked::read(&mut dice("egress"), &own(EGRESS), &prologue(7), aes[1], &asking.message());
    let asked = asked.expect("it is for us");
    assert_eq!(asked.caller(), public_key(&INGRESS));
    let (answer, theirs) = asked.agree();
    (asking.agree(&answer).expect("it is the egress's"), theirs)
}

fn sealed(keys: &mut FlowKeys, plain: &[u8]) -> Vec<u8> {
    let mut out = Vec::new();
    let mut from = 0;
    while from < plain.len() {
        from += keys.seal(&plain[from..], &mut out);
    }
    out
}

/// Opens until the octets are used up, or why not.
fn open_all(keys: &mut FlowKeys, mut bytes: &[u8]) -> Result<Vec<u8>, Opened> {
    let mut plain = Vec::new();
    while !bytes.is_empty() {
        match keys.open((bytes, &[]), &mut plain) {
            Opened::Bytes(whole) | Opened::End(whole) => bytes = &bytes[whole..],
            other => return Err(other),
        }
    }
    Ok(plain)
}

#[test]
fn both_directions_open_at_the_other_edge_under_either_cipher() {
    for aes in [[true, true], [true, false], [false, true], [false, false]] {
        let (mut ingress, mut egress) = agreed(aes);
        let plain: Vec<u8> = (0..10_000u32).map(|i| i as u8).collect();
        let bytes = sealed(&mut ingress, &plain);
        assert_eq!(bytes.len(), plain.len() + 3 * PARCEL_OVERHEAD, "cut into parcels of at most {PARCEL_MAX}");
        assert_eq!(open_all(&mut egress, &bytes), Ok(plain.clone()));
        assert!(bytes.windows(16).all(|window| window != &plain[..16]), "nothing of it is in the clear");
        let bytes = sealed(&mut egress, b"answer");
        assert_eq!(open_all(&mut ingress, &bytes), Ok(b"answer".to_vec()));
    }
}

#[test]
fn a_handshake_is_for_one_flow_one_egress_and_one_ingress() {
    let mut asking = Asking::new(&mut dice("ingress"), &own(INGRESS), &public_key(&EGRESS), &prologue(7), true);
    let read = |private: &[u8; 32], token: u8, message: &[u8; OPEN_KEYS_LEN]| {
        Asked::read(&mut dice("egress"), &own(*private), &prologue(token), true, message)
    };
    assert!(read(&EGRESS, 8, &asking.message()).is_err(), "another flow");
    assert!(read(&INGRESS, 7, &asking.message()).is_err(), "another egress");
    for at in 0..OPEN_KEYS_LEN {
        let mut message = asking.message();
        message[at] ^= 1;
        assert!(read(&EGRESS, 7, &message).is_err(), "octet {at} changed");
    }
    let (answer, _) = read(&EGRESS, 7, &asking.message()).expect("it is for us").agree();
    for at in 0..ANSWER_KEYS_LEN {
        let mut changed = answer;
        changed[at] ^= 1;
        assert!(asking.agree(&changed).is_none(), "octet {at} changed");
    }
    assert!(asking.agree(&answer).is_some(), "what was forged before does no harm");
}

#[test]
fn the_end_is_a_parcel_and_nothing_follows_it() {
    let (mut ingress, mut egress) = agreed([true, true]);
    let mut bytes = sealed(&mut ingress, b"all");
    ingress.seal(&[], &mut bytes);
    assert_eq!(open_all(&mut egress, &bytes[..21]), Ok(b"all".to_vec()));
    assert!(!egress.has_ended(), "cut off in front of the end");
    assert_eq!(egress.open((&bytes[21..], &[]), &mut Vec::new()), Opened::End(PARCEL_OVERHEAD));
    assert!(egress.has_ended());
    assert_eq!(egress.open((&bytes[..21], &[]), &mut Vec::new()), Opened::Foreign);
}

#[test]
fn sealed_words_are_accepted_once_and_unchanged() {
    let (mut ingress, mut egress) = agreed([false, true]);
    let reach = |received| Reach { received, finished: false };
    let first = egress.word(WordIn::Progress, reach(10));
    let second = egress.word(WordIn::Open(3), reach(20));
    assert_eq!(ingress.hear(WordIn::Progress, reach(11), first), Heard::Forged);
    assert_eq!(ingress.hear(WordIn::Answer, reach(10), first), Heard::Forged);
    assert_eq!(ingress.hear(WordIn::Open(4), reach(20), second), Heard::Forged);
    assert_eq!(ingress.hear(WordIn::Open(3), reach(20), second), Heard::News);
    assert_eq!(ingress.hear(WordIn::Progress, reach(10), first), Heard::Old);
    assert_eq!(ingress.hear(WordIn::Open(3), reach(20), second), Heard::Old);
    let own = ingress.word(WordIn::Progress, reach(10));
    assert_eq!(ingress.hear(WordIn::Progress, reach(10), own), Heard::Forged, "our own, sent back to us");
}

proptest! {
    /// A relay may cut where it likes, and gains nothing by changing, leaving out, doubling or exchanging octets.
    #[test]
    fn altered_parcels_do_not_open(
        lengths in proptest::collection::vec(1usize..200, 2..6),
        split in any::<prop::sample::Index>(),
        fault in 0..4u8,
        at in any::<prop::sample::Index>(),
        bit in 0..8u8,
    ) {
        let (mut ingress, mut egress) = agreed([true, true]);
        let parcels: Vec<Vec<u8>> = lengths.iter().map(|n| sealed(&mut ingress, &vec![*n as u8; *n])).collect();
        let honest = parcels.concat();
        // Of two parts, wherever they meet.
        let cut = split.index(honest.len());
        let (mut reader, first) = (agreed([true, true]).1, parcels[0].len());
        let mut plain = vec![9];
        let whole = reader.open((&honest[..cut], &honest[cut..]), &mut plain);
        prop_assert_eq!(whole, Opened::Bytes(first));
        prop_assert_eq!(plain.split_off(1), vec![lengths[0] as u8; lengths[0]]);
        let mut tampered = parcels.clone();
        let place = at.index(parcels.len() - 1);
        match fault {
            0 => {
                let octet = at.index(tampered[place].len());
                tampered[place][octet] ^= 1 << bit;
            }
            1 => drop(tampered.remove(place)),
            2 => tampered.insert(place, parcels[place].clone()),
            _ => tampered.swap(place, place + 1),
        }
        let tampered = tampered.concat();
        prop_assert_ne!(&tampered, &honest);
        prop_assert!(matches!(open_all(&mut egress, &tampered), Err(Opened::Foreign | Opened::Part)));
    }
}

fn hex(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}

/// `vectors/check_parcels.py` makes the same from the page alone.
#[test]
fn golden_vector() {
    let mut text = String::from(
        "# One sealed flow under each cipher, every secret given: docs/protocol/parcels.md. All values are hexadecimal; the two\n\
         # ephemeral keys are private ones. Words: progress (3 octets, the end), open (3 octets, attempt 2), answer (0 octets).\n",
    );
    let ephemeral = |name: &str| {
        let mut key = [0; 32];
        dice(name).fill(&mut key);
        Entropy::from_os_bytes(key).fill(&mut key);
        key
    };
    for (cipher, aes) in [("chacha", false), ("aes", true)] {
        let mut asking = Asking::new(&mut dice("ingress"), &own(INGRESS), &public_key(&EGRESS), &prologue(7), aes);
        let open = asking.message();
        let asked = Asked::read(&mut dice("egress"), &own(EGRESS), &prologue(7), aes, &open).expect("it is for us");
        let (answer, mut egress) = asked.agree();
        let mut ingress = asking.agree(&answer).expect("it is the egress's");
        assert_eq!(public_key(&ephemeral("ingress")), open[..32]);
        assert_eq!(public_key(&ephemeral("egress")), answer[..32]);
        let (mut forth, mut back) = (Vec::new(), Vec::new());
        ingress.seal(b"golden", &mut forth);
        ingress.seal(&[0x55; 300], &mut forth);
        ingress.seal(&[], &mut forth);
        egress.seal(b"vector", &mut back);
        let words = [
            (WordIn::Progress, Reach { received: 3, finished: true }),
            (WordIn::Open(2), Reach { received: 3, finished: false }),
            (WordIn::Answer, Reach::default()),
        ];
        let words = words.map(|(place, reach)| egress.word(place, reach).tag);
        for (name, bytes) in [
            ("ingress_private", &INGRESS[..]),
            ("egress_private", &EGRESS),
            ("ingress_ephemeral", &ephemeral("ingress")),
            ("egress_ephemeral", &ephemeral("egress")),
            ("prologue", &prologue(7)),
            ("open", &open),
            ("answer", &answer),
            ("forth", &forth),
            ("back", &back),
            ("words", &words.concat()),
        ] {
            text += &format!("{cipher}_{name} = {}\n", hex(bytes));
        }
    }
    assert_eq!(text, include_str!("../../../vectors/parcels.txt"), "\n{text}");
}
