//! Such a server: a document, a small answer, a practically endless large one, and an upload that is discarded.
//!
//! A TCP client's address is verified by the handshake, so no answer goes to a spoofed address. Load is admitted and counted by
//! [`crate::server`].

use super::CONFIG_PATH;
use super::wire::{either, piece};
use crate::serve::{Language, Shared};
use hyper::body::{Body, Bytes, Frame, Incoming, SizeHint};
use hyper::header::{CACHE_CONTROL, CONTENT_TYPE, HOST, HeaderValue, RETRY_AFTER};
use hyper::server::conn::{http1, http2};
use hyper::service::service_fn;
use hyper::{Method, Request, Response, StatusCode};
use hyper_util::rt::{TokioExecutor, TokioIo, TokioTimer};
use std::convert::Infallible;
use std::future::poll_fn;
use std::io;
use std::net::{IpAddr, SocketAddr, TcpStream};
use std::path::Path;
use std::pin::{Pin, pin};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::task::{Context, Poll};
use std::time::Duration;
use tokio_rustls::TlsAcceptor;
use tokio_rustls::rustls::pki_types::pem::PemObject;
use tokio_rustls::rustls::pki_types::{CertificateDer, PrivateKeyDer};
use tokio_rustls::rustls::{ServerConfig, crypto};
use wavelane_base::text::ShownPath;
use wavelane_base::{Instant, Span};
use wavelane_host::clock::since_boot;

const SMALL_PATH: &str = "/nq/small";
const LARGE_PATH: &str = "/nq/large";
const UPLOAD_PATH: &str = "/nq/upload";
/// Octets of a large answer (the draft requires 8 GB at least); the budget usually ends it before.
const LARGE: u64 = 64 << 30;
/// Timeout of a request's head.
const HEAD_PATIENCE: Duration = Duration::from_secs(5);
/// Idle timeout of a connection.
const STILL_MAX: Span = Span::from_secs(10);
/// Maximum lifetime of a connection without load, even if active.
const LOADLESS_MAX: Span = Span::from_secs(60);
/// Interval of these checks.
const TURN: Duration = Duration::from_millis(500);
/// Maximum size of a request's head in octets.
const HEAD_MAX: usize = 16 << 10;
const HEADERS_MAX: usize = 64;
/// Maximum number of concurrent requests in one connection.
const REQUESTS_MAX: u32 = 16;
/// Receive window of one connection.
const WINDOW: u32 = 4 << 20;
/// Maximum unsent octets buffered above the kernel.
const UNSENT: usize = 16 << 10;
/// A host's name with its port.
const HOST_MAX: usize = 255;

/// A certificate and its key.
pub struct Certificate(pub(crate) ServerConfig);

impl Certificate {
    /// Reads both from PEM files; the error names the file.
    pub fn read(chain: &Path, key: &Path) -> Result<Self, String> {
        let wrong = |at: &Path, why: &dyn std::fmt::Display| format!("cannot use {}: {why}", at.shown());
        let certificates = CertificateDer::pem_file_iter(chain).map_err(|e| wrong(chain, &e))?;
        let certificates: Result<Vec<_>, _> = certificates.collect();
        let certificates = certificates.map_err(|e| wrong(chain, &e))?;
        if certificates.is_empty() {
            return Err(wrong(chain, &"it holds no certificate (BEGIN CERTIFICATE)"));
        }
        let private = PrivateKeyDer::from_pem_file(key).map_err(|e| wrong(key, &e))?;
        let config = ServerConfig::builder_with_provider(Arc::new(crypto::ring::default_provider()))
            .with_safe_default_protocol_versions()
            .map_err(|e| wrong(chain, &e))?
            .with_no_client_auth()
            .with_single_cert(certificates, private);
        let mut config = config.map_err(|e| wrong(key, &e))?;
        config.alpn_protocols = vec![b"h2".to_vec(), b"http/1.1".to_vec()];
        Ok(Self(config))
    }
}

/// A connection, and its time of last activity.
struct Client {
    ip: IpAddr,
    tls: bool,
    moved: AtomicU64,
    /// When the connection ends even if active, in nanoseconds since boot.
    ends: AtomicU64,
    place: u64,
    shared: Arc<Shared>,
}

impl Client {
    fn touch(&self) -> Instant {
        let now = since_boot();
        self.moved.store(now.as_nanos(), Ordering::Relaxed);
        now
    }
    fn is_still(&self) -> bool {
        since_boot().since(Instant::from_nanos(self.moved.load(Ordering::Relaxed))) >= STILL_MAX
    }
    fn is_over(&self) -> bool {
        since_boot().as_nanos() >= self.ends.load(Ordering::Relaxed)
    }
}

