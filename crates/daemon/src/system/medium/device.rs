//! Whether a lane's device is there.

use crate::config::{DeviceKind, LaneSocket};
use wavelane_host::{interface_index, interface_is_up, tty};

impl DeviceKind {
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
}

impl LaneSocket {
    /// A number that changes when another device takes the place of its own; `None` if it has none, or that is not there.
    pub(crate) fn device_identity(&self) -> Option<u64> {
        self.medium.device.identity(self.device.as_deref()?)
    }
}
