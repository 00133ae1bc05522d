//! Media between ports: they serialise, delay, lose, corrupt and reorder frames.
//!
//! Channels are machines ([`wavelane_base::Machine`]), driven in virtual time by the simulator and in real time by the lab,
//! so that both share one model. They carry opaque bytes and know nothing of any protocol: a channel that reads headers
//! could favour the protocol it carries.
#![forbid(unsafe_code)]

pub mod bluetooth;
pub mod cable;
pub mod cellular;
pub mod loss;
mod pair;
pub mod serial;
pub mod wifi;

pub use cable::{
    Cable, CableConfig, CableEvent, Cause, CoDelTimes, ConfigError, Counters, DelayTrace, Direction, DirectionConfig,
    Discipline, Holding, Parameter, Policer, QUEUE_BOUND, QueueLimit, Queueing, RateTrace, Reorder, Source, Tally,
    Then, TraceError,
};
pub use loss::{LossConfig, LossError, LossTrace, PerUnit, Windows};
pub use pair::{PAIR_QUEUE_MAX, PairCounters};
pub use serial::{Coding, Gain, Serial, SerialConfig, SerialDirection, SerialError, Uart};
pub use wavelane_queue::{AqlTerms, Tins};
