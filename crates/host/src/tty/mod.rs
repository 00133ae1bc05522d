//! Serial ports and pseudo-terminals: any rate, eight bits and nothing interpreted from before the first octet on, for one program alone.
//!
//! What a port is set to stays with it after it is closed, so nothing here relies on what it was before.
#![allow(unsafe_code, reason = "termios2 (rates that are no constant) and the modem lines have no safe wrapper")]

mod pace;
mod pty;

pub use pace::{Pace, WAITING_MAX};
pub use pty::Pty;

use std::fs::{File, OpenOptions};
use std::io::{self, ErrorKind, Read, Write};
use std::os::fd::{AsFd, AsRawFd, BorrowedFd};
use std::os::unix::fs::{FileTypeExt, MetadataExt, OpenOptionsExt};
use std::path::Path;

/// The major device numbers of pseudo-terminals (`UNIX98_PTY_SLAVE_MAJOR` and seven more, linux/major.h).
const PTY_MAJORS: std::ops::RangeInclusive<u32> = 136..=143;
/// A port whose clock divides to a rate this far off, in parts per hundred, is refused: 8N1 is sampled wrongly from 5 % between both ends
/// on, so each may be off by half of that.
const RATE_OFF_PERCENT: u64 = 2;
/// Where programs of the UUCP convention leave their process number (FHS 3.0, section 5.9).
const LOCK_FOLDER: &str = "/run/lock";

/// How a port is to be set.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub struct PortSettings {
    /// Bits a second on the wire, start and stop bits among them.
    pub rate: u32,
    /// RTS and CTS stop the sender; otherwise nothing does.
    pub hardware_flow: bool,
    /// The port counts only while its carrier (DCD) is there, and ends with it.
    pub carrier: bool,
}

/// Why a port cannot be used.
#[derive(Clone, PartialEq, Eq, Debug, thiserror::Error)]
pub enum TtyError {
    /// No such file.
    #[error("it is not there")]
    Missing,
    /// The system refuses it to this user.
    #[error("this user may not open it")]
    Permission,
    /// It is not a terminal.
    #[error("it is no serial port")]
    NoTerminal,
    /// The kernel writes its messages there.
    #[error("it is the system's console")]
    Console,
    /// Another program has it.
    #[error("{0} has it open")]
    Busy(String),
    /// Its clock has no such rate.
    #[error("it cannot do {asked} bit/s; the nearest rate it has is {nearest} bit/s")]
    Rate {
        /// What was asked.
        asked: u32,
        /// What it does instead.
        nearest: u32,
    },
    /// It has no modem lines, as a pseudo-terminal has none.
    #[error("it has no modem lines")]
    NoModemLines,
    /// Nobody is at the other end, as far as the modem line says.
    #[error("it has no carrier (DCD is off)")]
    NoCarrier,
    /// Anything else that the system said.
    #[error("{0}")]
    System(String),
}

impl TtyError {
    /// What to do about it.
    pub fn remedy(&self) -> &'static str {
        match self {
            Self::Missing => "plug it in, or correct its name (`ls /dev/serial/by-id /dev/tty*`)",
            Self::Permission => "put wavelaned's user into the group that owns it, mostly `dialout` (`ls -l` shows it)",
            Self::NoTerminal => "name a serial port, such as /dev/ttyUSB0 or /dev/ttyS0",
            Self::Console => "name another port, or take `console=` off the kernel's command line and stop its getty",
            Self::Busy(_) => "stop that program (`fuser -v` with the port's name shows it), or name another port",
            Self::Rate { .. } => "write that rate at both ends, or another that the port has",
            Self::NoModemLines => "remove `carrier` and hardware flow control",
            Self::NoCarrier => "wait for the other end or check the cable's DCD, or remove `carrier`",
            Self::System(_) => "check the port (`stty -F` with its name)",
        }
    }
    /// The one in an error of [`Tty::open`].
    pub fn of(error: &io::Error) -> Option<&Self> {
        error.get_ref()?.downcast_ref()
    }
}

impl From<TtyError> for io::Error {
    fn from(why: TtyError) -> Self {
        let kind = match &why {
            TtyError::Missing => ErrorKind::NotFound,
            TtyError::Permission => ErrorKind::PermissionDenied,
            TtyError::Busy(_) => ErrorKind::ResourceBusy,
            TtyError::NoTerminal | TtyError::Console | TtyError::Rate { .. } | TtyError::NoModemLines => {
                ErrorKind::InvalidInput
            }
            TtyError::NoCarrier | TtyError::System(_) => ErrorKind::Other,
        };
        Self::new(kind, why)
    }
}

/// The modem lines of a port.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct ModemLines {
    /// The other end takes octets (CTS).
    pub clear_to_send: bool,
    /// The modem has a connection, or the other end of a full cable is on (DCD).
    pub carrier: bool,
}

