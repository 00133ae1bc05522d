//! What a lane's keys are depends on its medium. Which media there are says the table of `system::medium`.

use super::check::is_interface_name;
use super::{ConfigError, LaneEnds, udp_ends};
use std::net::SocketAddr;
use wavelane_base::Carrier;
use wavelane_settings::LaneTable;

/// Longest path of a serial port.
const PATH_MAX: usize = 255;

/// A network interface, or a serial port.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum DeviceKind {
    /// A network interface, by its name.
    Interface,
    /// A serial port, by its path.
    SerialPort,
}

impl DeviceKind {
    /// Why `name` cannot be one, whatever this machine has.
    pub(crate) fn refuse(self, name: &str) -> Option<String> {
        match self {
            Self::Interface if is_interface_name(name) => None,
            Self::Interface => Some(format!("'{name}' is not an interface name (see `ip link`)")),
            Self::SerialPort if name.starts_with('/') && name.len() <= PATH_MAX && !name.contains('\0') => None,
            Self::SerialPort => Some(format!("'{name}' is not the path of a serial port, such as /dev/ttyUSB0")),
        }
    }
    /// Whether a device that was refused may be had without being replaced: another program ends, a carrier comes.
    pub(crate) fn may_be_free_later(self) -> bool {
        self == Self::SerialPort
    }
}

/// A medium, as far as files know it.
#[derive(Debug)]
pub struct MediumKeys {
    /// Its name in the file and for people.
    pub(crate) word: &'static str,
    /// What it does to a datagram.
    pub(crate) carrier: Carrier,
    /// What its `device` is.
    pub(crate) device: DeviceKind,
    /// Whether this machine's IP addresses, ports, routes and filters are about its datagrams.
    pub(crate) has_ip: bool,
    /// Reads the keys of a lane's table that depend on the medium.
    pub(crate) read: fn(&LaneTable, &str, SocketAddr) -> Result<LaneEnds, ConfigError>,
}

/// That of `gateway.listen`.
pub(crate) const UDP: MediumKeys =
    MediumKeys { word: "udp", carrier: Carrier::UDP, device: DeviceKind::Interface, has_ip: true, read: udp_ends };

/// What a lane's datagrams travel in: UDP over either version of IP, unless the file names another.
#[derive(Clone, Copy, Debug)]
pub struct LaneMedium(pub(crate) &'static MediumKeys);

impl PartialEq for LaneMedium {
    fn eq(&self, other: &Self) -> bool {
        self.word == other.word
    }
}

impl Eq for LaneMedium {}

impl Default for LaneMedium {
    fn default() -> Self {
        Self(&UDP)
    }
}

impl core::ops::Deref for LaneMedium {
    type Target = MediumKeys;
    fn deref(&self) -> &MediumKeys {
        self.0
    }
}
