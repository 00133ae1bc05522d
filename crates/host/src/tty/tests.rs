#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]
use super::*;
use crate::realtime;
use wavelane_base::{Instant, Span};

const SETTINGS: PortSettings = PortSettings { rate: 33_600, hardware_flow: false, carrier: false };

/// Reads `len` octets, at most 5 s.
fn read(mut read: impl FnMut(&mut [u8]) -> io::Result<Option<usize>>, fd: BorrowedFd<'_>, len: usize) -> Vec<u8> {
    let (mut got, until) = (Vec::new(), realtime::now() + Span::from_secs(5));
    while got.len() < len && realtime::now() < until {
        let mut buf = [0; 256];
        match read(&mut buf).unwrap() {
            Some(len) => got.extend_from_slice(&buf[..len]),
            None => drop(realtime::wait(&[fd], until)),
        }
    }
    got
}

#[test]
fn every_octet_passes_both_ways_as_it_is_at_a_rate_that_is_no_constant() {
    let mut far = Pty::open().unwrap();
    // As a terminal is by default, echo and all, and with something from before.
    let mut modes = nix::sys::termios::tcgetattr(&far).unwrap();
    use nix::sys::termios::{InputFlags, LocalFlags, OutputFlags, SetArg};
    modes.local_flags |= LocalFlags::ECHO | LocalFlags::ICANON | LocalFlags::ISIG;
    modes.input_flags |= InputFlags::ICRNL | InputFlags::IXON | InputFlags::ISTRIP;
    modes.output_flags |= OutputFlags::OPOST | OutputFlags::ONLCR;
    nix::sys::termios::tcsetattr(&far, SetArg::TCSANOW, &modes).unwrap();
    far.write(b"login: ").unwrap();
    // The kernel carries octets to the other end in its own time: the echo shows that they stand there.
    let fd = far.as_fd().try_clone_to_owned().unwrap();
    assert_eq!(read(|buf| far.read(buf), fd.as_fd(), 7), b"login: ");
    let near = Tty::open(far.port(), SETTINGS).unwrap();
    assert_eq!(near.read(&mut [0; 64]).unwrap(), None, "what came before is gone");
    let all: Vec<u8> = (0..=255).collect();
    assert_eq!(near.write(&all).unwrap(), 256);
    assert_eq!(read(|buf| far.read(buf), fd.as_fd(), 256), all);
    assert_eq!(far.write(&all).unwrap(), 256);
    assert_eq!(read(|buf| near.read(buf), near.as_fd(), 256), all);
    assert_eq!(far.read(&mut [0; 64]).unwrap(), None, "nothing is echoed");
    assert_eq!((near.queued(), near.modem_lines()), (0, None));
}

#[test]
fn an_end_that_goes_is_an_error_and_a_new_one_another_device() {
    let far = Pty::open().unwrap();
    let path = far.port().to_owned();
    let before = identity(&path);
    assert!(before.is_some() && identity(&path) == before);
    let near = Tty::open(&path, SETTINGS).unwrap();
    drop(far);
    assert!(near.read(&mut [0; 9]).is_err() && near.write(b"x").is_err());
    assert_eq!(identity(&path), None);
    assert_eq!(Tty::open(&path, SETTINGS).unwrap_err(), TtyError::Missing);
}

#[test]
fn a_port_has_one_owner_and_is_free_when_that_is_gone() {
    let far = Pty::open().unwrap();
    let first = Tty::open(far.port(), SETTINGS).unwrap();
    assert_eq!(Tty::open(far.port(), SETTINGS).unwrap_err(), TtyError::Busy("another program".into()));
    drop(first);
    Tty::open(far.port(), SETTINGS).unwrap();
    // The convention of UUCP.
    let folder = std::env::temp_dir().join(format!("wavelane-tty-{}", std::process::id()));
    std::fs::create_dir_all(&folder).unwrap();
    let name = Path::new(far.port()).file_name().unwrap().to_str().unwrap();
    let lock = folder.join(format!("LCK..{name}"));
    assert_eq!(lock_holder(&folder, far.port()), None);
    for (process, holder) in [(1, Some(1)), (std::process::id(), None), (u32::MAX, None)] {
        std::fs::write(&lock, format!("{process:>10}\n")).unwrap();
        assert_eq!(lock_holder(&folder, far.port()), holder);
    }
    std::fs::remove_dir_all(&folder).unwrap();
}

#[test]
fn what_is_no_usable_port_is_refused_with_a_remedy() {
    let file = std::env::temp_dir().join(format!("wavelane-no-tty-{}", std::process::id()));
    std::fs::write(&file, "").unwrap();
    let open = |path: &str, settings| Tty::open(path, settings).unwrap_err();
    assert_eq!(open(file.to_str().unwrap(), SETTINGS), TtyError::NoTerminal);
    assert_eq!(open("/dev/null", SETTINGS), TtyError::NoTerminal);
    assert_eq!(open("/dev/no-such-port", SETTINGS), TtyError::Missing);
    let far = Pty::open().unwrap();
    assert_eq!(open(far.port(), PortSettings { carrier: true, ..SETTINGS }), TtyError::NoModemLines);
    assert_eq!(open(far.port(), PortSettings { hardware_flow: true, ..SETTINGS }), TtyError::NoModemLines);
    std::fs::remove_file(&file).unwrap();
    assert!(lists("tty0 -WU (EC p) 4:7\nttyS0 -W- (EC p a) 4:64\n", 4, 64));
    assert!(!lists("ttyS0 -W- (EC p a) 4:64\n", 4, 6));
    let all = [
        TtyError::Missing,
        TtyError::Permission,
        TtyError::NoTerminal,
        TtyError::Console,
        TtyError::Busy("process 7".into()),
        TtyError::Rate { asked: 1, nearest: 2 },
        TtyError::NoModemLines,
        TtyError::NoCarrier,
        TtyError::System("input/output error".into()),
    ];
    for why in all {
        let error = io::Error::from(why.clone());
        assert_eq!((TtyError::of(&error), error.to_string()), (Some(&why), why.to_string()));
        assert!(!why.remedy().is_empty() && !why.remedy().contains('\n'));
    }
    assert_eq!(TtyError::of(&io::ErrorKind::NotFound.into()), None);
}

#[test]
fn twenty_milliseconds_of_octets_wait_at_most() {
    let mut pace = Pace::new(33_600);
    let start = Instant::from_secs(9);
    // 3,360 octets a second.
    assert_eq!((pace.room(start), pace.time_for(3_360)), (67, Span::from_secs(1)));
    pace.wrote(start, 67);
    assert_eq!(pace.room(start), 0);
    let (mut at, mut sent) = (start, 67);
    while at < start + Span::from_secs(10) {
        at = pace.again();
        let room = pace.room(at);
        assert!((30..=36).contains(&room), "{room}");
        pace.wrote(at, room);
        sent += room;
    }
    let due = 33_600 + 67;
    assert!((due - 70..=due + 35).contains(&sent), "{sent} octets in 10 s");
    // Late, it does not make up for what was not sent.
    assert_eq!(pace.room(at + Span::from_secs(60)), 67);
    let slow = Pace::new(300);
    assert_eq!((slow.room(start), slow.octets_max()), (2, 2), "a slow line gets one octet behind the one on the wire");
}
