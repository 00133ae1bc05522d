//! Moves octets between a socket and one end of a connection of load.

use crate::stream::End;
use std::io::{self, ErrorKind, Read, Write};
use std::net::{Shutdown, TcpStream};
use std::time::Duration;
use wavelane_base::{Instant, Span};
use wavelane_host::clock::since_boot;
use wavelane_host::load;
use wavelane_host::poller::{Poller, Watch};

/// Longest time between two calls of the owner.
const TURN: Duration = Duration::from_millis(10);
/// Reads and writes between two calls of the owner.
const ROUNDS: usize = 16;
const READ_ROOM: usize = 64 << 10;
/// Between measurements of a connection's own rate ...
const RATE_EVERY: Span = Span::from_millis(100);
/// ... of which so much time's worth may wait unsent (draft-ietf-ippm-responsiveness-09: about 5 ms), ...
const UNSENT: Span = Span::from_millis(5);
/// ... but not less octets than this, nor more.
const UNSENT_MIN: u64 = 4 << 10;
const UNSENT_MAX: u64 = 1 << 20;
/// Below this the kernel keeps to the bound only roughly (its packets before segmentation are as long), so we look ourselves ...
const LOOK_BELOW: u64 = 64 << 10;
/// ... so often.
const LOOK_EVERY: Duration = Duration::from_millis(2);

/// What a turn moved.
#[derive(Clone, Copy, Default, Debug)]
pub(crate) struct Moved {
    pub(crate) received: u64,
    pub(crate) sent: u64,
}

/// How much may wait unsent, by the connection's own rate.
struct Unsent {
    since: Instant,
    sent: u64,
    most: u64,
}

impl Unsent {
    /// Whether so much waits.
    fn enough(&self, stream: &TcpStream) -> bool {
        self.most < LOOK_BELOW && u64::from(load::unsent(stream)) >= self.most
    }

    /// Counts what was written, and sets the bound anew now and then.
    fn follow(&mut self, stream: &TcpStream, end: &mut End, sent: u64) -> io::Result<()> {
        self.sent += sent;
        let passed = since_boot().since(self.since);
        if passed < RATE_EVERY {
            return Ok(());
        }
        let unsent = u128::from(self.sent) * u128::from(UNSENT.as_nanos()) / u128::from(passed.as_nanos());
        self.most = u64::try_from(unsent).unwrap_or(UNSENT_MAX).clamp(UNSENT_MIN, UNSENT_MAX);
        (self.since, self.sent) = (since_boot(), 0);
        end.cut(self.most / 2);
        load::hold_unsent(stream, self.most as u32)
    }
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
    let mut unsent = Unsent { since: since_boot(), sent: 0, most: UNSENT_MIN };
    loop {
        let mut moved = Moved::default();
        let (mut idle, mut held) = (false, false);
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
            held = writable && unsent.enough(stream);
            if writable && !held {
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
        unsent.follow(stream, end, moved.sent)?;
        let patience = match (idle, held) {
            (false, _) => Duration::ZERO,
            (true, true) => LOOK_EVERY,
            (true, false) => TURN,
        };
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
