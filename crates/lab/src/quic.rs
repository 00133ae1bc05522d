//! QUIC: a body fetched over one quinn stream, client and server inside this program, each in its node's namespace.
//!
//! The client trusts only the certificate that its server generated for the run. The congestion control is the stack's, in quinn's own
//! implementation.

use crate::LabError;
use crate::content::{Content, Digested, Received};
use crate::sockets::rest_until;
use crate::worker::Worker;
use crate::workload::Workload;
use quinn::congestion::{BbrConfig, CubicConfig, NewRenoConfig};
use quinn::rustls::RootCertStore;
use quinn::rustls::pki_types::{CertificateDer, PrivatePkcs8KeyDer};
use quinn::{ClientConfig, Connection, Endpoint, EndpointConfig, ServerConfig, TokioRuntime, TransportConfig, VarInt};
use std::io::Read;
use std::net::{Ipv4Addr, SocketAddr, UdpSocket};
use std::pin::pin;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;
use tokio::runtime::Runtime;
use wavelane_host::netns::Netns;
use wavelane_host::realtime;
use wavelane_run::FlowRaw;

/// The name on the certificate.
const NAME: &str = "wavelane.invalid";
/// Bytes that a receiver lets a sender have in flight: 20 Mbit/s over 3 s.
const RECEIVE_WINDOW: u32 = 8 << 20;
/// Bytes that a sender's quinn holds, unsent and unacknowledged together. It has no separate limit for unsent bytes, so this is the
/// smallest value that fills 20 Mbit/s over 100 ms with a full queue of another 100 ms four times.
const SEND_WINDOW: u64 = 2 << 20;
/// Idle timeout of a connection: longer than any outage in a run that still counts.
const SILENCE: Duration = Duration::from_secs(120);
/// Time limit for sending the last packets.
const PARTING: Duration = Duration::from_millis(200);
/// Interval at which a waiting end checks whether it must stop.
const GLANCE: Duration = Duration::from_millis(20);
/// Bytes written or read at once.
const CHUNK: usize = 16 << 10;

/// The side that sends a body, once. Dropping it stops it.
pub(crate) struct Server {
    flow: String,
    control: String,
    certificate: CertificateDer<'static>,
    connection: Arc<Mutex<Option<Connection>>>,
    _worker: Worker,
}

impl Server {
    /// Sends `content` to the first client that connects to `address` inside `ns` and requests it; refuses all others.
    pub(crate) fn start(
        ns: &Netns,
        address: SocketAddr,
        control: &str,
        flow: &str,
        content: Content,
    ) -> Result<Self, LabError> {
        let what = format!("cannot serve QUIC at {address} in node {}", ns.name());
        let failed = |error| LabError::Io { what: what.clone(), error };
        let key = rcgen::generate_simple_self_signed([NAME.to_owned()]).map_err(std::io::Error::other);
        let key = key.map_err(failed)?;
        let certificate = key.cert.der().clone();
        let private = PrivatePkcs8KeyDer::from(key.signing_key.serialize_der());
        let config = ServerConfig::with_single_cert(vec![certificate.clone()], private.into());
        let mut config = config.map_err(|e| failed(std::io::Error::other(e)))?;
        config.transport_config(transport(control));
        let socket = ns.run(move || UdpSocket::bind(address))?.map_err(failed)?;
        let connection = Arc::new(Mutex::new(None));
        let shown = Arc::clone(&connection);
        let runtime = runtime().map_err(failed)?;
        // Only the socket must be inside; the thread stays outside and so keeps no namespace alive.
        let worker = Worker::start("quic-server", move |stop| {
            // Errors show at the client's end, which reports them.
            let _ = runtime.block_on(serve(socket, config, content, &shown, stop));
        });
        let (flow, control) = (flow.to_owned(), control.to_owned());
        Ok(Self { flow, control, certificate, connection, _worker: worker.map_err(failed)? })
    }

