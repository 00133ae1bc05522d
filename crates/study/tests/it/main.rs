//! Studies beside ns-3 and the lab. One executable.
#![allow(clippy::unwrap_used, reason = "a test stops at the first surprise")]

mod ns3;
mod people;
