//! The metrics endpoint: HTTP on an address of the operator's choice, in threads of its own, from snapshots of the status document.

mod figures;

use crate::log::Pen;
use crate::start::{is_taken, lacks_address};
use crate::status::Report;
use std::io::{self, Read, Write};
use std::net::{Shutdown, SocketAddr, TcpListener, TcpStream};
use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;
use wavelane_base::{Instant, Span};
use wavelane_host::clock::since_boot;

/// Clients served at once; a further one is told to come again.
const CLIENTS_MAX: usize = 4;
/// A request's longest head.
const HEAD_MAX: usize = 4_096;
/// How long one client may take for its request, and again for each part of the answer that it reads.
const PATIENCE: Duration = Duration::from_secs(2);
/// A snapshot serves everyone for this long: the packet thread makes no more of them, however often it is asked.
const FRESH: Span = Span::from_millis(250);
/// No status document is longer.
const DOCUMENT_MAX: u64 = 16 << 20;
/// After an accept that failed, for lack of descriptors perhaps.
const REST: Duration = Duration::from_millis(200);

/// What all clients share.
struct Shared {
    control: PathBuf,
    clients: AtomicUsize,
    snapshot: Mutex<Option<(Instant, Arc<Report>)>>,
}

/// Where figures are served.
#[derive(Debug)]
pub(crate) enum Place {
    Open(TcpListener),
    /// An address that is not this machine's yet, or a port that another program has: no reason to carry no traffic.
    Awaited {
        at: SocketAddr,
        is_taken: bool,
    },
}

impl Place {
    /// Opens it; at boot the address may come later.
    pub(crate) fn open(at: SocketAddr) -> io::Result<Self> {
        match TcpListener::bind(at) {
            Err(why) if lacks_address(&why) || is_taken(&why) => Ok(Self::Awaited { at, is_taken: is_taken(&why) }),
            other => other.map(Self::Open),
        }
    }
    /// That it is waited for, if it is.
    pub(crate) fn remark(&self) -> Option<String> {
        let Self::Awaited { at, is_taken } = self else { return None };
        let (why, then) = match is_taken {
            true => (format!("another program has TCP port {at} (`ss -lptn` names it)"), "free"),
            false => (format!("address {} is not this machine's now", at.ip()), "there"),
        };
        Some(format!("warning: {why}, so no figures are served at {at}: they are as soon as it is {then}"))
    }
    /// The listener, as soon as there can be one.
    fn await_listener(self, pen: &Pen) -> TcpListener {
        let (at, was_taken) = match self {
            Self::Open(listener) => return listener,
            Self::Awaited { at, is_taken } => (at, is_taken),
        };
        let mut said = false;
        loop {
            match TcpListener::bind(at) {
                Ok(listener) => {
                    let what = if was_taken {
                        format!("TCP port {at} is free")
                    } else {
                        format!("address {} is there", at.ip())
                    };
                    pen.put(&format!("{what}: figures are served at {at}"));
                    return listener;
                }
                Err(why) if !lacks_address(&why) && !was_taken && !std::mem::replace(&mut said, true) => {
                    pen.put(&format!(
                        "warning: figures cannot be served at {at}: {why}; that is tried again and again"
                    ));
                }
                Err(_) => rest(),
            }
        }
    }
}

/// Serves a place for as long as the process lives. Snapshots come by the control socket.
pub(crate) fn serve(place: Place, control: &Path, pen: Pen) -> io::Result<()> {
    let shared = Arc::new(Shared { control: control.into(), clients: AtomicUsize::new(0), snapshot: Mutex::default() });
    std::thread::Builder::new().name("metrics".into()).spawn(move || {
        let listener = place.await_listener(&pen);
        loop {
            match listener.accept() {
                Ok((client, _)) => admit(&shared, client),
                Err(_) => rest(),
            }
        }
    })?;
    Ok(())
}

#[expect(clippy::disallowed_methods, reason = "a thread of its own, which nothing waits for")]
fn rest() {
    std::thread::sleep(REST);
}

fn admit(shared: &Arc<Shared>, mut client: TcpStream) {
    if shared.clients.fetch_add(1, Ordering::Relaxed) >= CLIENTS_MAX {
        shared.clients.fetch_sub(1, Ordering::Relaxed);
        // It fits any socket's buffer.
        let _ = client.write_all(answer("503 Service Unavailable", TEXT, "too many clients at once\n").as_bytes());
        return;
    }
    let its = Arc::clone(shared);
    let thread = std::thread::Builder::new().name("metrics client".into()).spawn(move || {
        let _ = its.handle(&mut client);
        its.clients.fetch_sub(1, Ordering::Relaxed);
    });
    if thread.is_err() {
        shared.clients.fetch_sub(1, Ordering::Relaxed);
    }
}

const TEXT: &str = "text/plain; charset=utf-8";
const CLASSIC: &str = "text/plain; version=0.0.4; charset=utf-8";
const OPEN_METRICS: &str = "application/openmetrics-text; version=1.0.0; charset=utf-8";

fn answer(status: &str, kind: &str, body: &str) -> String {
    format!(
        "HTTP/1.1 {status}\r\nContent-Type: {kind}\r\nContent-Length: {}\r\nConnection: close\r\n\r\n{body}",
        body.len()
    )
}