/// An open port. Nobody else opens it meanwhile who asks first, and whoever is not root cannot.
#[derive(Debug)]
pub struct Tty {
    file: File,
}

/// What distinguishes a device file from another of the same name, such as a port that was unplugged and is back; `None` if there is none.
pub fn identity(path: &str) -> Option<u64> {
    let found = std::fs::metadata(path).ok().filter(|found| found.file_type().is_char_device())?;
    // Minor numbers are few, and a new file has a new number within its file system.
    Some(found.ino().rotate_left(32) ^ found.rdev())
}

impl Tty {
    /// Opens the port, sets it and drops what arrived before that.
    pub fn open(path: &str, settings: PortSettings) -> Result<Self, TtyError> {
        let mut options = OpenOptions::new();
        // Without O_NONBLOCK opening waits for a carrier.
        options.read(true).write(true).custom_flags(libc::O_NOCTTY | libc::O_NONBLOCK | libc::O_CLOEXEC);
        let file = options.open(path).map_err(|why| match why.raw_os_error() {
            Some(libc::ENOENT | libc::ENODEV | libc::ENXIO) => TtyError::Missing,
            Some(libc::EACCES | libc::EPERM) => TtyError::Permission,
            // Another program has asked for it alone (TIOCEXCL).
            Some(libc::EBUSY) => TtyError::Busy("another program".into()),
            Some(libc::ENOTTY | libc::EISDIR) => TtyError::NoTerminal,
            _ => TtyError::System(why.to_string()),
        })?;
        let device = file.metadata().map_err(|why| TtyError::System(why.to_string()))?;
        if !device.file_type().is_char_device() || !io::IsTerminal::is_terminal(&file) {
            return Err(TtyError::NoTerminal);
        }
        let (major, minor) = (libc::major(device.rdev()), libc::minor(device.rdev()));
        if is_console(major, minor) {
            return Err(TtyError::Console);
        }
        let tty = Self { file };
        tty.take_alone(path, PTY_MAJORS.contains(&major))?;
        tty.set(settings)?;
        Ok(tty)
    }

    /// Keeps other programs away: those that lock files, those that look for a process number, and all others but root's. A pseudo-terminal
    /// remembers the last longer than its owner lives, while its other end is open.
    fn take_alone(&self, path: &str, is_pty: bool) -> Result<(), TtyError> {
        // SAFETY: flock takes a descriptor, which is open, and a number.
        if unsafe { libc::flock(self.file.as_raw_fd(), libc::LOCK_EX | libc::LOCK_NB) } != 0 {
            return Err(TtyError::Busy("another program".into()));
        }
        if let Some(process) = lock_holder(Path::new(LOCK_FOLDER), path) {
            return Err(TtyError::Busy(format!("process {process}")));
        }
        if is_pty {
            return Ok(());
        }
        let mut taken: libc::c_int = 0;
        // SAFETY: TIOCGEXCL writes one int, which lives.
        if unsafe { libc::ioctl(self.file.as_raw_fd(), libc::TIOCGEXCL as _, &raw mut taken) } == 0 && taken != 0 {
            return Err(TtyError::Busy("another program".into()));
        }
        // SAFETY: TIOCEXCL takes no argument. A driver that has it not is none to worry about: the lock stands.
        unsafe { libc::ioctl(self.file.as_raw_fd(), libc::TIOCEXCL as _) };
        Ok(())
    }

    /// Sets rate, raw octets and flow control at once, and drops what came before (termios(3), "Raw mode"; linux/asm/termbits.h).
    fn set(&self, settings: PortSettings) -> Result<(), TtyError> {
        let fd = self.file.as_raw_fd();
        let system = || TtyError::System(io::Error::last_os_error().to_string());
        // SAFETY: all-zero is a valid value of this C structure.
        let mut modes: libc::termios2 = unsafe { std::mem::zeroed() };
        // SAFETY: TCGETS2 writes one termios2, which lives.
        if unsafe { libc::ioctl(fd, libc::TCGETS2 as _, &raw mut modes) } != 0 {
            return Err(system());
        }
        // Breaks are left out; an octet with a framing error arrives as it is, and what checks frames drops it.
        modes.c_iflag = libc::IGNBRK;
        modes.c_oflag = 0;
        modes.c_lflag = 0;
        // At the last close DTR falls, so that a modem hangs up and a full null-modem cable shows that this end is gone.
        let mut control = libc::CS8 | libc::CREAD | libc::HUPCL | libc::BOTHER;
        control |= if settings.hardware_flow { libc::CRTSCTS } else { 0 };
        control |= if settings.carrier { 0 } else { libc::CLOCAL };
        modes.c_cflag = control;
        modes.c_ispeed = settings.rate;
        modes.c_ospeed = settings.rate;
        // A read returns what is there; with zero "nothing" would look like the end.
        modes.c_cc[libc::VMIN] = 1;
        modes.c_cc[libc::VTIME] = 0;
        // SAFETY: TCSETSF2 reads one termios2, which lives.
        if unsafe { libc::ioctl(fd, libc::TCSETSF2 as _, &raw const modes) } != 0 {
            return Err(system());
        }
        // SAFETY: as above.
        if unsafe { libc::ioctl(fd, libc::TCGETS2 as _, &raw mut modes) } != 0 {
            return Err(system());
        }
        let (asked, nearest) = (settings.rate, modes.c_ospeed);
        if u64::from(asked.abs_diff(nearest)) * 100 > u64::from(asked) * RATE_OFF_PERCENT {
            return Err(TtyError::Rate { asked, nearest });
        }
        match self.modem_lines() {
            Some(lines) if settings.carrier && !lines.carrier => Err(TtyError::NoCarrier),
            None if settings.carrier || settings.hardware_flow => Err(TtyError::NoModemLines),
            _ => Ok(()),
        }
    }

