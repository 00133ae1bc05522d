//! The instruments from outside: captures, damaged inputs, namespaces and HTTP. One executable.
#![allow(clippy::unwrap_used, reason = "a test stops at the first surprise")]

mod captures;
mod corpus;
mod namespaces;
mod nq;
