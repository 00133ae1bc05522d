//! The only system calls of Wavelane, behind safe functions.

pub mod netns;
pub mod packet;
pub mod realtime;
pub mod tun;
