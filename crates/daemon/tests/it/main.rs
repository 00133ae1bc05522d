//! What the shipped `wavelaned` does, one file per group: one executable, since each would link the whole daemon again.
#![allow(clippy::unwrap_used, reason = "a test stops at the first surprise")]

/// Tests that hold for a proxy whatever its engine: functions of its name.
macro_rules! on_both_engines {
    ($($(#[$more:meta])* $name:ident,)*) => {
        mod kernel {
            $(#[test] $(#[$more])* fn $name() { super::$name("kernel"); })*
        }
        mod userspace {
            $(#[test] $(#[$more])* fn $name() { super::$name("userspace"); })*
        }
    };
}

mod advertised;
mod asked;
mod beside;
mod clocks;
mod common;
mod corpus;
mod decided;
mod door_window;
mod doors;
mod down;
mod failure;
mod faults;
mod guide;
mod hostile;
mod hostile_opens;
mod hostile_peer;
mod lanes;
mod last_bytes;
mod mesh;
mod packets;
mod places;
mod programs;
mod proxy;
mod proxy_honest;
mod proxy_neighbors;
mod proxy_places;
mod proxy_snoop;
mod proxy_tunnel;
mod proxy_userspace;
mod quic;
mod reach;
mod relay;
mod reload;
mod restart;
mod serial;
mod service;
mod shaper;
mod six;
mod slow;
mod soak;
mod stress;
mod telephony;
mod watch;
