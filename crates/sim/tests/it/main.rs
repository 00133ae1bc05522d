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
mod first_window;
mod hop;
mod hop_swarm;
mod lane_sets;
mod lanes;
mod media;
mod mesh;
mod narrow;
mod packet_swarm;
mod packets;
mod path_mtu;
mod people;
mod proxy;
mod queues;
mod radio;
mod radiotap;
mod repair;
mod resilience;
mod routes;
mod start_rate;
mod swarm;
mod thin;
mod traces;
