//! One HTTP connection to the measured server: opening, timing, and requests.

use super::config::{CONFIG_MAX, quoted, server};
use hyper::body::{Body, Bytes, Frame, Incoming, SizeHint};
use hyper::client::conn::{http1, http2};
use hyper::header::{ACCEPT, HOST, HeaderValue, LOCATION, USER_AGENT};
use hyper::{Method, Request, Response, Uri, Version};
use hyper_util::rt::{TokioExecutor, TokioIo, TokioTimer};
use std::convert::Infallible;
use std::future::{Future, poll_fn};
use std::io;
use std::net::{SocketAddr, TcpStream};
use std::pin::{Pin, pin};
use std::sync::Arc;
use std::task::{Context, Poll};
use std::time::Duration;
use tokio_rustls::TlsConnector;
use tokio_rustls::rustls::pki_types::ServerName;
use tokio_rustls::rustls::{ClientConfig, ProtocolVersion};
use wavelane_base::Span;
use wavelane_host::clock::since_boot;
use wavelane_host::load as sockets;

/// Timeout of a connection, its handshakes, and an answer's head.
pub(super) const PATIENCE: Duration = Duration::from_secs(10);
/// If the server does not answer HTTP/2 on plain TCP by then, HTTP/1.1 is used.
const PLAIN_H2_PATIENCE: Duration = Duration::from_secs(3);
/// Maximum size of a head in octets.
const HEAD_MAX: usize = 16 << 10;
const HEADERS_MAX: usize = 100;
/// Receive window of one connection: 100 ms at more than a gigabit per second.
const WINDOW: u32 = 16 << 20;
/// Maximum unsent octets that HTTP/2 buffers above the kernel.
const UNSENT: usize = 16 << 10;
/// Size of a piece of load.
const PIECE: usize = 16 << 10;
const AGENT: &str = concat!("wavelane/", env!("CARGO_PKG_VERSION"));

/// A body of load, or none.
pub(crate) struct Payload {
    left: u64,
    piece: Bytes,
}

impl Payload {
    pub(super) fn none() -> Self {
        Self { left: 0, piece: Bytes::new() }
    }
    pub(super) fn endless() -> Self {
        Self { left: u64::MAX, piece: piece() }
    }
}

/// Incompressible octets.
pub(crate) fn piece() -> Bytes {
    let mut state = 0x9e37_79b9_7f4a_7c15u64;
    let mut octets = Vec::with_capacity(PIECE);
    while octets.len() < PIECE {
        state ^= state << 13;
        state ^= state >> 7;
        state ^= state << 17;
        octets.extend_from_slice(&state.to_le_bytes());
    }
    Bytes::from(octets)
}

