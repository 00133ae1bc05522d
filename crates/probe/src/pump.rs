//! Moves octets between a socket and one end of a connection of load.

use crate::stream::End;
use std::io::{self, ErrorKind, Read, Write};
use std::net::{Shutdown, TcpStream};
use std::time::Duration;
use wavelane_host::load;
use wavelane_host::poller::{Poller, Watch};

/// Longest time between two calls of the owner.
const TURN: Duration = Duration::from_millis(10);
/// Reads and writes between two calls of the owner.
const ROUNDS: usize = 16;
const READ_ROOM: usize = 64 << 10;

/// What a turn moved.
#[derive(Clone, Copy, Default, Debug)]
pub(crate) struct Moved {
    pub(crate) received: u64,
    pub(crate) sent: u64,
}

/// Moves octets until the other end closes or `turn` says stop. `turn` is called at least every [`TURN`].
pub(crate) fn pump(
    mut stream: &TcpStream,
    end: &mut End,
    mut turn: impl FnMut(&mut End, Moved) -> bool,
) -> io::Result<()> {
    stream.set_nonblocking(true)?;
    let mut poller = Poller::new()?;
    poller.add(stream, 0, Watch::Edges)?;
    let (mut readable, mut writable) = (true, true);
    let mut room = vec![0; READ_ROOM];
    loop {
        let mut moved = Moved::default();
        let mut idle = false;
        for _ in 0..ROUNDS {
            if readable {
                match stream.read(&mut room) {
                    Ok(0) => {
                        turn(end, moved);
                        return Ok(());
                    }
                    Ok(n) => {
                        moved.received += n as u64;
                        end.take(&room[..n]).map_err(|e| io::Error::new(ErrorKind::InvalidData, e))?;
                    }
                    Err(e) if e.kind() == ErrorKind::WouldBlock => readable = false,
                    Err(e) if e.kind() == ErrorKind::Interrupted => {}
                    Err(e) => return Err(e),
                }
            }
            let mut wrote = false;
            if writable {
                let out = end.fill(|| load::in_flight(stream));
                match if out.is_empty() { Ok(0) } else { stream.write(out) } {
                    Ok(n) => {
                        moved.sent += n as u64;
                        end.wrote(n);
                        wrote = n > 0;
                    }
                    Err(e) if e.kind() == ErrorKind::WouldBlock => writable = false,
                    Err(e) if e.kind() == ErrorKind::Interrupted => {}
                    Err(e) => return Err(e),
                }
            }
            idle = !readable && !wrote;
            if idle {
                break;
            }
        }
        if !turn(end, moved) {
            return Ok(());
        }
        let patience = if idle { TURN } else { Duration::ZERO };
        for ready in poller.wait(Some(patience))? {
            readable |= ready.readable;
            writable |= ready.writable;
        }
    }
}

/// Ends a connection in order: what was written is sent, then the end. A reset would look like trouble to others.
pub(crate) fn close(mut stream: &TcpStream, patience: Duration) {
    let _ = stream.set_nonblocking(false);
    let _ = stream.set_read_timeout(Some(patience));
    let _ = stream.shutdown(Shutdown::Write);
    let mut room = vec![0; READ_ROOM];
    for _ in 0..4_096 {
        if !matches!(stream.read(&mut room), Ok(n) if n > 0) {
            return;
        }
    }
}
