//! A lane's table, and how it becomes a [`PeerLane`].

use super::addresses::{check_host_and_port, check_reachable};
use super::line;
use super::{ConfigError, DeviceKind, Directions, LaneMedium, LaneSocket, PeerLane, marks, value};
use std::net::{IpAddr, SocketAddr};
use wavelane_base::{Address, LinkAcks, Quantity, Radio, Rate};
use wavelane_settings::{LaneKnobs, LaneTable, RadioLanes};

/// No Wi-Fi radio's highest rate is lower (IEEE 802.11-2020, clause 15) ...
const RADIO_MIN: Rate = Rate::from_bps(1_000_000);
/// ... nor, as far as can be bought, higher: a unit is wrong.
const RADIO_MAX: Rate = Rate::from_bps(100_000_000_000);

/// Both ends of a lane, as its medium reads them from its table.
pub(crate) struct LaneEnds {
    /// See [`PeerLane::address`].
    pub(crate) address: Option<String>,
    /// See [`PeerLane::socket`].
    pub(crate) socket: Option<LaneSocket>,
}

impl PeerLane {
    pub(super) fn from_table(
        t: &LaneTable,
        key: &str,
        listen: SocketAddr,
        medium: fn(&str) -> Result<LaneMedium, String>,
    ) -> Result<Self, ConfigError> {
        let (knobs, direction) = (t.knobs, t.direction.unwrap_or_default());
        let medium = t.medium.as_deref().map_or(Ok(LaneMedium::default()), medium);
        let medium = medium.map_err(|why| value(format!("{key}: medium"), why))?;
        if t.address.is_some() && direction == Directions::In {
            return Err(value(
                format!("{key}: address"),
                "nothing leaves by a lane of direction \"in\": remove its address",
            ));
        }
        if let Some(why) = t.device.as_ref().and_then(|name| medium.device.refuse(name)) {
            return Err(value(format!("{key}: device"), why));
        }
        if t.radio.is_some_and(|lanes| lanes != RadioLanes::Plain) && medium != LaneMedium::default() {
            return Err(value(format!("{key}: radio"), "is of UDP lanes alone: remove it, or the medium"));
        }
        if medium.device == DeviceKind::Interface {
            line::refuse_elsewhere(t, key)?;
        }
        if direction == Directions::In && knobs != LaneKnobs::default() {
            return Err(value(
                format!("{key}: direction"),
                "nothing leaves by a lane of direction \"in\", and metered, bulk, small and start_rate are about what leaves: remove them",
            ));
        }
        if !knobs.bulk && !knobs.small {
            return Err(value(
                format!("{key}: small"),
                "and `bulk` are both false: such a lane carries nothing; remove one of them, or the lane",
            ));
        }
        let LaneEnds { address, socket } = (medium.read)(t, key, listen)?;
        let socket = socket.map(|socket| LaneSocket { medium, ..socket });
        Ok(Self { address, socket, ways: direction, knobs, line: 0 })
    }
}

/// The ends of a lane over UDP.
pub(crate) fn udp_ends(t: &LaneTable, key: &str, listen: SocketAddr) -> Result<LaneEnds, ConfigError> {
    if let Some(text) = &t.address {
        check_host_and_port(text)
            .and_then(|()| check_reachable(text))
            .map_err(|e| value(format!("{key}: address"), e))?;
    }
    // For a name, the lane's socket decides which IP version counts.
    let address = t.address.as_ref().and_then(|text| text.parse::<SocketAddr>().ok());
    if t.priority.is_some() {
        return Err(value(
            format!("{key}: priority"),
            "is of Ethernet lanes alone: remove it, or add medium = \"ethernet\"",
        ));
    }
    let local = t.local.as_ref().map(|text| {
        let wrong = || format!("'{text}' is not address:port, such as 192.0.2.1:4780 or 0.0.0.0:0");
        text.parse::<SocketAddr>().map_err(|_| value(format!("{key}: local"), wrong()))
    });
    let local = local.transpose()?;
    if local
        .zip(address)
        .is_some_and(|(local, address)| local.is_ipv6() && !local.ip().is_unspecified() && address.is_ipv4())
    {
        return Err(value(
            format!("{key}: local"),
            "is of IPv6 and the lane's address of IPv4: give both the same version",
        ));
    }
    let six = address.map_or(listen.is_ipv6(), |address| address.is_ipv6());
    if local.zip(address).is_some_and(|(local, address)| local.is_ipv4() && address.is_ipv6()) {
        return Err(value(
            format!("{key}: local"),
            "is of IPv4 and the lane's address of IPv6: give both the same version",
        ));
    }
    let any = if six { IpAddr::from([0_u16; 8]) } else { IpAddr::from([0_u8; 4]) };
    check_mark(t.mark, t.direction.unwrap_or_default()).map_err(|why| value(format!("{key}: mark"), why))?;
    let radio = radio(t, key)?;
    let own = t.device.is_some() || local.is_some() || t.mark.is_some();
    let socket = own.then(|| LaneSocket {
        local: local.unwrap_or(SocketAddr::new(any, 0)),
        device: t.device.clone(),
        medium: LaneMedium::default(),
        priority: 0,
        mark: t.mark,
        line: None,
        dial: None,
        radio,
    });
    Ok(LaneEnds { address: t.address.clone(), socket })
}

