//! The document in which a server lists its URLs. It comes from the network: everything in it is validated before use.

use super::CONFIG_PATH;
use hyper::Uri;
use hyper::http::uri::{Authority, PathAndQuery, Scheme};
use serde::Deserialize;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

/// Maximum size of the document in octets.
pub(crate) const CONFIG_MAX: usize = 64 << 10;
/// Maximum number of characters of foreign text quoted in an error.
const QUOTED_MAX: usize = 120;

/// Why a server cannot be measured by its document.
#[derive(Clone, PartialEq, Eq, Debug, thiserror::Error)]
pub enum ConfigError {
    /// The user's input is not a supported URL.
    #[error(
        "'{0}' is no URL of a networkQuality server: write https://HOST{CONFIG_PATH}, or http:// where it has no TLS"
    )]
    Url(String),
    /// Most often a captive portal.
    #[error(
        "the answer is a web page and no configuration: if you are on a guest network, open a page in your browser and sign in; else check the URL"
    )]
    WebPage,
    /// Something else.
    #[error("the configuration cannot be read: {0}; check that the URL ends in {CONFIG_PATH}")]
    Unreadable(String),
    /// The draft defines only version 1.
    #[error("the configuration has version {0}: this program knows version 1")]
    Version(u64),
    /// A URL is missing.
    #[error("the configuration names no {0}")]
    Missing(&'static str),
    /// An unsupported URL.
    #[error(
        "the configuration's {key} is '{value}': only http and https URLs with a host and without a user name are measured"
    )]
    Kind {
        /// Which.
        key: &'static str,
        /// What it says.
        value: String,
    },
    /// The draft requires a single host.
    #[error("the configuration's URLs name different servers ({0} and {1}): all three must be of one")]
    Servers(String, String),
    /// The document directs load to a third party's host.
    #[error(
        "the public server {from} would have us measure {to}, an address of a private network: refused; name that server's own URL"
    )]
    Private {
        /// The address from which the document was loaded.
        from: IpAddr,
        /// The address of its URLs.
        to: IpAddr,
    },
}

/// The URLs of a server.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Config {
    /// A few octets.
    pub small: Uri,
    /// Gigabytes.
    pub large: Uri,
    /// Accepts any upload.
    pub upload: Uri,
}

#[derive(Deserialize)]
struct Document {
    version: u64,
    urls: Urls,
}

/// The names in the draft, and older names used by servers.
#[derive(Deserialize)]
struct Urls {
    small_download_url: Option<String>,
    small_https_download_url: Option<String>,
    large_download_url: Option<String>,
    large_https_download_url: Option<String>,
    upload_url: Option<String>,
    https_upload_url: Option<String>,
}

/// Foreign text, shortened and without characters that a terminal would interpret or reorder.
pub(crate) fn quoted(text: &str) -> String {
    let safe = text.chars().take(QUOTED_MAX).map(|c| if wavelane_base::text::moves(c) { '?' } else { c });
    let safe: String = safe.collect();
    if text.chars().count() > QUOTED_MAX { safe + " ..." } else { safe }
}

/// The user's URL: a complete one, or a host, which stands for its document under https.
pub(crate) fn config_url(given: &str) -> Result<Uri, ConfigError> {
    let wrong = || ConfigError::Url(quoted(given));
    let whole = if given.contains("://") { given.to_owned() } else { format!("https://{given}") };
    let uri = checked("", &whole).map_err(|_| wrong())?;
    if uri.path() != "/" {
        return Ok(uri);
    }
    let mut parts = uri.into_parts();
    parts.path_and_query = Some(PathAndQuery::from_static(CONFIG_PATH));
    Uri::from_parts(parts).map_err(|_| wrong())
}

fn checked(key: &'static str, text: &str) -> Result<Uri, ConfigError> {
    let wrong = || ConfigError::Kind { key, value: quoted(text) };
    // RFC 3986, section 2: other characters are percent-encoded.
    let uri: Uri = Some(text).filter(|text| text.is_ascii()).ok_or_else(wrong)?.parse().map_err(|_| wrong())?;
    let scheme = uri.scheme().is_some_and(|s| *s == Scheme::HTTP || *s == Scheme::HTTPS);
    let host = uri.authority().is_some_and(|a| !a.host().is_empty() && !a.as_str().contains('@'));
    if scheme && host { Ok(uri) } else { Err(wrong()) }
}

