//! Reading and writing big-endian integers and QUIC-style variable-length integers (RFC 9000, section 16).

use thiserror::Error;

/// Why bytes could not be read as the format they claim to be.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Error)]
pub enum DecodeError {
    /// The input ends inside a field.
    #[error("input ends inside a field")]
    Truncated,
    /// A field holds a value that its format forbids.
    #[error("{0} has a forbidden value")]
    Invalid(&'static str),
    /// A list is longer than its bound.
    #[error("{0} is longer than its bound")]
    TooLong(&'static str),
}

/// The largest number a variable-length integer can hold.
pub const VARINT_MAX: u64 = (1 << 62) - 1;

/// A cursor over received bytes.
#[derive(Clone, Debug)]
pub struct Reader<'a> {
    rest: &'a [u8],
}

impl<'a> Reader<'a> {
    /// Starts at the beginning of `bytes`.
    pub fn new(bytes: &'a [u8]) -> Self {
        Self { rest: bytes }
    }
    /// Bytes not yet read.
    pub fn remaining(&self) -> usize {
        self.rest.len()
    }
    /// Whether everything was read.
    pub fn is_empty(&self) -> bool {
        self.rest.is_empty()
    }
    /// The next `n` bytes.
    pub fn take(&mut self, n: usize) -> Result<&'a [u8], DecodeError> {
        let (head, rest) = self.rest.split_at_checked(n).ok_or(DecodeError::Truncated)?;
        self.rest = rest;
        Ok(head)
    }
    /// The next `N` bytes as an array.
    pub fn array<const N: usize>(&mut self) -> Result<[u8; N], DecodeError> {
        let (head, rest) = self.rest.split_first_chunk::<N>().ok_or(DecodeError::Truncated)?;
        self.rest = rest;
        Ok(*head)
    }
    /// Everything that is left.
    pub fn take_rest(&mut self) -> &'a [u8] {
        core::mem::take(&mut self.rest)
    }
    /// One byte.
    pub fn u8(&mut self) -> Result<u8, DecodeError> {
        Ok(self.array::<1>()?[0])
    }
    /// A big-endian 16-bit number.
    pub fn u16(&mut self) -> Result<u16, DecodeError> {
        Ok(u16::from_be_bytes(self.array()?))
    }
    /// A big-endian 32-bit number.
    pub fn u32(&mut self) -> Result<u32, DecodeError> {
        Ok(u32::from_be_bytes(self.array()?))
    }
    /// A big-endian 64-bit number.
    pub fn u64(&mut self) -> Result<u64, DecodeError> {
        Ok(u64::from_be_bytes(self.array()?))
    }
    /// A variable-length integer.
    pub fn varint(&mut self) -> Result<u64, DecodeError> {
        let first = *self.rest.first().ok_or(DecodeError::Truncated)?;
        let bytes = self.take(1 << (first >> 6))?;
        let head = u64::from(first & 0x3f);
        Ok(bytes[1..].iter().fold(head, |n, b| n << 8 | u64::from(*b)))
    }
}

/// Bytes a variable-length integer takes, or `None` past [`VARINT_MAX`].
pub const fn varint_len(n: u64) -> Option<usize> {
    match n {
        0..=0x3f => Some(1),
        0x40..=0x3fff => Some(2),
        0x4000..=0x3fff_ffff => Some(4),
        0x4000_0000..=VARINT_MAX => Some(8),
        _ => None,
    }
}

/// A cursor that writes into the caller's buffer. A write that does not fit writes nothing and says so.
#[derive(Debug)]
pub struct Writer<'a> {
    buf: &'a mut [u8],
    len: usize,
}

/// The buffer has no room for what was to be written.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Error)]
#[error("no room in the buffer")]
pub struct NoRoom;