    /// Reads what has arrived: `None` if nothing has. An error means that the port is gone: unplugged, hung up, or its carrier lost.
    pub fn read(&self, buf: &mut [u8]) -> io::Result<Option<usize>> {
        match (&self.file).read(buf) {
            Ok(0) => Err(io::Error::from_raw_os_error(libc::EIO)),
            Ok(len) => Ok(Some(len)),
            Err(e) if matches!(e.kind(), ErrorKind::WouldBlock | ErrorKind::Interrupted) => Ok(None),
            Err(e) => Err(e),
        }
    }

    /// Passes octets on, as many as fit, which may be none. An error means that the port is gone.
    pub fn write(&self, octets: &[u8]) -> io::Result<usize> {
        match (&self.file).write(octets) {
            Ok(len) => Ok(len),
            Err(e) if matches!(e.kind(), ErrorKind::WouldBlock | ErrorKind::Interrupted) => Ok(0),
            Err(e) => Err(e),
        }
    }

    /// Octets written and not yet on the wire, as far as the driver knows: a pseudo-terminal always says none.
    pub fn queued(&self) -> usize {
        let mut count: libc::c_int = 0;
        // SAFETY: TIOCOUTQ writes one int, which lives.
        let asked = unsafe { libc::ioctl(self.file.as_raw_fd(), libc::TIOCOUTQ as _, &raw mut count) };
        if asked == 0 { usize::try_from(count).unwrap_or(0) } else { 0 }
    }

    /// Its modem lines now; `None` if it has none.
    pub fn modem_lines(&self) -> Option<ModemLines> {
        let mut bits: libc::c_int = 0;
        // SAFETY: TIOCMGET writes one int, which lives.
        let asked = unsafe { libc::ioctl(self.file.as_raw_fd(), libc::TIOCMGET as _, &raw mut bits) };
        let on = |bit: libc::c_int| bits & bit != 0;
        (asked == 0).then(|| ModemLines { clear_to_send: on(libc::TIOCM_CTS), carrier: on(libc::TIOCM_CAR) })
    }

    /// Lets DTR fall, at which a modem hangs up, or raises it. A port without modem lines has none.
    pub fn set_ready(&self, ready: bool) {
        let (what, bit) = (if ready { libc::TIOCMBIS } else { libc::TIOCMBIC }, libc::TIOCM_DTR);
        // SAFETY: both read one int, which lives; a refusal means that there is no such line.
        unsafe { libc::ioctl(self.file.as_raw_fd(), what as _, &raw const bit) };
    }
}

impl AsFd for Tty {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.file.as_fd()
    }
}

/// Whether the kernel writes its messages to that device.
fn is_console(major: u32, minor: u32) -> bool {
    std::fs::read_to_string("/proc/consoles").is_ok_and(|list| lists(&list, major, minor))
}

/// A line of /proc/consoles ends with the device's numbers (proc(5)).
fn lists(consoles: &str, major: u32, minor: u32) -> bool {
    let numbers = format!("{major}:{minor}");
    consoles.lines().any(|line| line.split_whitespace().last() == Some(&numbers))
}

/// The living process that holds `path` by the UUCP convention, other than this one.
fn lock_holder(folder: &Path, path: &str) -> Option<u32> {
    let path = std::fs::canonicalize(path).ok()?;
    let text = std::fs::read_to_string(folder.join(format!("LCK..{}", path.file_name()?.to_str()?))).ok()?;
    let process: u32 = text.trim().parse().ok()?;
    let lives = Path::new("/proc").join(process.to_string()).exists();
    (lives && process != std::process::id()).then_some(process)
}

#[cfg(test)]
mod tests;