impl Shared {
    fn handle(&self, client: &mut TcpStream) -> io::Result<()> {
        client.set_write_timeout(Some(PATIENCE))?;
        let Some(head) = head(client)? else { return Ok(()) };
        let mut words = head.lines().next().unwrap_or_default().split(' ');
        let text = match (words.next(), words.next().map(|target| target.split('?').next())) {
            (Some("GET"), Some(Some("/metrics"))) => match self.snapshot() {
                Ok(report) => {
                    let text = figures::open_metrics(&report);
                    match asks_for_open_metrics(&head) {
                        true => answer("200 OK", OPEN_METRICS, &text),
                        false => answer("200 OK", CLASSIC, &figures::classic(&text)),
                    }
                }
                Err(why) => answer("503 Service Unavailable", TEXT, &format!("no snapshot: {why}\n")),
            },
            (Some("GET"), Some(_)) => answer("404 Not Found", TEXT, "the figures are at /metrics\n"),
            (Some(_), Some(_)) => answer("405 Method Not Allowed", TEXT, "GET /metrics\n"),
            _ => answer("400 Bad Request", TEXT, "GET /metrics\n"),
        };
        client.write_all(text.as_bytes())
    }

    fn snapshot(&self) -> io::Result<Arc<Report>> {
        let mut kept = self.snapshot.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some((at, report)) = kept.as_ref()
            && since_boot().since(*at) < FRESH
        {
            return Ok(Arc::clone(report));
        }
        let stream = UnixStream::connect(&self.control)?;
        stream.set_read_timeout(Some(PATIENCE))?;
        // Nothing is asked but the document. A daemon that ended already answers to that.
        let _ = stream.shutdown(Shutdown::Write);
        let mut text = Vec::new();
        stream.take(DOCUMENT_MAX).read_to_end(&mut text)?;
        let report: Arc<Report> = Arc::new(serde_json::from_slice(&text)?);
        *kept = Some((since_boot(), Arc::clone(&report)));
        Ok(report)
    }
}

/// A request's head; nothing if it is too long, too slow or cut off.
fn head(client: &mut TcpStream) -> io::Result<Option<String>> {
    let until = since_boot() + Span::from_nanos(PATIENCE.as_nanos() as u64);
    let (mut head, mut part) = (Vec::new(), [0; 1_024]);
    loop {
        let left = until.since(since_boot()).as_nanos();
        if left == 0 || head.len() > HEAD_MAX {
            return Ok(None);
        }
        client.set_read_timeout(Some(Duration::from_nanos(left)))?;
        match client.read(&mut part)? {
            0 => return Ok(None),
            n => head.extend_from_slice(&part[..n]),
        }
        if head.windows(4).any(|w| w == b"\r\n\r\n") {
            return Ok(Some(String::from_utf8_lossy(&head).into_owned()));
        }
    }
}

/// Whether the client takes OpenMetrics; others get Prometheus' older text.
fn asks_for_open_metrics(head: &str) -> bool {
    let fields = head.lines().skip(1).filter_map(|line| line.split_once(':'));
    let mut accepts = fields.filter(|(name, _)| name.eq_ignore_ascii_case("accept"));
    accepts.any(|(_, value)| value.contains("application/openmetrics-text"))
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "tests")]
    use super::*;
    use crate::control::Control;

    fn ask(at: SocketAddr, request: &str) -> String {
        let mut client = TcpStream::connect(at).unwrap();
        client.write_all(request.as_bytes()).unwrap();
        let mut text = String::new();
        let _ = client.read_to_string(&mut text);
        text
    }

    #[test]
    fn clients_get_figures_and_bad_ones_end_without_harm() {
        let path = std::env::temp_dir().join(format!("wavelane-metrics-{}.sock", std::process::id()));
        let control = Control::bind(&path).unwrap();
        control.listener.set_nonblocking(false).unwrap();
        std::thread::spawn(move || {
            let report = Report { pool_bytes: 77, ..Report::default() };
            let document = serde_json::to_string(&report).unwrap();
            while let Ok((mut stream, _)) = control.listener.accept() {
                stream.write_all(document.as_bytes()).unwrap();
            }
        });
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let at = listener.local_addr().unwrap();
        serve(Place::Open(listener), &path, Pen::open().unwrap()).unwrap();
        let plain = ask(at, "GET /metrics HTTP/1.1\r\nHost: x\r\n\r\n");
        assert!(plain.starts_with("HTTP/1.1 200 OK\r\nContent-Type: text/plain; version=0.0.4"), "{plain}");
        assert!(plain.contains("\nwavelane_pool_bytes 77.0\n") && !plain.contains("# EOF"), "{plain}");
        let open = ask(at, "GET /metrics?x HTTP/1.1\r\nAccept: application/openmetrics-text;version=1.0.0\r\n\r\n");
        assert!(open.contains("openmetrics-text; version=1.0.0") && open.ends_with("# EOF\n"), "{open}");
        assert!(ask(at, "GET / HTTP/1.1\r\n\r\n").starts_with("HTTP/1.1 404 "));
        assert!(ask(at, "POST /metrics HTTP/1.1\r\n\r\n").starts_with("HTTP/1.1 405 "));
        assert_eq!(ask(at, &"x".repeat(3 * HEAD_MAX)), "", "no head is that long");
        // Clients that say nothing hold their places for a while, and no more than those.
        let idle: Vec<TcpStream> = (0..CLIENTS_MAX).map(|_| TcpStream::connect(at).unwrap()).collect();
        assert!(ask(at, "GET /metrics HTTP/1.1\r\n\r\n").starts_with("HTTP/1.1 503 "));
        drop(idle);
        // The ends of those are noticed one by one.
        while !ask(at, "GET /metrics HTTP/1.1\r\n\r\n").starts_with("HTTP/1.1 200 ") {}
        let _ = std::fs::remove_file(&path);
    }
}
