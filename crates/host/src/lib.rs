//! The only system calls of Wavelane, behind safe functions.

pub mod netns;
pub mod packet;
pub mod realtime;
pub mod tun;

/// Whether this process runs with user id 0.
pub fn is_root() -> bool {
    nix::unistd::geteuid().is_root()
}
