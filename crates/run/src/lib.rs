//! A scenario's run: the contract with the places that run it, its figures and checks, and the Record.
//!
//! A [`Backend`] turns a [`wavelane_scenario::Scenario`] into a [`StackRaw`] per stack and seed, and [`run`] makes the JSON
//! document and the Record directory of it. Only this crate computes figures, so a number means the same wherever it was
//! produced.
#![forbid(unsafe_code)]

mod backend;
pub mod buffers;
mod command;
mod draft;
mod drive;
mod environment;
mod extend;
mod failing;
pub mod figures;
mod judge;
mod kept;
mod people;
mod radio;
mod record;
mod replace;
pub mod schedule;
mod schema;
mod sweep;
mod whole;

pub use backend::{
    AGE_OCTETS, AGES_MAX, ARRIVAL_BIN, Backend, BackendError, CaptureExtent, CategoryRaw, Clause, ErrorsRaw, Fetch,
    FlowRaw, KernelTcp, LineRaw, LineTally, PacketsRaw, Probe, Progress, RadioRaw, Review, RunContext, Spent, StackRaw,
    Treatment, WayRaw,
};
pub use command::{refusal, rerun, scenario_name, shell};
pub use draft::{PICTURES, check_writable, foreign, recover_record, resolved, strangers};
pub use drive::{Count, JOBS_MAX, REPEAT_MAX, RunError, RunHooks, RunOptions, SEED_MAX, run};
pub use environment::{built_of, commit, host_facts};
pub use failing::FailedCheck;
pub use judge::{figure, rate, show};
pub use record::{
    CategoryFigures, CheckResult, ClauseNote, KernelFigures, LineFigures, Omitted, PacketFigures, RUN_FORMAT,
    RadioFigures, RecordError, RunDocument, Series, StackResult, Verdict, WayFigures,
};
pub use replace::refuse_other_seeds;
pub use schema::{record_schema, sweep_schema};
pub use sweep::{
    SWEEP_FORMAT, Shard, SweepAxis, SweepCell, SweepDocument, SweepOptions, SweepRecord, flow_metrics, shards, sweep,
    sweep_table,
};
pub use whole::{NewFile, check_own, draft_of, is_replaced, put_in_place, recover, write_whole};
