//! Addresses and prefixes in the file's words.

use super::{ConfigError, prefix_text, value, width};
use std::net::{IpAddr, SocketAddr};
use wavelane_base::IpPrefix;

/// No host has an unspecified, multicast or broadcast address.
pub(super) fn check_reachable(text: &str) -> Result<(), String> {
    let Ok(address) = text.parse::<SocketAddr>() else { return Ok(()) };
    let ip = address.ip().to_canonical();
    let kind = match ip {
        _ if ip.is_unspecified() => "the unspecified address",
        _ if ip.is_multicast() => "a multicast address",
        IpAddr::V4(v4) if v4.is_broadcast() => "the broadcast address",
        _ => return Ok(()),
    };
    Err(format!("'{text}' is {kind} and no host's: write the peer's own"))
}

/// `host:port`, the host a name or an address, one of IPv6 in brackets.
pub(super) fn check_host_and_port(text: &str) -> Result<(), String> {
    let wrong = || format!("'{text}' is not host:port, such as 192.0.2.7:4780 or [2001:db8::7]:4780");
    let (host, port) = text.rsplit_once(':').ok_or_else(wrong)?;
    let port: u16 = port.parse().map_err(|_| wrong())?;
    // Two colons outside brackets: an IPv6 address whose last group would be taken for the port.
    let bare = !host.starts_with('[') && host.contains(':');
    let bracketed = host.starts_with('[') && text.parse::<SocketAddr>().is_err();
    // It stands on terminals and in pages; the name of an interface may follow an address of IPv6.
    let odd = host.chars().any(|c| !c.is_alphanumeric() && !"-_.:%[]@".contains(c));
    if port == 0 || host.is_empty() || bare || bracketed || odd { Err(wrong()) } else { Ok(()) }
}

pub(crate) fn prefixes(key: &str, texts: &[String]) -> Result<Vec<IpPrefix>, ConfigError> {
    let parse = |text: &String| -> Result<IpPrefix, ConfigError> {
        let prefix: IpPrefix = text.parse().map_err(|e: String| value(key, e))?;
        let first = first_of(prefix);
        if first != prefix.address {
            let better = prefix_text(&IpPrefix { address: first, ..prefix });
            return Err(value(key, format!("'{text}' has bits set behind its prefix: write {better}")));
        }
        Ok(prefix)
    };
    texts.iter().map(parse).collect()
}

/// The block's first address.
pub(crate) fn first_of(prefix: IpPrefix) -> IpAddr {
    let spare = u32::from(width(prefix.address) - prefix.bits);
    match prefix.address {
        IpAddr::V4(a) => IpAddr::V4((u32::from(a) & u32::MAX.checked_shl(spare).unwrap_or(0)).into()),
        IpAddr::V6(a) => IpAddr::V6((u128::from(a) & u128::MAX.checked_shl(spare).unwrap_or(0)).into()),
    }
}

pub(super) fn socket_address(key: &str, text: &str) -> Result<SocketAddr, ConfigError> {
    let address: SocketAddr = text
        .parse()
        .map_err(|_| value(key, format!("'{text}' is not address:port, such as 0.0.0.0:4780 or [::]:4780")))?;
    if address.port() == 0 {
        return Err(value(key, "port 0 cannot be reached: name a port, such as 4780"));
    }
    Ok(address)
}
