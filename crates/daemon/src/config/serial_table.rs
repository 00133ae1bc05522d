//! `[serial]`: IP over a serial line, and how its table becomes a [`SerialIp`].

use super::addresses::prefixes;
use super::check::is_interface_name;
use super::line::{Keys, dial, line};
use super::{ConfigError, Line, value};
use crate::medium::DeviceKind;
use serde::Deserialize;
use std::net::Ipv4Addr;
use wavelane_base::IpPrefix;
use wavelane_serial::{Framing, dialer};

/// IPv6 needs packets of this size (RFC 8200, section 5).
const MTU_OF_IPV6: usize = 1_280;
/// Most addresses and routes.
const LISTED_MAX: usize = 64;

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct SerialTable {
    device: String,
    rate: Option<String>,
    framing: Option<String>,
    flow_control: Option<String>,
    #[serde(default)]
    carrier: bool,
    mtu: Option<usize>,
    chat: Option<String>,
    #[serde(default = "default_name")]
    name: String,
    #[serde(default)]
    addresses: Vec<String>,
    peer: Option<Ipv4Addr>,
    #[serde(default)]
    routes: Vec<String>,
}

fn default_name() -> String {
    "serial0".into()
}

/// A line whose packets are those of a TUN device here.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct SerialIp {
    /// Path of the port.
    pub device: String,
    /// How it is set.
    pub line: Line,
    /// How its modem gets a connection, if it has one.
    pub dial: Option<dialer::Config>,
    /// The TUN device's name.
    pub name: String,
    /// This host's addresses on it.
    pub addresses: Vec<IpPrefix>,
    /// The other end's address, which PPP tells it.
    pub peer: Option<Ipv4Addr>,
    /// Networks that the line leads to.
    pub routes: Vec<IpPrefix>,
}

impl SerialIp {
    pub(super) fn from_table(t: SerialTable) -> Result<Self, ConfigError> {
        if let Some(why) = DeviceKind::SerialPort.refuse(&t.device) {
            return Err(value("serial.device", why));
        }
        if !is_interface_name(&t.name) {
            return Err(value("serial.name", format!("'{}' is not an interface name (see `ip link`)", t.name)));
        }
        let keys = Keys {
            rate: t.rate.as_deref(),
            framing: t.framing.as_deref(),
            flow_control: t.flow_control.as_deref(),
            carrier: t.carrier,
            mtu: t.mtu,
        };
        let line = line(keys, "serial")?;
        // PPP agrees on addresses, or has them from the other end.
        if t.addresses.is_empty() && line.framing != Framing::Ppp {
            return Err(value("serial.addresses", "is missing: give this end's address, such as \"192.0.2.1/30\""));
        }
        let address = |text: &String| {
            let wrong = |_| value("serial.addresses", format!("'{text}' is not an address such as 192.0.2.1/30"));
            text.parse::<IpPrefix>().map_err(wrong)
        };
        let addresses: Vec<IpPrefix> = t.addresses.iter().map(address).collect::<Result<_, ConfigError>>()?;
        let routes = prefixes("serial.routes", t.routes)?;
        if addresses.len().max(routes.len()) > LISTED_MAX {
            return Err(value("serial.routes", format!("at most {LISTED_MAX} routes, and as many addresses")));
        }
        let six = addresses.iter().any(|a| a.address.is_ipv6()) || routes.iter().any(|r| r.address.is_ipv6());
        if six && line.mtu < MTU_OF_IPV6 {
            return Err(value("serial.mtu", format!("is {}, and IPv6 needs {MTU_OF_IPV6}", line.mtu)));
        }
        if six && line.framing == Framing::Ppp {
            return Err(value("serial.framing", "is \"ppp\", which carries IPv4 alone here: use \"slip\" for IPv6"));
        }
        if t.peer.is_some() && line.framing != Framing::Ppp {
            return Err(value("serial.peer", "is told by PPP alone: remove it, or write framing = \"ppp\""));
        }
        let dial = dial(t.chat.as_deref(), line.framing == Framing::Ppp, "serial")?;
        Ok(Self { device: t.device, line, dial, name: t.name, addresses, peer: t.peer, routes })
    }
}
