//! What issue by issue is promised of a simulated run, one file per group. Every test builds its own world.
#![allow(clippy::unwrap_used, reason = "a test stops at the first surprise")]

mod answers;
mod backend;
mod basics;
mod bbr3;
mod beside;
mod capacity;
mod captures;
mod cells;
mod common;
mod control;
mod door;
mod fill;
mod hop;
mod hop_swarm;
mod lanes;
mod media;
mod mesh;
mod packet_swarm;
mod packets;
mod people;
mod queues;
mod radio;
mod repair;
mod resilience;
mod routes;
mod start_rate;
mod swarm;
mod thin;
