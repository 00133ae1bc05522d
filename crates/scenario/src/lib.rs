//! The scenario file: its model, parsing, validation and writing.
//!
//! A file becomes a [`Scenario`], plain typed data. This crate does not depend on what runs it.
#![forbid(unsafe_code)]

mod differences;
mod factor;
mod model;
mod parse;
mod parse_apps;
mod parse_channel;
mod parse_edca;
mod parse_gateway;
mod parse_ht;
mod parse_link;
mod parse_mobility;
mod parse_pair;
mod parse_queue;
mod parse_route;
mod parse_serial;
mod parse_tcp;
mod parse_trace;
mod parse_wifi;
#[cfg(test)]
mod refusal_tests;
mod remarks;
mod settings;
mod sweep;
pub mod trace;
pub mod trace_folder;
mod validate;
mod words;
mod write;
mod write_wifi;

pub use model::{
    App, Bound, Change, Channel, ChannelKind, ChannelRoute, Check, Codec, DURATION_MAX, Direction, FLOWS_MAX, Family,
    Flow, GatewaySettings, Metric, Move, NODES_MAX, Node, NodeKind, ProxySide, Routing, Scenario, SerialChannel,
    SerialFraming, Side, Spurts, Stack, StackOption, TcpKind, Voice, Web,
};
pub use parse::{is_scenario, line_of_clause, read_bounded, read_regular};
pub use parse_channel::DIRECTION_KEYS;
pub use parse_edca::{CATEGORIES, category_word};
pub use parse_pair::{BEARER_KEYS, BLUETOOTH_KEYS, CELLULAR_KEYS};
pub use parse_serial::{SERIAL_KEYS, SERIAL_WAY_KEYS};
pub use parse_trace::{DELAY_TRACE_KEYS, RATE_TRACE_KEYS};
pub use parse_wifi::WIFI_KEYS;
pub use remarks::Remark;
pub use settings::{SETTINGS_MAX, Setting};
pub use sweep::{AXES_MAX, Axis, CELLS_MAX, Cell, Sweep, VALUES_MAX, in_base_units};
pub use wavelane_base::Seed;
pub use wavelane_base::{Quantity, UnitError};
pub use wavelane_channel::LossConfig;
pub use wavelane_settings::{FileError as ScenarioError, Problem, hint};
pub(crate) use wavelane_settings::{Lines, Table, Value, look_up, word};
pub use words::{APPS, CONTROLS, METRICS, NODE_KINDS, ROUTINGS, STACKS};

/// Maximum number of seeds of one run.
pub const REPEATS_MAX: u32 = 10_000;