/// A request of load, from its admission to its end, however it ends.
struct Carried {
    client: Arc<Client>,
    until: Instant,
}

impl Carried {
    /// Counts octets; false if the request must end.
    fn count(&self, octets: usize) -> bool {
        let now = self.client.touch();
        now < self.until
            && !self.client.shared.stopped()
            && self.client.shared.server().count_request(now, self.client.ip, octets as u64)
    }
}

impl Drop for Carried {
    fn drop(&mut self) {
        self.client.shared.server().end_request(since_boot(), self.client.ip);
    }
}

/// The kinds of answers.
enum Answer {
    Whole(Option<Bytes>),
    Load { left: u64, piece: Bytes, carried: Carried },
}

impl Body for Answer {
    type Data = Bytes;
    type Error = io::Error;
    fn poll_frame(mut self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<Option<io::Result<Frame<Bytes>>>> {
        Poll::Ready(match &mut *self {
            Self::Whole(whole) => whole.take().map(|octets| Ok(Frame::data(octets))),
            Self::Load { left: 0, .. } => None,
            Self::Load { left, piece, carried } => {
                let octets = piece.slice(..piece.len().min(usize::try_from(*left).unwrap_or(usize::MAX)));
                *left -= octets.len() as u64;
                Some(match carried.count(octets.len()) {
                    true => Ok(Frame::data(octets)),
                    false => Err(io::Error::other("this address has used up its time or bytes")),
                })
            }
        })
    }
    fn size_hint(&self) -> SizeHint {
        SizeHint::with_exact(match self {
            Self::Whole(whole) => whole.as_ref().map_or(0, Bytes::len) as u64,
            Self::Load { left, .. } => *left,
        })
    }
}

/// Serves one connection until its end; the TLS handshake must finish within `patience`.
pub(crate) fn connection(
    stream: &TcpStream,
    from: SocketAddr,
    place: u64,
    (language, patience): (Language, Duration),
    shared: &Arc<Shared>,
) -> io::Result<()> {
    let acceptor = match (language, &shared.tls) {
        (Language::Tls, None) => return Ok(()),
        (Language::Tls, Some(config)) => Some(TlsAcceptor::from(Arc::clone(config))),
        _ => None,
    };
    let now = since_boot();
    let client = Arc::new(Client {
        ip: from.ip(),
        tls: acceptor.is_some(),
        moved: AtomicU64::new(now.as_nanos()),
        ends: AtomicU64::new((now + LOADLESS_MAX).as_nanos()),
        place,
        shared: Arc::clone(shared),
    });
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
    let socket = stream.try_clone()?;
    socket.set_nonblocking(true)?;
    runtime.block_on(async {
        let stream = tokio::net::TcpStream::from_std(socket)?;
        let serving = async {
            let Some(acceptor) = acceptor else {
                return speak(TokioIo::new(stream), language == Language::Http2, &client).await;
            };
            let shaken = tokio::time::timeout(patience, acceptor.accept(stream)).await;
            let stream = shaken.map_err(|_| io::Error::from(io::ErrorKind::TimedOut))??;
            let h2 = stream.get_ref().1.alpn_protocol() == Some(b"h2");
            speak(TokioIo::new(stream), h2, &client).await
        };
        either(serving, async {
            still(&client).await;
            Ok(())
        })
        .await
    })
}

async fn still(client: &Client) {
    while !client.is_still() && !client.is_over() && !client.shared.stopped() {
        tokio::time::sleep(TURN).await;
    }
}

async fn speak<I>(io: I, h2: bool, client: &Arc<Client>) -> io::Result<()>
where
    I: hyper::rt::Read + hyper::rt::Write + Unpin + Send + 'static,
{
    let client = Arc::clone(client);
    let service = service_fn(move |request| {
        let client = Arc::clone(&client);
        async move { Ok::<_, Infallible>(answer(request, &client).await) }
    });
    let served = if h2 {
        let mut builder = http2::Builder::new(TokioExecutor::new());
        builder.timer(TokioTimer::new()).max_concurrent_streams(REQUESTS_MAX).max_header_list_size(HEAD_MAX as u32);
        builder.initial_connection_window_size(WINDOW).initial_stream_window_size(WINDOW).max_send_buf_size(UNSENT);
        builder.serve_connection(io, service).await
    } else {
        let mut builder = http1::Builder::new();
        builder.timer(TokioTimer::new()).header_read_timeout(HEAD_PATIENCE);
        builder.max_buf_size(HEAD_MAX).max_headers(HEADERS_MAX);
        builder.serve_connection(io, service).await
    };
    served.map_err(io::Error::other)
}

fn plain(status: StatusCode, kind: &'static str, text: impl Into<Bytes>) -> Response<Answer> {
    let mut answer = Response::new(Answer::Whole(Some(text.into())));
    *answer.status_mut() = status;
    answer.headers_mut().insert(CONTENT_TYPE, HeaderValue::from_static(kind));
    answer.headers_mut().insert(CACHE_CONTROL, HeaderValue::from_static("no-store, no-transform"));
    answer
}

const TEXT: &str = "text/plain; charset=utf-8";
const OCTETS: &str = "application/octet-stream";

fn later(text: &'static str) -> Response<Answer> {
    let mut answer = plain(StatusCode::TOO_MANY_REQUESTS, TEXT, text);
    answer.headers_mut().insert(RETRY_AFTER, HeaderValue::from_static("60"));
    answer
}

async fn answer(request: Request<Incoming>, client: &Arc<Client>) -> Response<Answer> {
    let now = client.touch();
    if !client.shared.server().admit_question(now, client.ip) {
        return later("too many requests from this address\n");
    }
    let reads = matches!(*request.method(), Method::GET | Method::HEAD);
    let writes = matches!(*request.method(), Method::POST | Method::PUT);
    match request.uri().path() {
        CONFIG_PATH if reads => match host(&request) {
            Some(host) => plain(StatusCode::OK, "application/json", document(&host, client.tls)),
            None => plain(StatusCode::BAD_REQUEST, TEXT, "the request names no host\n"),
        },
        SMALL_PATH if reads => plain(StatusCode::OK, OCTETS, "1"),
        LARGE_PATH if request.method() == Method::HEAD => plain(StatusCode::OK, OCTETS, ""),
        LARGE_PATH if reads => match admit(client, now) {
            Ok(carried) => {
                let mut answer = plain(StatusCode::OK, OCTETS, "");
                *answer.body_mut() = Answer::Load { left: LARGE, piece: piece(), carried };
                answer
            }
            Err(why) => later(why),
        },
        UPLOAD_PATH if writes => match admit(client, now) {
            Ok(carried) => discard(request.into_body(), carried).await,
            Err(why) => later(why),
        },
        CONFIG_PATH | SMALL_PATH | LARGE_PATH | UPLOAD_PATH => {
            plain(StatusCode::METHOD_NOT_ALLOWED, TEXT, "GET what is read, POST what is uploaded\n")
        }
        _ => plain(
            StatusCode::NOT_FOUND,
            TEXT,
            "a probe server: its configuration is at /.well-known/nq; measure it by 'wavelane probe HOST'\n",
        ),
    }
}

fn admit(client: &Arc<Client>, now: Instant) -> Result<Carried, &'static str> {
    let admission = client.shared.server().admit_request(now, client.ip).map_err(crate::packet::Refusal::text)?;
    // The client has sent its request, and may continue as long as its measurement lasts. A connection that already lost its place ends by
    // itself.
    client.shared.places().opened(client.place);
    client.ends.store(admission.until.as_nanos(), Ordering::Relaxed);
    Ok(Carried { client: Arc::clone(client), until: admission.until })
}

