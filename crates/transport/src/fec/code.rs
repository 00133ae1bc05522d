//! The coefficient for a datagram's number and a repair symbol's key.
//!
//! A Cauchy matrix: rows are keys, columns are numbers, an entry is 1 / (row + column). Every square submatrix can be inverted, so of the
//! datagrams that one set of numbers covers, any lost ones are restored by as many repair symbols, whichever these are. Columns take the
//! lower half of the field and rows the upper half; numbers repeat their column every [`SPAN_MAX`], which is why a repair symbol covers no
//! wider span.

use super::gf256::inverse;

/// Widest span of numbers that one repair symbol covers.
pub const SPAN_MAX: u64 = 128;
/// A symbol begins with its datagram's length, to distinguish padding from content.
pub const LENGTH_LEN: usize = 2;

/// The factor of datagram `number` in the repair symbol under `key`.
pub fn coefficient(number: u64, key: u8) -> u8 {
    let column = (number % SPAN_MAX) as u8;
    let row = 0x80 | key;
    inverse(row ^ column)
}
