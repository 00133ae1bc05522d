//! What a hostile peer says of octets that the hub may have overheard, and the sealed flow that makes it listen.

use super::{Learnt, PAYLOAD_MAX, Source};
use std::net::SocketAddr;
use wavelane_base::Seed;
use wavelane_transport::seal::Asking;
use wavelane_transport::session::Statics;
use wavelane_wire::Writer;
use wavelane_wire::codec::VARINT_MAX;
use wavelane_wire::frame::{FlowName, Frame, HEARD_MAX, Open, Passage, Seal};
use wavelane_wire::parcel::flow_prologue;

impl Learnt {
    /// Asks for a flow to `target` that the edges with these keys seal.
    pub(crate) fn sealed_flow(&mut self, private: &[u8; 32], egress: &[u8; 32], target: SocketAddr) -> Vec<u8> {
        let mut buf = [0; PAYLOAD_MAX];
        let mut w = Writer::new(&mut buf);
        let from = SocketAddr::from(([10, 2, 0, 2], 4000));
        let mut token = [6; 16];
        token[..8].copy_from_slice(&self.next_flow.to_be_bytes());
        let mut dice = Seed(self.next_flow).entropy("sealed flow");
        let own = Statics::new(*private, []);
        let keys = Asking::new(&mut dice, &own, egress, &flow_prologue(&token, from, target), false).message();
        let passage = Passage { token, hops: 1, seal: Some(Seal::Keys(keys)), ..Passage::default() };
        self.at_end = 0;
        let flow = FlowName { mine: true, number: self.next_flow };
        self.next_flow = (self.next_flow + 1) % (VARINT_MAX >> 1);
        self.sealed = Some(flow);
        let open = Open { flow, source: from, target, credit: 1 << 20, passage: Some(passage) };
        Frame::Open(open).emit(&mut w).expect("room for one frame");
        let len = w.len();
        buf[..len].to_vec()
    }

    /// It may name these octets by their digest.
    pub(crate) fn may_name(&mut self, digest: [u8; 16], len: u64) {
        Self::keep(&mut self.overheard, &mut self.at, (digest, len));
    }

    /// Names what the hub may have overheard.
    pub(crate) fn names_overheard(&mut self, source: &mut Source<'_>) -> Vec<u8> {
        let mut buf = [0; PAYLOAD_MAX];
        let mut w = Writer::new(&mut buf);
        self.at_end = 0;
        for _ in 0..=source.below(4) {
            self.by_digest(source, &mut w);
        }
        let len = w.len();
        buf[..len].to_vec()
    }

    /// Bytes that the hub is to take from what it overheard.
    pub(super) fn by_digest(&mut self, source: &mut Source<'_>, w: &mut Writer<'_>) -> Option<()> {
        let flow = if source.byte() < 128 { self.sealed } else { None }.unwrap_or_else(|| self.name(source));
        let (digest, len) = source.pick(&self.overheard).unwrap_or(([source.byte(); 16], 300));
        let len = if source.byte() < 220 { len } else { 1 + self.number(source) % 5_000 };
        let next = self.offsets.get(&flow).map_or(0, |next| (*next).min(VARINT_MAX - 10_000));
        let offset = if source.byte() < 200 { next } else { self.number(source) };
        self.offsets.insert(flow, next + len);
        Frame::DataByDigest { flow, offset, len, digest }.emit(w).ok()
    }

    /// Digests of octets that somebody may have overheard, or nobody.
    pub(super) fn heard(&mut self, source: &mut Source<'_>, w: &mut Writer<'_>) -> Option<()> {
        let count = if source.byte() < 20 { HEARD_MAX } else { 1 + source.below(4) };
        let mut digests = Vec::new();
        for _ in 0..count {
            let (digest, _) = source.pick(&self.overheard).unwrap_or(([source.byte(); 16], 0));
            digests.extend(&digest[..8]);
        }
        Frame::Heard { digests: &digests }.emit(w).ok()
    }
}
