//! The fields frames are made of: flow names, ranges, addresses, flags.

use super::{FlowName, Passage, RANGES_MAX, Ranges, Reach, Seal, Word};
use crate::codec::{DecodeError, NoRoom, Reader, Writer};
use crate::datagram::NUMBER_MAX;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};

impl FlowName {
    pub(super) fn parse(r: &mut Reader<'_>) -> Result<Self, DecodeError> {
        let n = r.varint()?;
        Ok(Self { mine: n & 1 == 1, number: n >> 1 })
    }
    pub(super) fn emit(self, w: &mut Writer<'_>) -> Result<(), NoRoom> {
        w.varint(self.number << 1 | u64::from(self.mine))
    }
    /// The same flow as the other side names it.
    pub fn from_other_side(self) -> Self {
        Self { mine: !self.mine, ..self }
    }
}

impl Passage {
    pub(super) fn parse(r: &mut Reader<'_>) -> Result<Self, DecodeError> {
        let (token, hops) = (r.array()?, r.u8()?);
        let flags = r.u8()?;
        if flags & !0x0f != 0 {
            return Err(DecodeError::Invalid("passage"));
        }
        let received = if flags & 1 != 0 { Some(r.varint()?) } else { None };
        let attempt = if flags & 4 != 0 { r.varint()? } else { 0 };
        if (flags & 4 != 0) != (attempt > 0) {
            return Err(DecodeError::Invalid("passage"));
        }
        let seal = if flags & 8 != 0 { Some(Seal::parse(r)?) } else { None };
        Ok(Self { token, hops, received, choice: flags & 2 != 0, attempt, seal })
    }
    pub(super) fn emit(&self, w: &mut Writer<'_>) -> Result<(), NoRoom> {
        w.put(&self.token)?;
        w.u8(self.hops)?;
        let again = self.attempt > 0;
        let bits = [self.received.is_some(), self.choice, again, self.seal.is_some()];
        w.u8(bits.iter().enumerate().fold(0, |flags, (i, set)| flags | u8::from(*set) << i))?;
        self.received.map_or(Ok(()), |n| w.varint(n))?;
        if again {
            w.varint(self.attempt)?;
        }
        self.seal.map_or(Ok(()), |seal| seal.emit(w))
    }
}

impl<const N: usize> Seal<N> {
    /// `0` and the handshake message, or `1` and the word.
    pub(super) fn parse(r: &mut Reader<'_>) -> Result<Self, DecodeError> {
        Ok(if flag(r.u8()?, "seal")? { Self::Word(Word::parse(r)?) } else { Self::Keys(r.array()?) })
    }
    pub(super) fn emit(&self, w: &mut Writer<'_>) -> Result<(), NoRoom> {
        w.u8(u8::from(matches!(self, Self::Word(_))))?;
        match self {
            Self::Keys(message) => w.put(message),
            Self::Word(word) => word.emit(w),
        }
    }
}

impl Word {
    pub(super) fn parse(r: &mut Reader<'_>) -> Result<Self, DecodeError> {
        Ok(Self { count: r.varint()?, tag: r.array()? })
    }
    pub(super) fn emit(&self, w: &mut Writer<'_>) -> Result<(), NoRoom> {
        w.varint(self.count)?;
        w.put(&self.tag)
    }
}

impl Ranges {
    /// `count, [last, count_in_range - 1], then per range [gap - 2, count_in_range - 1]` going down, where `gap` is
    /// the distance from one range's first to the next one's last.
    pub(super) fn parse(r: &mut Reader<'_>) -> Result<Self, DecodeError> {
        let count = r.varint()?;
        if count > RANGES_MAX as u64 {
            return Err(DecodeError::TooLong("range list"));
        }
        let mut ranges = Vec::with_capacity(count as usize);
        let mut floor: Option<u64> = None;
        for _ in 0..count {
            let step = r.varint()?;
            let extent = r.varint()?;
            let last = match floor {
                None => Some(step),
                Some(first) => step.checked_add(2).and_then(|gap| first.checked_sub(gap)),
            };
            let last = last.ok_or(DecodeError::Invalid("range"))?;
            let first = last.checked_sub(extent).ok_or(DecodeError::Invalid("range"))?;
            ranges.push((first, last));
            floor = Some(first);
        }
        Ok(Self(ranges))
    }
    /// The same for packet numbers of a lane: at least one, and none past [`NUMBER_MAX`].
    pub(super) fn parse_numbers(r: &mut Reader<'_>) -> Result<Self, DecodeError> {
        let numbers = Self::parse(r)?;
        match numbers.0.first() {
            Some((_, highest)) if *highest <= NUMBER_MAX => Ok(numbers),
            _ => Err(DecodeError::Invalid("packet numbers")),
        }
    }
    pub(super) fn emit(&self, w: &mut Writer<'_>) -> Result<(), NoRoom> {
        w.varint(self.0.len() as u64)?;
        let mut floor: Option<u64> = None;
        for &(first, last) in &self.0 {
            w.varint(floor.map_or(last, |above| above - last - 2))?;
            w.varint(last - first)?;
            floor = Some(first);
        }
        Ok(())
    }
    /// The most bytes a list of `count` ranges can take.
    pub const fn len_max(count: usize) -> usize {
        2 + 16 * count
    }
}

pub(super) fn flag(byte: u8, what: &'static str) -> Result<bool, DecodeError> {
    match byte {
        0 => Ok(false),
        1 => Ok(true),
        _ => Err(DecodeError::Invalid(what)),
    }
}

pub(super) fn parse_reach(r: &mut Reader<'_>, what: &'static str) -> Result<Reach, DecodeError> {
    Ok(Reach { received: r.varint()?, finished: flag(r.u8()?, what)? })
}

pub(super) fn parse_address(r: &mut Reader<'_>) -> Result<SocketAddr, DecodeError> {
    let ip = match r.u8()? {
        4 => IpAddr::V4(Ipv4Addr::from(r.array::<4>()?)),
        6 => IpAddr::V6(Ipv6Addr::from(r.array::<16>()?)),
        _ => return Err(DecodeError::Invalid("address family")),
    };
    Ok(SocketAddr::new(ip, r.u16()?))
}

pub(crate) fn emit_address(address: SocketAddr, w: &mut Writer<'_>) -> Result<(), NoRoom> {
    match address.ip() {
        IpAddr::V4(ip) => w.u8(4).and_then(|()| w.put(&ip.octets()))?,
        IpAddr::V6(ip) => w.u8(6).and_then(|()| w.put(&ip.octets()))?,
    }
    w.u16(address.port())
}
