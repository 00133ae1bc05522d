//! What the shipped `wavelane` does, one file per group: one executable, since each would link the whole program again.
#![allow(clippy::unwrap_used, reason = "a test stops at the first surprise")]

mod channel;
mod commands;
mod common;
mod cure;
mod decrypt;
mod import;
mod install;
mod interrupt;
mod over;
mod package;
mod pages;
mod places;
mod probe;
mod readme;
mod reports;
mod studies;
mod top;
mod trace;
mod version;
