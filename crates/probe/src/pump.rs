//! Copies octets between a socket and one end of a connection of load.

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
/// Interval of measurements of a connection's own rate ...
const RATE_EVERY: Span = Span::from_millis(100);
/// ... of which this much time's worth may be queued unsent (draft-ietf-ippm-responsiveness-09: about 5 ms), ...
const UNSENT: Span = Span::from_millis(5);
/// ... within these limits in octets.
const UNSENT_MIN: u64 = 4 << 10;
const UNSENT_MAX: u64 = 1 << 20;
/// Below this the kernel enforces the limit only roughly (its packets before segmentation are as long), so we check ourselves ...
const LOOK_BELOW: u64 = 64 << 10;
/// ... at this interval.
const LOOK_EVERY: Duration = Duration::from_millis(2);

/// Octets moved in one turn.
#[derive(Clone, Copy, Default, Debug)]
pub(crate) struct Moved {
    pub(crate) received: u64,
    pub(crate) sent: u64,
}

/// Limit of unsent octets, by the connection's own rate.
struct Unsent {
    since: Instant,
    sent: u64,
    most: u64,
}

impl Unsent {
    /// Whether the limit is reached.
    fn enough(&self, stream: &TcpStream) -> bool {
        self.most < LOOK_BELOW && u64::from(load::unsent(stream)) >= self.most
    }

    /// Counts what was written, and periodically updates the limit.
    fn follow(&mut self, stream: &TcpStream, end: &mut End, sent: u64) -> io::Result<()> {
        self.sent += sent;
        let passed = since_boot().since(self.since);
        if passed < RATE_EVERY {
            return Ok(());
        }
        let unsent = u128::from(self.sent) * u128::from(UNSENT.as_nanos()) / u128::from(passed.as_nanos());
        self.most = u64::try_from(unsent).unwrap_or(UNSENT_MAX).clamp(UNSENT_MIN, UNSENT_MAX);
        self.since = since_boot();
        self.sent = 0;
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

/// Timeout without data for a connection that is being closed, ...
const CLOSE_STILL: Duration = Duration::from_millis(500);
/// ... and its maximum in any case: a queue of that length has drained.
const CLOSE_MAX: Span = Span::from_secs(10);

/// Closes a connection in order: unsent data is sent, then the end. A reset would look like a fault to others. Returns how many octets were
/// still received.
pub(crate) fn close(stream: &TcpStream) -> u64 {
    close_within(stream, CLOSE_MAX)
}

fn close_within(mut stream: &TcpStream, most: Span) -> u64 {
    let until = since_boot() + most;
    let _ = stream.set_nonblocking(false);
    let _ = stream.shutdown(Shutdown::Write);
    let (mut room, mut came) = (vec![0; READ_ROOM], 0);
    while let Ok(left) = left(until) {
        let read = stream.set_read_timeout(Some(left.min(CLOSE_STILL))).and_then(|()| stream.read(&mut room));
        match read {
            Ok(n @ 1..) => came += n as u64,
            _ => break,
        }
    }
    came
}

/// The time until then; an error if it has passed.
pub(crate) fn left(until: Instant) -> io::Result<Duration> {
    let left = Duration::from_nanos(until.since(since_boot()).as_nanos());
    if left.is_zero() { Err(ErrorKind::TimedOut.into()) } else { Ok(left) }
}

/// Fills `room` by then, in any number of pieces: a peer that sends single octets gets no additional time.
pub(crate) fn read_by(mut stream: &TcpStream, room: &mut [u8], until: Instant) -> io::Result<()> {
    let mut read = 0;
    while read < room.len() {
        stream.set_read_timeout(Some(left(until)?))?;
        match stream.read(&mut room[read..])? {
            0 => return Err(ErrorKind::UnexpectedEof.into()),
            n => read += n,
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "tests")]
    use super::*;
    use std::net::TcpListener;
    use std::sync::mpsc::{RecvTimeoutError::Timeout, channel};

    /// Runs `work` on a connection whose other end sends an octet every 20 ms until `work` is done.
    fn against_a_drip<T>(work: impl FnOnce(&TcpStream) -> T) -> T {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let slow = TcpStream::connect(listener.local_addr().unwrap()).unwrap();
        let (stream, _) = listener.accept().unwrap();
        let (end, ended) = channel::<()>();
        let writer = std::thread::spawn(move || {
            while (&slow).write_all(b"x").is_ok()
                && ended.recv_timeout(Duration::from_millis(20)).is_err_and(|e| e == Timeout)
            {}
        });
        let done = work(&stream);
        drop((end, stream));
        writer.join().unwrap();
        done
    }

    #[test]
    fn what_comes_in_small_pieces_has_no_more_time() {
        // Endless: only the deadline ends it.
        let until = since_boot() + Span::from_millis(200);
        let why = against_a_drip(|stream| read_by(stream, &mut vec![0; 1 << 20], until)).unwrap_err();
        assert!(matches!(why.kind(), ErrorKind::TimedOut | ErrorKind::WouldBlock), "{why}");
    }

    #[test]
    fn a_peer_that_goes_on_to_send_does_not_keep_a_connection() {
        assert!(against_a_drip(|stream| close_within(stream, Span::from_millis(300))) > 0);
    }
}
