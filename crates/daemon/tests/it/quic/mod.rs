//! A QUIC server and client on quinn, each on a thread of its own, over sockets that were made in a namespace.

use quinn::rustls::RootCertStore;
use quinn::rustls::pki_types::{CertificateDer, PrivatePkcs8KeyDer};
use quinn::{ClientConfig, Endpoint, EndpointConfig, ServerConfig, TokioRuntime, VarInt};
use std::future::Future;
use std::net::{SocketAddr, UdpSocket};
use std::sync::Arc;
use std::time::Duration;

const NAME: &str = "server.invalid";
/// Longest any transfer takes.
const PATIENCE: Duration = Duration::from_secs(120);

fn block_on<T>(work: impl Future<Output = T>) -> T {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    runtime.block_on(async { tokio::time::timeout(PATIENCE, work).await.expect("the transfer took too long") })
}

/// Answers one connection's one stream with what it was sent, and ends. Returns the certificate to trust.
pub(crate) fn echo(socket: UdpSocket) -> CertificateDer<'static> {
    let key = rcgen::generate_simple_self_signed([NAME.to_owned()]).unwrap();
    let certificate = key.cert.der().clone();
    let private = PrivatePkcs8KeyDer::from(key.signing_key.serialize_der());
    let config = ServerConfig::with_single_cert(vec![certificate.clone()], private.into()).unwrap();
    std::thread::spawn(move || {
        block_on(async {
            let runtime = Arc::new(TokioRuntime);
            let endpoint = Endpoint::new(EndpointConfig::default(), Some(config), socket, runtime).unwrap();
            let connection = endpoint.accept().await.unwrap().await.unwrap();
            let (mut send, mut recv) = connection.accept_bi().await.unwrap();
            let mut buffer = vec![0; 1 << 16];
            while let Some(len) = recv.read(&mut buffer).await.unwrap() {
                send.write_all(&buffer[..len]).await.unwrap();
            }
            send.finish().unwrap();
            connection.closed().await;
        });
    });
    certificate
}

/// Sends `data` to an [`echo`] and returns what comes back, and the largest datagram that crossed.
pub(crate) fn exchange(
    socket: UdpSocket,
    server: SocketAddr,
    trusted: CertificateDer<'static>,
    data: &[u8],
) -> (Vec<u8>, u16) {
    let mut roots = RootCertStore::empty();
    roots.add(trusted).unwrap();
    let config = ClientConfig::with_root_certificates(Arc::new(roots)).unwrap();
    block_on(async {
        let endpoint = Endpoint::new(EndpointConfig::default(), None, socket, Arc::new(TokioRuntime)).unwrap();
        let connection = endpoint.connect_with(config, server, NAME).unwrap().await.unwrap();
        let (mut send, mut recv) = connection.open_bi().await.unwrap();
        let data = data.to_vec();
        let length = data.len();
        let sending = tokio::spawn(async move {
            send.write_all(&data).await.unwrap();
            send.finish().unwrap();
        });
        let back = recv.read_to_end(length + 1).await.unwrap();
        sending.await.unwrap();
        let datagram = connection.stats().path.current_mtu;
        connection.close(VarInt::from_u32(0), b"done");
        endpoint.wait_idle().await;
        (back, datagram)
    })
}
