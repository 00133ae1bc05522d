//! Formats: committed inputs, damaged, and the Wireshark dissector. One executable.
#![allow(clippy::unwrap_used, reason = "a test stops at the first surprise")]

mod corpus;
mod dissector;