/// The ends of a lane over a packet socket, without IP.
pub(crate) fn ethernet_ends(t: &LaneTable, key: &str, _: SocketAddr) -> Result<LaneEnds, ConfigError> {
    let refuse = |field: &str, what: String| Err(value(format!("{key}: {field}"), what));
    if t.device.is_none() {
        return refuse("device", "is missing: an Ethernet lane needs the name of its interface (see `ip link`)".into());
    }
    if t.device.as_deref() == Some("lo") {
        return refuse(
            "device",
            "the loopback interface leads to no station: name an Ethernet or Wi-Fi interface".into(),
        );
    }
    if t.mark.is_some() {
        return refuse("mark", "no routing rule sees an Ethernet lane's frames: remove it".into());
    }
    if t.local.is_some() {
        return refuse("local", "an Ethernet lane has its device's address: remove it".into());
    }
    let station = t.address.as_deref().map(|text| Address::station(text).ok_or(text)).transpose();
    let station = match station {
        Ok(station) => station,
        Err(text) => {
            return refuse(
                "address",
                format!("'{text}' is no station's address, such as 02:00:00:00:00:01 (see `ip link`)"),
            );
        }
    };
    if t.direction == Some(Directions::Out) && station.is_none() {
        return refuse("address", "is missing: nothing comes back by this lane that would show where it leads".into());
    }
    let local = SocketAddr::new(IpAddr::from([0_u16; 8]), 0);
    let socket = LaneSocket {
        local,
        device: t.device.clone(),
        medium: LaneMedium::default(),
        priority: t.priority.unwrap_or(0),
        mark: None,
        line: None,
        dial: None,
        radio: None,
    };
    Ok(LaneEnds { address: station.map(|station| station.to_string()), socket: Some(socket) })
}

/// The radio of a lane, if it sets the pace.
fn radio(t: &LaneTable, key: &str) -> Result<Option<Radio>, ConfigError> {
    let acks = match t.radio {
        None | Some(RadioLanes::Plain) => return Ok(None),
        // Which frame begins a burst is known to the driver alone.
        Some(RadioLanes::Paced) => LinkAcks::Each,
        Some(RadioLanes::Raw) => LinkAcks::Never,
    };
    let refuse = |what: String| Err(value(format!("{key}: radio"), what));
    if t.device.is_none() && t.local.is_none() {
        return refuse(
            "shares the socket of gateway.listen, whose queue is not its own: add `device` or `local`".into(),
        );
    }
    if t.knobs.start_rate.is_some() {
        return Err(value(
            format!("{key}: start_rate"),
            "is a controller's, and medium access sets the pace of a lane with `radio`: remove it",
        ));
    }
    match t.line.rate.as_deref().map(Rate::parse) {
        Some(Ok(rate)) if (RADIO_MIN..=RADIO_MAX).contains(&rate) => Ok(Some(Radio { rate, cell: 0, acks })),
        Some(Ok(_)) => {
            Err(value(format!("{key}: rate"), "is no radio's: write its highest, between 1 Mbit/s and 100 Gbit/s"))
        }
        Some(_) => Err(value(format!("{key}: rate"), "is not a rate, such as \"54 Mbit/s\"")),
        None => refuse("needs `rate`, the highest of its radio, such as \"54 Mbit/s\"".into()),
    }
}

/// Whether a lane may have that firewall mark.
fn check_mark(mark: Option<u32>, direction: Directions) -> Result<(), String> {
    match mark {
        Some(mark) if marks::MARKS.contains(&mark) => {
            Err(format!("{mark:#x} is one of wavelaned's own marks: choose another, such as 7"))
        }
        Some(_) if direction == Directions::In => {
            Err("is of what leaves, and nothing leaves by a lane of direction \"in\": remove it".into())
        }
        _ => Ok(()),
    }
}
