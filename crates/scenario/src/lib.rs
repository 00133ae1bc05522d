//! The scenario file, the contract with the places that run it, its figures and checks, and the Record.
//!
//! A file becomes a [`Scenario`] (plain typed data), a [`Backend`] turns that into [`StackRaw`] per stack and seed,
//! and [`run`] makes the JSON document and the Record directory of it. Only this crate computes figures, so a number
//! means the same wherever it was produced.
#![forbid(unsafe_code)]

mod backend;
mod error;
pub mod figures;
mod judge;
mod model;
mod parse;
mod parse_channel;
mod parse_edca;
mod parse_tcp;
mod parse_wifi;
mod record;
#[cfg(test)]
mod refusal_tests;
mod run;
mod table;
mod units;
mod validate;
mod words;
mod write;
mod write_wifi;

pub use backend::{
    AGE_OCTETS, AGES_MAX, ARRIVAL_BIN, Backend, BackendError, CategoryRaw, Clause, ErrorsRaw, Fetch, FlowRaw,
    KernelTcp, PacketsRaw, Probe, Progress, RadioRaw, Review, RunContext, Spent, StackRaw, Treatment,
};
pub use error::{Problem, ScenarioError};
pub use judge::{figure, show};
pub use model::{
    App, Bound, Change, Channel, ChannelKind, Check, DURATION_MAX, Direction, FLOWS_MAX, Flow, Metric, NODES_MAX, Node,
    NodeKind, Scenario, Side, Stack, TcpKind, TcpKnobs, TcpProfile,
};
pub use parse::{is_scenario, line_of_clause};
pub use parse_channel::DIRECTION_KEYS;
pub use parse_edca::{CATEGORIES, category_word};
pub use parse_tcp::TCP_KEYS;
pub use parse_wifi::WIFI_KEYS;
pub use record::{
    CategoryFigures, CheckResult, ClauseNote, KernelFigures, Omitted, PacketFigures, RUN_FORMAT, RadioFigures,
    RecordError, RunDocument, Series, StackResult, Verdict,
};
pub use run::{Count, JOBS_MAX, REPEAT_MAX, RunError, RunHooks, RunOptions, run};
pub use units::{Quantity, UnitError};
pub use wavelane_base::Seed;
pub use wavelane_channel::LossConfig;
pub use words::{APPS, CONTROLS, METRICS, NODE_KINDS, STACKS};
