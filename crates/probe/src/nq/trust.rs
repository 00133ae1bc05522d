//! Verification of server certificates.

use std::io;
use std::path::Path;
use std::sync::Arc;
use tokio_rustls::rustls::client::danger::{HandshakeSignatureValid, ServerCertVerified, ServerCertVerifier};
use tokio_rustls::rustls::client::{Resumption, WebPkiServerVerifier};
use tokio_rustls::rustls::pki_types::pem::PemObject;
use tokio_rustls::rustls::pki_types::{CertificateDer, ServerName, UnixTime};
use tokio_rustls::rustls::{ClientConfig, DigitallySignedStruct, Error, RootCertStore, SignatureScheme, crypto};
use wavelane_base::text::ShownPath;

/// Maximum number of certificates read from a file.
const CERTIFICATES_MAX: usize = 1_024;

/// The trusted certificates.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub enum Trust {
    /// The system's.
    #[default]
    System,
    /// Those of a file instead.
    Only(Vec<CertificateDer<'static>>),
}

impl Trust {
    /// Reads a PEM file; the error names it.
    pub fn read(file: &Path) -> Result<Self, String> {
        let wrong = |why: &dyn std::fmt::Display| format!("cannot use {}: {why}", file.shown());
        let found = CertificateDer::pem_file_iter(file).map_err(|e| wrong(&e))?;
        let all: Result<Vec<_>, _> = found.take(CERTIFICATES_MAX).collect();
        let all = all.map_err(|e| wrong(&e))?;
        if all.is_empty() {
            return Err(wrong(&"it holds no certificate (BEGIN CERTIFICATE)"));
        }
        Ok(Self::Only(all))
    }
}

/// A server whose certificate equals one in the user's file, octet for octet, has proved its identity by its signature, whatever name is
/// used here; self-signed certificates are usually of this kind. All others are verified as usual.
#[derive(Debug)]
struct Named {
    certificates: Vec<CertificateDer<'static>>,
    usual: Arc<WebPkiServerVerifier>,
}

impl ServerCertVerifier for Named {
    fn verify_server_cert(
        &self,
        own: &CertificateDer<'_>,
        chain: &[CertificateDer<'_>],
        name: &ServerName<'_>,
        ocsp: &[u8],
        now: UnixTime,
    ) -> Result<ServerCertVerified, Error> {
        if self.certificates.iter().any(|certificate| certificate == own) {
            return Ok(ServerCertVerified::assertion());
        }
        self.usual.verify_server_cert(own, chain, name, ocsp, now)
    }
    fn verify_tls12_signature(
        &self,
        message: &[u8],
        own: &CertificateDer<'_>,
        signed: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, Error> {
        self.usual.verify_tls12_signature(message, own, signed)
    }
    fn verify_tls13_signature(
        &self,
        message: &[u8],
        own: &CertificateDer<'_>,
        signed: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, Error> {
        self.usual.verify_tls13_signature(message, own, signed)
    }
    fn supported_verify_schemes(&self) -> Vec<SignatureScheme> {
        self.usual.supported_verify_schemes()
    }
}

/// TLS configuration with the user's trusted certificates.
pub(super) fn tls_config(trust: &Trust) -> io::Result<Arc<ClientConfig>> {
    let mut roots = RootCertStore::empty();
    let certificates = match trust {
        Trust::System => rustls_native_certs::load_native_certs().certs,
        Trust::Only(certificates) => certificates.clone(),
    };
    roots.add_parsable_certificates(certificates.iter().cloned());
    if roots.is_empty() {
        return Err(io::Error::other(match trust {
            Trust::System => {
                "this system has no certificates to know servers by: install ca-certificates, or name a file with --ca"
            }
            Trust::Only(_) => "the file of --ca holds no certificate that can be read",
        }));
    }
    let provider = Arc::new(crypto::ring::default_provider());
    let config = ClientConfig::builder_with_provider(Arc::clone(&provider)).with_safe_default_protocol_versions();
    let config = config.map_err(io::Error::other)?;
    let mut config = match trust {
        Trust::System => config.with_root_certificates(roots),
        Trust::Only(_) => {
            let usual = WebPkiServerVerifier::builder_with_provider(Arc::new(roots), provider).build();
            let usual = usual.map_err(io::Error::other)?;
            config.dangerous().with_custom_certificate_verifier(Arc::new(Named { certificates, usual }))
        }
    }
    .with_no_client_auth();
    config.alpn_protocols = vec![b"h2".to_vec(), b"http/1.1".to_vec()];
    // Every handshake is a full one, as the draft's tls_f requires.
    config.resumption = Resumption::disabled();
    Ok(Arc::new(config))
}