    /// The certificate by which the client identifies it.
    pub(crate) fn certificate(&self) -> CertificateDer<'static> {
        self.certificate.clone()
    }

    /// Counters of the sender's QUIC so far, for the log.
    pub(crate) fn note(&self) -> Option<String> {
        let connection = self.connection.lock().unwrap_or_else(PoisonError::into_inner);
        let path = connection.as_ref()?.stats().path;
        Some(format!(
            "flow {}: QUIC with {} sent {} packets and took {} for lost; datagrams of {} B at the end",
            self.flow, self.control, path.sent_packets, path.lost_packets, path.current_mtu
        ))
    }
}

fn runtime() -> std::io::Result<Runtime> {
    tokio::runtime::Builder::new_current_thread().enable_all().build()
}

/// One stream, bounded memory, and the stack's congestion control.
fn transport(control: &str) -> Arc<TransportConfig> {
    let mut config = TransportConfig::default();
    match control {
        "bbr" => config.congestion_controller_factory(Arc::new(BbrConfig::default())),
        "reno" => config.congestion_controller_factory(Arc::new(NewRenoConfig::default())),
        _ => config.congestion_controller_factory(Arc::new(CubicConfig::default())),
    };
    let silence = SILENCE.try_into().expect("two minutes are a valid idle timeout");
    config
        .max_concurrent_bidi_streams(VarInt::from_u32(1))
        .max_concurrent_uni_streams(VarInt::from_u32(0))
        .datagram_receive_buffer_size(None)
        .stream_receive_window(VarInt::from_u32(RECEIVE_WINDOW))
        .receive_window(VarInt::from_u32(RECEIVE_WINDOW))
        .send_window(SEND_WINDOW)
        .max_idle_timeout(Some(silence));
    Arc::new(config)
}

/// Waits for `work`; `None` if `stop` returns true first.
async fn until<T>(stop: impl Fn() -> bool, work: impl Future<Output = T>) -> Option<T> {
    let mut work = pin!(work);
    while !stop() {
        if let Ok(done) = tokio::time::timeout(GLANCE, work.as_mut()).await {
            return Some(done);
        }
    }
    None
}

async fn serve(
    socket: UdpSocket,
    config: ServerConfig,
    mut content: Content,
    shown: &Mutex<Option<Connection>>,
    stop: &AtomicBool,
) -> Result<(), Box<dyn std::error::Error>> {
    let over = || stop.load(Ordering::Acquire);
    let endpoint = Endpoint::new(EndpointConfig::default(), Some(config), socket, Arc::new(TokioRuntime))?;
    let Some(Some(incoming)) = until(over, endpoint.accept()).await else { return Ok(()) };
    let connecting = incoming.accept()?;
    endpoint.set_server_config(None);
    let Some(connection) = until(over, connecting).await else { return Ok(()) };
    let connection = connection?;
    *shown.lock().unwrap_or_else(PoisonError::into_inner) = Some(connection.clone());
    let Some(stream) = until(over, connection.accept_bi()).await else { return Ok(()) };
    let (mut send, _) = stream?;
    let mut buffer = vec![0; CHUNK];
    loop {
        let len = content.read(&mut buffer)?;
        if len == 0 {
            break;
        }
        let Some(written) = until(over, send.write_all(&buffer[..len])).await else { return Ok(()) };
        written?;
    }
    send.finish()?;
    // The client closes when it has read everything.
    until(over, connection.closed()).await;
    Ok(())
}

/// How a fetch ended.
enum End {
    /// The body is complete.
    Whole,
    /// Its time is over, or everything must end.
    Stopped,
    /// With an error.
    Broken(String),
}