impl Body for Payload {
    type Data = Bytes;
    type Error = Infallible;
    fn poll_frame(mut self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<Option<Result<Frame<Bytes>, Infallible>>> {
        if self.left == 0 {
            return Poll::Ready(None);
        }
        self.left -= self.left.min(PIECE as u64);
        Poll::Ready(Some(Ok(Frame::data(self.piece.clone()))))
    }
    fn is_end_stream(&self) -> bool {
        self.left == 0
    }
    fn size_hint(&self) -> SizeHint {
        if self.left == 0 { SizeHint::with_exact(0) } else { SizeHint::default() }
    }
}

/// Target and protocol of connections.
#[derive(Clone)]
pub(super) struct Endpoint {
    pub(super) address: SocketAddr,
    pub(super) congestion: String,
    pub(super) tls: Option<(Arc<ClientConfig>, ServerName<'static>)>,
    /// On plain TCP: the protocol found. With TLS the handshake negotiates it.
    pub(super) h2: bool,
}

/// An open connection.
pub(super) struct Opened {
    pub(super) sender: Sender,
    pub(super) connect: Span,
    /// Duration of the TLS handshake divided by its number of round trips.
    pub(super) tls: Option<Span>,
    /// The same socket, for the kernel's statistics.
    pub(super) socket: TcpStream,
}

/// Sends requests; with HTTP/2 several concurrently.
pub(super) enum Sender {
    One(http1::SendRequest<Payload>),
    Two(http2::SendRequest<Payload>),
}

fn late() -> io::Error {
    io::Error::new(io::ErrorKind::TimedOut, "the server did not answer in time")
}

/// The library's error message, and that of its cause.
fn failed(why: hyper::Error) -> io::Error {
    let behind =
        std::error::Error::source(&why).map_or(String::new(), |cause| format!(" ({})", quoted(&cause.to_string())));
    io::Error::other(format!("{why}{behind}"))
}

/// Adds the remedy for an untrusted certificate.
fn distrusted(why: io::Error) -> io::Error {
    let behind = why.get_ref().and_then(|inner| inner.downcast_ref::<tokio_rustls::rustls::Error>());
    match behind {
        Some(tokio_rustls::rustls::Error::InvalidCertificate(_)) => io::Error::new(
            why.kind(),
            format!("{why}: if the server is your own, name its certificate, or that of who signed it, with --ca FILE"),
        ),
        _ => why,
    }
}

/// `work`, or an error after `patience`.
pub(super) async fn within<T>(patience: Duration, work: impl Future<Output = io::Result<T>>) -> io::Result<T> {
    tokio::time::timeout(patience, work).await.unwrap_or_else(|_| Err(late()))
}

/// Whichever of two finishes first; the other is dropped.
pub(super) async fn either<T>(one: impl Future<Output = T>, other: impl Future<Output = T>) -> T {
    let (mut one, mut other) = (pin!(one), pin!(other));
    poll_fn(|cx| match one.as_mut().poll(cx) {
        Poll::Ready(value) => Poll::Ready(value),
        Poll::Pending => other.as_mut().poll(cx),
    })
    .await
}

impl Endpoint {
    /// Connects and performs the handshakes; the times cover only the connection.
    pub(super) async fn open(&self) -> io::Result<Opened> {
        let (address, congestion) = (self.address, self.congestion.clone());
        let connecting = tokio::task::spawn_blocking(move || {
            let begun = since_boot();
            let stream = sockets::connect(address, &congestion, PATIENCE)?;
            Ok::<_, io::Error>((stream, since_boot().since(begun)))
        });
        let (stream, connect) = connecting.await.map_err(io::Error::other)??;
        stream.set_nonblocking(true)?;
        let socket = stream.try_clone()?;
        let stream = tokio::net::TcpStream::from_std(stream)?;
        let Some((config, name)) = &self.tls else {
            let sender = shake(TokioIo::new(stream), self.h2).await?;
            return Ok(Opened { sender, connect, tls: None, socket });
        };
        let begun = since_boot();
        let connector = TlsConnector::from(Arc::clone(config));
        let stream = within(PATIENCE, connector.connect(name.clone(), stream)).await.map_err(distrusted)?;
        let took = since_boot().since(begun);
        let session = stream.get_ref().1;
        let rounds = if session.protocol_version() == Some(ProtocolVersion::TLSv1_3) { 1 } else { 2 };
        let h2 = session.alpn_protocol() == Some(b"h2");
        let sender = shake(TokioIo::new(stream), h2).await?;
        Ok(Opened { sender, connect, tls: Some(took.scale(1, rounds)), socket })
    }