impl<'a> Writer<'a> {
    /// Starts at the beginning of `buf`.
    pub fn new(buf: &'a mut [u8]) -> Self {
        Self { buf, len: 0 }
    }
    /// Bytes written so far.
    pub fn len(&self) -> usize {
        self.len
    }
    /// Whether nothing was written.
    pub fn is_empty(&self) -> bool {
        self.len == 0
    }
    /// Bytes that still fit.
    pub fn room(&self) -> usize {
        self.buf.len() - self.len
    }
    /// Forgets everything past `len`, which an earlier [`Writer::len`] gave.
    pub fn truncate(&mut self, len: usize) {
        self.len = self.len.min(len);
    }
    /// Appends `bytes`.
    pub fn put(&mut self, bytes: &[u8]) -> Result<(), NoRoom> {
        let end = self.len + bytes.len();
        self.buf.get_mut(self.len..end).ok_or(NoRoom)?.copy_from_slice(bytes);
        self.len = end;
        Ok(())
    }
    /// Appends one byte.
    pub fn u8(&mut self, n: u8) -> Result<(), NoRoom> {
        self.put(&[n])
    }
    /// Appends a big-endian 16-bit number.
    pub fn u16(&mut self, n: u16) -> Result<(), NoRoom> {
        self.put(&n.to_be_bytes())
    }
    /// Appends a big-endian 32-bit number.
    pub fn u32(&mut self, n: u32) -> Result<(), NoRoom> {
        self.put(&n.to_be_bytes())
    }
    /// Appends a big-endian 64-bit number.
    pub fn u64(&mut self, n: u64) -> Result<(), NoRoom> {
        self.put(&n.to_be_bytes())
    }
    /// Appends a variable-length integer in its shortest form.
    ///
    /// # Panics
    /// If `n` is past [`VARINT_MAX`]: offsets, flow ids and times are bounded far below it.
    pub fn varint(&mut self, n: u64) -> Result<(), NoRoom> {
        let bytes = n.to_be_bytes();
        match varint_len(n) {
            Some(1) => self.put(&bytes[7..]),
            Some(2) => self.put(&[bytes[6] | 0x40, bytes[7]]),
            Some(4) => self.put(&[bytes[4] | 0x80, bytes[5], bytes[6], bytes[7]]),
            Some(_) => {
                let mut long = bytes;
                long[0] |= 0xc0;
                self.put(&long)
            }
            None => panic!("{n} does not fit a variable-length integer"),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn rfc_9000_appendix_a_1_samples() {
        let samples: [(&[u8], u64); 4] = [
            (&[0xc2, 0x19, 0x7c, 0x5e, 0xff, 0x14, 0xe8, 0x8c], 151_288_809_941_952_652),
            (&[0x9d, 0x7f, 0x3e, 0x7d], 494_878_333),
            (&[0x7b, 0xbd], 15_293),
            (&[0x25], 37),
        ];
        for (bytes, value) in samples {
            assert_eq!(Reader::new(bytes).varint(), Ok(value));
            let mut buf = [0; 8];
            let mut w = Writer::new(&mut buf);
            w.varint(value).expect("eight bytes are enough");
            let n = w.len();
            assert_eq!(&buf[..n], bytes);
        }
    }

    #[test]
    fn a_write_that_does_not_fit_leaves_the_writer_as_it_was() {
        let mut buf = [0; 3];
        let mut w = Writer::new(&mut buf);
        w.u16(7).expect("fits");
        assert_eq!(w.u32(7), Err(NoRoom));
        assert_eq!(w.len(), 2);
    }

    proptest! {
        #[test]
        fn varints_round_trip(n in 0..=VARINT_MAX) {
            let mut buf = [0; 8];
            let mut w = Writer::new(&mut buf);
            w.varint(n).expect("eight bytes are enough");
            let len = w.len();
            prop_assert_eq!(Some(len), varint_len(n));
            prop_assert_eq!(Reader::new(&buf[..len]).varint(), Ok(n));
        }
    }
}
