//! The scenario file: committed inputs, and the guide. One executable.
#![allow(clippy::unwrap_used, reason = "a test stops at the first surprise")]

mod corpus;
mod guide;