/// The server of a URL.
pub(crate) fn server(uri: &Uri) -> (bool, String, u16) {
    let tls = uri.scheme() == Some(&Scheme::HTTPS);
    let host = uri.authority().map_or("", Authority::host).trim_matches(['[', ']']).to_ascii_lowercase();
    (tls, host, uri.port_u16().unwrap_or(if tls { 443 } else { 80 }))
}

impl Config {
    /// Reads the document.
    pub fn parse(document: &[u8]) -> Result<Self, ConfigError> {
        if document.trim_ascii_start().first() == Some(&b'<') {
            return Err(ConfigError::WebPage);
        }
        let read: Document =
            serde_json::from_slice(document).map_err(|e| ConfigError::Unreadable(quoted(&e.to_string())))?;
        if read.version != 1 {
            return Err(ConfigError::Version(read.version));
        }
        let urls = read.urls;
        let one = |key, new: Option<String>, old: Option<String>| {
            let text = new.or(old).ok_or(ConfigError::Missing(key))?;
            checked(key, &text)
        };
        let config = Self {
            small: one("small_download_url", urls.small_download_url, urls.small_https_download_url)?,
            large: one("large_download_url", urls.large_download_url, urls.large_https_download_url)?,
            upload: one("upload_url", urls.upload_url, urls.https_upload_url)?,
        };
        let named = |uri: &Uri| uri.authority().map_or(String::new(), |a| quoted(a.as_str()));
        for other in [&config.large, &config.upload] {
            if server(other) != server(&config.small) {
                return Err(ConfigError::Servers(named(&config.small), named(other)));
            }
        }
        Ok(config)
    }
}

/// Whether an address must not be targeted by a host on the Internet.
fn is_private(ip: IpAddr) -> bool {
    match ip.to_canonical() {
        IpAddr::V4(v4) => is_private_v4(v4),
        IpAddr::V6(v6) => {
            v6.is_loopback()
                || v6.is_unspecified()
                || v6.is_unique_local()
                || v6.is_unicast_link_local()
                || translated(v6).is_some_and(is_private_v4)
                // NAT64 with the network's own prefix (RFC 8215) may lead anywhere.
                || v6.segments()[..3] == [0x64, 0xff9b, 1]
        }
    }
}

/// Private use (RFC 1918), "this" network (RFC 791), providers' NAT (RFC 6598), loopback and link-local.
fn is_private_v4(v4: Ipv4Addr) -> bool {
    let [a, b, ..] = v4.octets();
    v4.is_private() || v4.is_loopback() || v4.is_link_local() || a == 0 || (a == 100 && b & 0xc0 == 64)
}

/// The IPv4 address to which a translator or a tunnel forwards packets for this address.
fn translated(v6: Ipv6Addr) -> Option<Ipv4Addr> {
    let s = v6.segments();
    let of = |high: u16, low: u16| Ipv4Addr::from(u32::from(high) << 16 | u32::from(low));
    match s {
        // NAT64 (RFC 6052).
        [0x64, 0xff9b, 0, 0, 0, 0, high, low] => Some(of(high, low)),
        // IPv4-compatible addresses (RFC 4291, section 2.5.5.1).
        [0, 0, 0, 0, 0, 0, high, low] => Some(of(high, low)),
        // 6to4 (RFC 3056).
        [0x2002, high, low, ..] => Some(of(high, low)),
        // Teredo (RFC 4380) contains the client's address with each bit inverted.
        [0x2001, 0, _, _, _, _, high, low] => Some(of(!high, !low)),
        _ => None,
    }
}

/// Rejects a document from the Internet that points into a private network.
pub(crate) fn outward(from: IpAddr, to: IpAddr) -> Result<(), ConfigError> {
    if is_private(to) && !is_private(from) { Err(ConfigError::Private { from, to }) } else { Ok(()) }
}
