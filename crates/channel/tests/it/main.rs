//! Models of media from outside. One executable; `wifi_allocations` brings an allocator of its own.
#![allow(clippy::unwrap_used, reason = "a test stops at the first surprise")]

mod cable;
mod pair;
mod serial;
mod wifi;
