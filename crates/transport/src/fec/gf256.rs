//! The field GF(2^8) of RFC 8681, section 3.3: bytes, with addition by XOR and products modulo
//! x^8 + x^4 + x^3 + x^2 + 1 (0x11D), in which x generates every element but zero.

/// The modulus without its highest term.
const REDUCE: u8 = 0x1d;
/// Non-zero elements.
const ORDER: usize = 255;
/// Bytes that [`add_multiple`] handles at once, so that the compiler keeps them in vector registers.
const LANE: usize = 32;

/// Powers of x, twice, so that a sum of two logarithms needs no reduction; and logarithms (that of zero is unused).
const TABLES: ([u8; 2 * ORDER], [u8; 256]) = {
    let (mut exp, mut log) = ([0; 2 * ORDER], [0; 256]);
    let (mut x, mut i) = (1u8, 0);
    while i < ORDER {
        exp[i] = x;
        exp[i + ORDER] = x;
        log[x as usize] = i as u8;
        x = double(x);
        i += 1;
    }
    (exp, log)
};

/// x times `a`.
const fn double(a: u8) -> u8 {
    (a << 1) ^ (REDUCE & (a >> 7).wrapping_neg())
}

/// The product.
pub fn multiply(a: u8, b: u8) -> u8 {
    if a == 0 || b == 0 {
        return 0;
    }
    TABLES.0[usize::from(TABLES.1[usize::from(a)]) + usize::from(TABLES.1[usize::from(b)])]
}

/// The multiplicative inverse of `a`; zero has none and gives zero.
pub fn inverse(a: u8) -> u8 {
    if a == 0 { 0 } else { TABLES.0[ORDER - usize::from(TABLES.1[usize::from(a)])] }
}

/// Adds `factor` times `source` to the front of `sum`, which is at least as long.
///
/// Doubling and adding instead of table lookups: a lookup per byte cannot be vectorised in safe Rust, eight doublings
/// of a whole register can: twice as fast where it was measured (docs/decisions/0014-one-repair-budget.md).
pub fn add_multiple(sum: &mut [u8], source: &[u8], factor: u8) {
    assert!(sum.len() >= source.len(), "the sum holds the longest symbol");
    let (lanes, rest) = source.as_chunks::<LANE>();
    let (sum_lanes, sum_rest) = sum[..source.len()].as_chunks_mut::<LANE>();
    for (sum, source) in sum_lanes.iter_mut().zip(lanes) {
        let (mut x, mut product) = (*source, [0; LANE]);
        for bit in 0..8 {
            let mask = (factor >> bit & 1).wrapping_neg();
            for i in 0..LANE {
                product[i] ^= x[i] & mask;
                x[i] = double(x[i]);
            }
        }
        for i in 0..LANE {
            sum[i] ^= product[i];
        }
    }
    for (sum, source) in sum_rest.iter_mut().zip(rest) {
        *sum ^= multiply(*source, factor);
    }
}