    /// On plain TCP: whether the server supports HTTP/2 with prior knowledge (RFC 9113, section 3.3).
    pub(super) async fn learn(&mut self, small: &Uri) {
        self.h2 = true;
        let asked = within(PLAIN_H2_PATIENCE, async {
            let opened = self.open().await?;
            let mut sender = opened.sender;
            whole(sender.get(small).await?, CONFIG_MAX).await
        });
        self.h2 = asked.await.is_ok();
    }
}

async fn shake<I>(io: I, h2: bool) -> io::Result<Sender>
where
    I: hyper::rt::Read + hyper::rt::Write + Unpin + Send + 'static,
{
    // The connection's own task ends with the connection, or with the runtime.
    Ok(if h2 {
        let mut builder = http2::Builder::new(TokioExecutor::new());
        builder.initial_stream_window_size(WINDOW).initial_connection_window_size(WINDOW).timer(TokioTimer::new());
        builder.max_header_list_size(HEAD_MAX as u32).max_send_buf_size(UNSENT);
        let (sender, connection) = builder.handshake(io).await.map_err(failed)?;
        tokio::spawn(connection);
        Sender::Two(sender)
    } else {
        let mut builder = http1::Builder::new();
        builder.max_buf_size(HEAD_MAX).max_headers(HEADERS_MAX);
        let (sender, connection) = builder.handshake(io).await.map_err(failed)?;
        tokio::spawn(connection);
        Sender::One(sender)
    })
}

impl Sender {
    pub(super) fn is_h2(&self) -> bool {
        matches!(self, Self::Two(_))
    }
    /// Whether the connection has ended.
    pub(super) fn is_closed(&self) -> bool {
        match self {
            Self::One(sender) => sender.is_closed(),
            Self::Two(sender) => sender.is_closed(),
        }
    }
    /// A second sender on the same connection, where HTTP supports that.
    pub(super) fn twin(&self) -> Option<Self> {
        match self {
            Self::One(_) => None,
            Self::Two(sender) => Some(Self::Two(sender.clone())),
        }
    }
    pub(super) async fn get(&mut self, uri: &Uri) -> io::Result<Response<Incoming>> {
        within(PATIENCE, self.ask(Method::GET, uri, Payload::none())).await
    }
    pub(super) async fn post(&mut self, uri: &Uri) -> io::Result<Response<Incoming>> {
        self.ask(Method::POST, uri, Payload::endless()).await
    }
    async fn ask(&mut self, method: Method, uri: &Uri, body: Payload) -> io::Result<Response<Incoming>> {
        let mut request = Request::new(body);
        *request.method_mut() = method;
        let headers = request.headers_mut();
        headers.insert(USER_AGENT, HeaderValue::from_static(AGENT));
        headers.insert(ACCEPT, HeaderValue::from_static("*/*"));
        let answer = match self {
            Self::One(sender) => {
                let host = uri.authority().map_or("", |a| a.as_str());
                headers.insert(HOST, HeaderValue::from_str(host).map_err(io::Error::other)?);
                let path = uri.path_and_query().map_or("/", |path| path.as_str());
                *request.uri_mut() = path.parse().map_err(io::Error::other)?;
                sender.ready().await.map_err(failed)?;
                sender.send_request(request).await
            }
            Self::Two(sender) => {
                *request.version_mut() = Version::HTTP_2;
                *request.uri_mut() = uri.clone();
                sender.ready().await.map_err(failed)?;
                sender.send_request(request).await
            }
        };
        let answer = answer.map_err(failed)?;
        refused(&answer).map_or(Ok(answer), |why| Err(io::Error::other(why)))
    }
}

/// The error in an answer's head. Redirections are reported and not followed.
fn refused(answer: &Response<Incoming>) -> Option<String> {
    let status = answer.status();
    if status.is_success() {
        return None;
    }
    let to = answer.headers().get(LOCATION).map(|to| quoted(&String::from_utf8_lossy(to.as_bytes())));
    Some(match to {
        Some(to) if status.is_redirection() => format!(
            "it answered {} and points to {to}: if that is a page to sign in at, do so in a browser; else name that URL",
            status.as_u16()
        ),
        _ => format!("it answered {}", quoted(&status.to_string())),
    })
}

/// The next octets of a body; `None` at its end.
pub(super) async fn next(body: &mut Incoming) -> io::Result<Option<usize>> {
    loop {
        let frame = within(PATIENCE, async { Ok(poll_fn(|cx| pin!(&mut *body).poll_frame(cx)).await) }).await?;
        match frame {
            None => return Ok(None),
            Some(Err(why)) => return Err(failed(why)),
            Some(Ok(frame)) => {
                if let Some(data) = frame.data_ref() {
                    return Ok(Some(data.len()));
                }
            }
        }
    }
}

/// A whole body of at most `most` octets.
pub(super) async fn whole(answer: Response<Incoming>, most: usize) -> io::Result<Bytes> {
    use http_body_util::{BodyExt, Limited};
    let body = Limited::new(answer.into_body(), most).collect();
    let body = within(PATIENCE, async { Ok(body.await) }).await?;
    body.map(|body| body.to_bytes()).map_err(|why| io::Error::other(format!("{why} (at most {most} octets are read)")))
}

/// The endpoint of a URL, with its protocol still unknown.
pub(super) fn endpoint(
    uri: &Uri,
    address: SocketAddr,
    congestion: &str,
    config: Option<&Arc<ClientConfig>>,
) -> io::Result<Endpoint> {
    let (is_tls, host, _) = server(uri);
    let tls = match config.filter(|_| is_tls) {
        Some(config) => Some((Arc::clone(config), ServerName::try_from(host).map_err(io::Error::other)?)),
        None => None,
    };
    Ok(Endpoint { address, congestion: congestion.to_owned(), tls, h2: false })
}
