//! The HTTP server of a node: sends bodies (GET) and receives them (PUT), one path per flow.

use crate::LabError;
use crate::content::{Content, Received};
use crate::sockets;
use crate::worker::Worker;
use std::collections::BTreeMap;
use std::net::SocketAddr;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, OnceLock, PoisonError};
use std::time::Duration;
use tiny_http::{Header, Method, Request, Response, Server};
use wavelane_base::Instant;
use wavelane_host::netns::Netns;
use wavelane_host::realtime;

/// Interval at which the server checks whether it must stop.
const GLANCE: Duration = Duration::from_millis(50);
/// Bytes read from an upload at once.
const CHUNK: usize = 64 << 10;

/// Start of the run; empty until then.
pub(crate) type Epoch = Arc<OnceLock<Instant>>;

/// The resource behind one path.
pub(crate) enum Page {
    /// A body to send once, of this many bytes.
    Download(Mutex<Option<Content>>, u64),
    /// A body to receive.
    Upload(Arc<Upload>),
}

/// A body being received.
#[derive(Default)]
pub(crate) struct Upload {
    /// What has arrived.
    pub(crate) received: Mutex<Received>,
    /// Whether it has arrived completely.
    pub(crate) ended: AtomicBool,
}

/// A running server. Dropping it stops it.
pub(crate) struct Http {
    active: Arc<AtomicUsize>,
    _worker: Worker,
}

impl Http {
    /// Serves `pages` by path (the flow's name) at `address` inside `ns`; accepted sockets use `control` and may hold `unsent` bytes not yet sent.
    pub(crate) fn start(
        ns: &Netns,
        address: SocketAddr,
        (control, unsent): (&str, u32),
        pages: BTreeMap<String, Page>,
        epoch: Epoch,
    ) -> Result<Self, LabError> {
        let listener = sockets::listen_holding(ns, address, control, unsent)?;
        let active = Arc::new(AtomicUsize::new(0));
        let busy = Arc::clone(&active);
        let pages = Arc::new(pages);
        let what = format!("cannot serve HTTP at {address}");
        // The server's thread pool starts here, outside the namespace, because it lingers some seconds after the end and would keep the
        // namespace alive.
        let server = Server::from_listener(listener, None);
        let server = server.map_err(|e| LabError::Io { what: what.clone(), error: std::io::Error::other(e) })?;
        // This one runs inside, because dropping the server connects to it to end its accept loop.
        let work = move |stop: &Arc<AtomicBool>| serve(&server, stop, &busy, &pages, &epoch);
        let worker = ns.run(move || Worker::start("http", work))?.map_err(LabError::io(what))?;
        Ok(Self { active, _worker: worker })
    }

    /// Whether no request is being answered.
    pub(crate) fn is_idle(&self) -> bool {
        self.active.load(Ordering::Acquire) == 0
    }
}

fn serve(
    server: &Server,
    stop: &AtomicBool,
    active: &Arc<AtomicUsize>,
    pages: &Arc<BTreeMap<String, Page>>,
    epoch: &Epoch,
) {
    while !stop.load(Ordering::Acquire) {
        let Ok(request) = server.recv_timeout(GLANCE) else { return };
        let Some(request) = request else { continue };
        active.fetch_add(1, Ordering::AcqRel);
        let (busy, pages, epoch) = (Arc::clone(active), Arc::clone(pages), Arc::clone(epoch));
        let answering = std::thread::Builder::new().name("http-answer".into()).spawn(move || {
            // The client may have closed; its side of the run reports it.
            let _ = answer(request, &pages, &epoch);
            busy.fetch_sub(1, Ordering::AcqRel);
        });
        if answering.is_err() {
            active.fetch_sub(1, Ordering::AcqRel);
        }
    }
}

fn answer(request: Request, pages: &BTreeMap<String, Page>, epoch: &Epoch) -> std::io::Result<()> {
    let page = pages.get(request.url().trim_start_matches('/'));
    match (request.method(), page) {
        (Method::Get, Some(Page::Download(content, octets))) => {
            let Some(body) = content.lock().unwrap_or_else(PoisonError::into_inner).take() else {
                return request
                    .respond(Response::from_string("this body was given away already").with_status_code(410));
            };
            let kind = Header::from_bytes("Content-Type", "application/octet-stream").map_err(|()| unheadable())?;
            let length = usize::try_from(*octets).map_err(std::io::Error::other)?;
            let response = Response::new(200.into(), vec![kind], body, Some(length), None);
            request.respond(response.with_chunked_threshold(usize::MAX))
        }
        (Method::Put, Some(Page::Upload(upload))) => take(request, upload, epoch),
        _ => request.respond(Response::from_string("no flow of that name").with_status_code(404)),
    }
}

fn unheadable() -> std::io::Error {
    std::io::Error::other("a constant header is not ASCII")
}

fn take(mut request: Request, upload: &Upload, epoch: &Epoch) -> std::io::Result<()> {
    let start = epoch.get().copied().ok_or_else(|| std::io::Error::other("an upload before the run's start"))?;
    let mut buffer = vec![0; CHUNK];
    loop {
        let len = request.as_reader().read(&mut buffer)?;
        if len == 0 {
            break;
        }
        upload.received.lock().unwrap_or_else(PoisonError::into_inner).note(start, realtime::now(), &buffer[..len]);
    }
    upload.ended.store(true, Ordering::Release);
    request.respond(Response::empty(204))
}
