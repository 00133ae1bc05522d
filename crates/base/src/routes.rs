//! Blocks of addresses, and which of them an address belongs to.

use std::net::IpAddr;

/// A block of addresses, such as `10.0.3.0/24`.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct IpPrefix {
    /// Any address in the block.
    pub address: IpAddr,
    /// Prefix length in bits.
    pub bits: u8,
}

impl IpPrefix {
    /// Whether `ip` lies in the block. Families never match each other.
    pub fn contains(&self, ip: IpAddr) -> bool {
        let mask = |bits: u8, width: u8| if bits == 0 { 0 } else { u128::MAX << (width - bits.min(width)) };
        match (self.address, ip) {
            (IpAddr::V4(a), IpAddr::V4(b)) => {
                (u128::from(u32::from(a)) ^ u128::from(u32::from(b))) & mask(self.bits, 32) & u128::from(u32::MAX) == 0
            }
            (IpAddr::V6(a), IpAddr::V6(b)) => (u128::from(a) ^ u128::from(b)) & mask(self.bits, 128) == 0,
            _ => false,
        }
    }
    /// Whether every address of `part` lies in the block.
    pub fn covers(&self, part: &Self) -> bool {
        self.bits <= part.bits && self.contains(part.address)
    }
}

impl core::str::FromStr for IpPrefix {
    type Err = String;
    fn from_str(text: &str) -> Result<Self, String> {
        let wrong = || format!("'{text}' is not an address block such as 10.0.3.0/24");
        let (address, bits) = text.split_once('/').ok_or_else(wrong)?;
        let address: IpAddr = address.parse().map_err(|_| wrong())?;
        let bits: u8 = bits.parse().map_err(|_| wrong())?;
        if bits > if address.is_ipv4() { 32 } else { 128 } {
            return Err(wrong());
        }
        Ok(Self { address, bits })
    }
}

/// The length of the longest of `prefixes` that contains `ip`.
pub fn longest_match<'a>(prefixes: impl IntoIterator<Item = &'a IpPrefix>, ip: IpAddr) -> Option<u8> {
    prefixes.into_iter().filter(|prefix| prefix.contains(ip)).map(|prefix| prefix.bits).max()
}

/// Longest-prefix match for `target`, with its value; of equal prefixes the first that is not `avoided`, else the first.
pub fn route<T: Copy>(
    routes: impl IntoIterator<Item = (IpPrefix, T)>,
    target: IpAddr,
    avoided: impl Fn(T) -> bool,
) -> Option<(IpPrefix, T)> {
    let mut best: Option<(IpPrefix, T, bool)> = None;
    for (prefix, to) in routes.into_iter().filter(|(prefix, _)| prefix.contains(target)) {
        let longer = best.is_none_or(|(other, ..)| prefix.bits > other.bits);
        let stands_in = best.is_some_and(|(other, _, avoided)| avoided && prefix.bits == other.bits);
        if longer || stands_in && !avoided(to) {
            best = Some((prefix, to, avoided(to)));
        }
    }
    best.map(|(prefix, to, _)| (prefix, to))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn prefixes_contain_their_addresses() {
        let lan: IpPrefix = "10.0.3.0/24".parse().expect("a prefix");
        assert!(lan.contains("10.0.3.77".parse().expect("an address")));
        assert!(!lan.contains("10.0.4.1".parse().expect("an address")));
        assert!(!lan.contains("::1".parse().expect("an address")));
        let any: IpPrefix = "0.0.0.0/0".parse().expect("a prefix");
        assert!(any.contains("203.0.113.9".parse().expect("an address")));
        assert!("10.0.0.0/33".parse::<IpPrefix>().is_err());
        assert!("10.0.0.0".parse::<IpPrefix>().is_err());
    }

    #[test]
    fn the_longest_prefix_wins_then_the_first_not_avoided() {
        let block = |text: &str| text.parse::<IpPrefix>().expect("a prefix");
        let routes = [
            (block("0.0.0.0/0"), 0),
            (block("10.0.0.0/8"), 1),
            (block("10.0.0.0/8"), 2),
            (block("10.0.0.0/8"), 3),
            (block("10.1.0.0/16"), 4),
            (block("::/0"), 5),
        ];
        let to = |target: &str, avoided: &[i32]| {
            route(routes, target.parse().expect("an address"), |to| avoided.contains(&to)).map(|(_, to)| to)
        };
        assert_eq!((to("192.0.2.1", &[]), to("2001:db8::1", &[])), (Some(0), Some(5)));
        assert_eq!((to("10.2.0.1", &[]), to("10.2.0.1", &[1]), to("10.2.0.1", &[1, 2])), (Some(1), Some(2), Some(3)));
        assert_eq!(to("10.2.0.1", &[1, 2, 3]), Some(1), "a shorter block is no way for it");
        assert_eq!(to("10.1.0.1", &[4]), Some(4));
        assert_eq!(route([(block("10.0.0.0/8"), 1)], "192.0.2.1".parse().expect("an address"), |_| false), None);
    }
}
