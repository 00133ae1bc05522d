//! What a lane's `device` names.

use crate::config::is_interface_name;
use wavelane_host::{interface_index, interface_is_up, tty};

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
    /// A number that changes when another device of that name takes its place; `None` if there is none now.
    pub(crate) fn identity(self, name: &str) -> Option<u64> {
        match self {
            Self::Interface => interface_index(name).map(u64::from),
            Self::SerialPort => tty::identity(name),
        }
    }
    /// Whether it is set up; `None` if it is not there.
    pub(crate) fn is_up(self, name: &str) -> Option<bool> {
        match self {
            Self::Interface => interface_is_up(name),
            Self::SerialPort => tty::identity(name).map(|_| true),
        }
    }
    /// Whether a device that was refused may be had without being replaced: another program ends, a carrier comes.
    pub(crate) fn may_be_free_later(self) -> bool {
        self == Self::SerialPort
    }
}