/// Fetches the body from the server with `certificate`. The calling thread must be inside the client's namespace. The note holds the error,
/// if any.
pub(crate) fn run(
    workload: &Workload,
    size: Option<u64>,
    certificate: CertificateDer<'static>,
    digest: &Digested,
) -> Result<(FlowRaw, Option<String>), LabError> {
    rest_until(workload.start, || workload.cancelled());
    let runtime = runtime().map_err(LabError::io("cannot start a QUIC client"))?;
    let socket = UdpSocket::bind((Ipv4Addr::UNSPECIFIED, 0)).map_err(LabError::io("cannot open a UDP socket"))?;
    let mut roots = RootCertStore::empty();
    let trusted = roots.add(certificate).map_err(std::io::Error::other);
    trusted.map_err(LabError::io("cannot trust the run's own certificate"))?;
    let config = ClientConfig::with_root_certificates(Arc::new(roots)).map_err(std::io::Error::other);
    let mut config = config.map_err(LabError::io("cannot set up a QUIC client"))?;
    config.transport_config(transport(&workload.control));
    let mut raw = workload.raw("quic", workload.since_epoch(realtime::now()));
    let mut received = Received::of_stamped();
    let end = runtime.block_on(fetch(socket, config, workload, &mut received));
    raw.first_byte_ns = received.first_ns;
    raw.last_byte_ns = received.last_ns;
    raw.octets = received.octets;
    match size {
        Some(size) => {
            raw.completed = matches!(end, End::Whole) && received.octets == size;
            let expected = *digest.lock().unwrap_or_else(PoisonError::into_inner);
            raw.intact = raw.completed.then(|| expected == Some(received.hash()));
        }
        None => raw.completed = matches!(end, End::Stopped) && received.octets > 0,
    }
    raw.arrivals = received.arrivals;
    raw.ages = received.ages;
    let note = match end {
        End::Broken(why) => Some(format!("flow {}: {why}", workload.name)),
        _ => None,
    };
    Ok((raw, note))
}

async fn fetch(socket: UdpSocket, config: ClientConfig, workload: &Workload, received: &mut Received) -> End {
    let over = || workload.cancelled() || realtime::now() >= workload.stop;
    let endpoint = match Endpoint::new(EndpointConfig::default(), None, socket, Arc::new(TokioRuntime)) {
        Ok(endpoint) => endpoint,
        Err(e) => return End::Broken(format!("cannot start QUIC: {e}")),
    };
    let server = workload.server;
    let connecting = match endpoint.connect_with(config, server, NAME) {
        Ok(connecting) => connecting,
        Err(e) => return End::Broken(format!("cannot connect by QUIC to {server}: {e}")),
    };
    let connection = match until(over, connecting).await {
        Some(Ok(connection)) => connection,
        Some(Err(e)) => return End::Broken(format!("cannot connect by QUIC to {server}: {e}")),
        None => return End::Broken(format!("no QUIC server answered at {server}: does UDP pass on the way?")),
    };
    let end = match until(over, read(&connection, workload, received)).await {
        Some(Ok(())) => End::Whole,
        Some(Err(why)) => End::Broken(format!("the QUIC connection broke: {why}")),
        None => End::Stopped,
    };
    connection.close(VarInt::from_u32(0), b"done");
    // Waits only for the closing packet to be sent; if it is lost, the server is stopped at the run's end.
    let _ = tokio::time::timeout(PARTING, endpoint.wait_idle()).await;
    end
}

/// Requests the body and reads it to its end.
async fn read(connection: &Connection, workload: &Workload, received: &mut Received) -> Result<(), String> {
    let (mut send, mut recv) = connection.open_bi().await.map_err(|e| e.to_string())?;
    // The server sees a stream only with its first byte.
    send.write_all(b"?").await.map_err(|e| e.to_string())?;
    send.finish().map_err(|e| e.to_string())?;
    let mut buffer = vec![0; CHUNK];
    while let Some(len) = recv.read(&mut buffer).await.map_err(|e| e.to_string())? {
        received.note(workload.epoch, realtime::now(), &buffer[..len]);
        workload.progress.store(received.octets, Ordering::Relaxed);
    }
    Ok(())
}