async fn discard(mut body: Incoming, carried: Carried) -> Response<Answer> {
    loop {
        match poll_fn(|cx| pin!(&mut body).poll_frame(cx)).await {
            None => return plain(StatusCode::OK, TEXT, ""),
            Some(Err(_)) => return plain(StatusCode::BAD_REQUEST, TEXT, ""),
            Some(Ok(frame)) => {
                if !carried.count(frame.data_ref().map_or(0, Bytes::len)) {
                    return later("this address has used up its time or bytes\n");
                }
            }
        }
    }
}

/// The name by which the client addresses us; only characters that are valid in a URL.
fn host(request: &Request<Incoming>) -> Option<String> {
    let named = request.uri().authority().map(|a| a.as_str().to_owned());
    let named = named.or_else(|| Some(request.headers().get(HOST)?.to_str().ok()?.to_owned()))?;
    let allowed = |c: char| c.is_ascii_alphanumeric() || ".-:[]".contains(c);
    (!named.is_empty() && named.len() <= HOST_MAX && named.chars().all(allowed)).then_some(named)
}

/// The draft's document.
fn document(host: &str, tls: bool) -> String {
    let url = |path: &str| format!("{}://{host}{path}", if tls { "https" } else { "http" });
    serde_json::json!({
        "version": 1,
        "urls": {
            "small_download_url": url(SMALL_PATH),
            "large_download_url": url(LARGE_PATH),
            "upload_url": url(UPLOAD_PATH),
        },
    })
    .to_string()
}
