//! Pseudo-terminals: serial ports without hardware, for a modem or a cable that is a program.

use nix::fcntl::OFlag;
use nix::pty::{PtyMaster, grantpt, posix_openpt, ptsname_r, unlockpt};
use nix::sys::termios::{SetArg, cfmakeraw, tcgetattr, tcsetattr};
use std::io::{self, ErrorKind, Read, Write};
use std::os::fd::{AsFd, BorrowedFd};

/// The far side of a port. The port vanishes with it, as if unplugged.
#[derive(Debug)]
pub struct Pty {
    master: PtyMaster,
    port: String,
}

impl Pty {
    /// A new pair. What is at the port echoes and interprets nothing from the start.
    pub fn open() -> io::Result<Self> {
        let master = posix_openpt(OFlag::O_RDWR | OFlag::O_NOCTTY | OFlag::O_NONBLOCK | OFlag::O_CLOEXEC)?;
        grantpt(&master)?;
        unlockpt(&master)?;
        let port = ptsname_r(&master)?;
        // Set at the master, this is the port's (tty_ioctl(4)).
        let mut modes = tcgetattr(&master)?;
        cfmakeraw(&mut modes);
        tcsetattr(&master, SetArg::TCSANOW, &modes)?;
        Ok(Self { master, port })
    }
    /// The path of the port.
    pub fn port(&self) -> &str {
        &self.port
    }
    /// Reads what was written at the port: `None` if nothing was, or nobody has it open.
    pub fn read(&mut self, buf: &mut [u8]) -> io::Result<Option<usize>> {
        match self.master.read(buf) {
            Ok(len) => Ok(Some(len).filter(|len| *len > 0)),
            Err(e) if matches!(e.kind(), ErrorKind::WouldBlock | ErrorKind::Interrupted) => Ok(None),
            Err(e) if e.raw_os_error() == Some(libc::EIO) => Ok(None),
            Err(e) => Err(e),
        }
    }
    /// Passes octets to the port, as many as fit, which may be none.
    pub fn write(&mut self, octets: &[u8]) -> io::Result<usize> {
        match self.master.write(octets) {
            Err(e) if matches!(e.kind(), ErrorKind::WouldBlock | ErrorKind::Interrupted) => Ok(0),
            sent => sent,
        }
    }
}

impl AsFd for Pty {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.master.as_fd()
    }
}
