//! A cable: two ports, two independent directions.

mod config;

pub use config::{
    CableConfig, ConfigError, DirectionConfig, FLIGHT_BOUND, FRAME_MAX, FRAMES_BOUND, Parameter, Policer, QUEUE_BOUND,
    QueueLimit, Reorder, SPAN_MAX,
};
