//! What the daemon changes on its host: the media of its lanes, its devices, and the kernel's rules and routes. It is built from the ground
//! up in the order in which the modules stand here; each uses only those before it, and `config` below them all (`xtask/arrows.toml`).

pub(crate) mod device;
pub(crate) mod family;
pub(crate) mod firewall;
pub(crate) mod installed;
pub(crate) mod interface;
pub(crate) mod kernel;
pub mod medium;
pub(crate) mod part;
pub(crate) mod route_tables;
pub(crate) mod routes;
pub(crate) mod rules;
pub(crate) mod serial;
pub(crate) mod standing;
