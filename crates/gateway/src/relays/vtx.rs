//! Virtual retransmission at a relay: a block that a node lost after it had receipted it is retransmitted by the nearest upstream node
//! that still has it.
//!
//! The edge that sent the bytes asks ([`crate::flows`]); every node that has the bytes asks the next one. A relay has what is in its
//! cache.

use super::{Net, Relays};
use crate::neighbours::Side;
use wavelane_base::RangeSet;

impl Relays {
    /// A relay is asked: it answers what it has, and asks the next node about what it has forwarded.
    pub(super) fn answer_vtx(&mut self, net: &mut Net, side: Side, other: Side, (start, end): (u64, u64)) {
        let passed_on = net.peers.blocks(side.0).taken(side.1);
        let receipted = net.peers.blocks(other.0).receipted(other.1);
        let mut here = self.cache.held(side, start, end.min(passed_on));
        put_custody(&mut here, receipted, passed_on);
        net.peers.blocks(side.0).answer_vtx(side.1, (start, end), &here);
        let onward = (start, end.min(passed_on));
        if onward.0 < onward.1 {
            self.waiting.insert(side, onward);
            self.ask_onward(net, side, other);
        }
        net.peers.touch(side.0);
    }

    /// Forwards an offer once the bytes are here: the next node may lack them.
    fn ask_onward(&mut self, net: &mut Net, side: Side, other: Side) {
        let Some(&(start, end)) = self.waiting.get(&side) else { return };
        let receipted = net.peers.blocks(other.0).receipted(other.1);
        let cached = self.cache.held(side, start, end.min(receipted));
        match onward(&cached, receipted, (start, end)) {
            Onward::Offer(end) => {
                net.peers.blocks(other.0).offer_vtx(other.1, start, end);
                net.peers.touch(other.0);
                self.waiting.remove(&side);
            }
            Onward::Nothing => {
                self.waiting.remove(&side);
            }
            Onward::Wait => {}
        }
    }

    /// Bytes that a relay lacked have arrived again.
    pub(super) fn keep_again(&mut self, net: &mut Net, side: Side, other: Side, offset: u64, bytes: &[u8]) {
        self.cache.keep(side, offset, bytes);
        self.ask_onward(net, side, other);
    }

    /// The node downstream of a relay, on `side`, lacks bytes that came from `other`.
    pub(super) fn send_again(&mut self, net: &mut Net, side: Side, other: Side, parts: &[(u64, u64)]) {
        for &(start, end) in parts {
            for (offset, mut bytes) in self.cache.read(other, start, end) {
                if let Some(tampering) = &mut self.tampering {
                    let most = bytes.len();
                    tampering.octets(side.0, &mut bytes);
                    bytes.truncate(most);
                }
                net.peers.blocks(side.0).send_again(side.1, offset, bytes);
            }
        }
        net.peers.touch(side.0);
    }
}

/// `here` holds the cached part of what a relay forwarded: adds the bytes in custody, which the next hop has not receipted.
fn put_custody(here: &mut RangeSet, receipted: u64, passed_on: u64) {
    here.insert(receipted, passed_on);
}

/// What a relay does with an offer.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Onward {
    /// The next hop is asked for the offered bytes up to here.
    Offer(u64),
    /// It has receipted none of them.
    Nothing,
    /// The relay lacks some of them itself, and asks once they have arrived again.
    Wait,
}

/// What a relay whose cache holds `cached` does with an offer, given how far the next hop has receipted.
fn onward(cached: &RangeSet, receipted: u64, (start, end): (u64, u64)) -> Onward {
    let end = end.min(receipted);
    match (start < end, start < end && cached.gaps(start, end).is_empty()) {
        (false, _) => Onward::Nothing,
        (true, true) => Onward::Offer(end),
        (true, false) => Onward::Wait,
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "a vector that cannot be read should stop the test")]
    use super::*;

    fn spans(text: &str) -> RangeSet {
        let mut set = RangeSet::default();
        for (first, end) in text.split(',').filter_map(|part| part.split_once('-')) {
            set.insert(first.parse().unwrap(), end.parse().unwrap());
        }
        set
    }

    /// The relay's lines of `vectors/blocks.txt`, which a second implementation in another language checks as well.
    #[test]
    fn golden_relay_answers() {
        let text = include_str!("../../../../vectors/blocks.txt");
        let mut checked = 0;
        for line in text.lines().filter(|line| line.starts_with("relay ")) {
            let words: Vec<&str> = line.split(' ').collect();
            let number = |i: usize| words[i].parse::<u64>().unwrap();
            let (passed_on, receipted, cached, start, end) =
                (number(1), number(2), spans(words[3]), number(4), number(4) + number(5));
            let mut here = cached.clone();
            put_custody(&mut here, receipted, passed_on);
            here.remove(0, start);
            here.remove(end.min(passed_on), u64::MAX);
            assert_eq!(here, spans(words[6]), "{line}");
            let expected = spans(words[7]).first();
            let asked = match onward(&cached, receipted, (start, end.min(passed_on))) {
                Onward::Offer(end) => Some((start, end)),
                Onward::Nothing | Onward::Wait => None,
            };
            assert_eq!(asked, expected, "{line}");
            checked += 1;
        }
        assert!(checked >= 7);
    }
}
