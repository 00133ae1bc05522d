//! The settings that people turn, each declared once: its name, unit, range, default, what it does and in which file it may stand. From a
//! declaration come its reader, its writer, its refusals, its row in the guide and its part of the files' JSON schema.
//!
//! To add one, write its field and its row (`gateway.rs`, `tcp.rs`, `lane.rs`, `daemon.rs`), then use the field. Only what relates keys to each other is
//! written by hand, where the files are read.
#![forbid(unsafe_code)]

mod daemon;
mod error;
mod gateway;
mod knob;
mod lane;
mod mobility;
mod table;
mod tcp;
mod values;

pub use daemon::{
    Attached, CellsWord, DelayDirection, Directions, EDGE, EdgeTable, FORWARD, ForwardTable, GATEWAY_TABLE,
    GatewayTable, How, INTERCEPT, InterceptTable, LANE, LINE_MTU, LaneTable, LineKeys, LogLevel, OnFailure, PEER,
    PROXY, PeerTable, ProxyTable, RoutingWord, SERIAL, SHAPER, SHAPERS, SIDE_TABLE, SerialTable, ShaperTable,
    ShapersTable, SideTable, Source, TUN, TUNNEL, TunTable, TunnelTable,
};
pub use error::{FileError, Problem, hint};
pub use gateway::{Backpressure, GATEWAY, GatewayKnobs, Preset, RadioLanes, Seal, SentAgain};
pub use knob::{Bounds, Field, File, Group, Knob, OutOfBounds};
pub use lane::{Choice, LINK, LaneKnobs, LinkKnobs, START_RATE, START_RATE_MIN};
pub use mobility::{MOBILITY, MobilityKnobs, MovedAddress};
pub use table::{Lines, Table, Value};
pub use tcp::{Freeze, SIDE, SideKnobs, TCP, TcpKnobs, TcpProfile};
pub use values::{NAME_MAX, Number, OrOff, Setting, is_name, look_up, text, unit, word, word_of};

#[cfg(test)]
mod tests;
