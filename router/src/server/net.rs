//! Outgoing connections: plain TCP or TLS to a URL's host, and the one small HTTP request that attaching and the
//! command line need.

use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use http_body_util::{BodyExt, Full, Limited};
use hyper::Request;
use hyper::header::{AUTHORIZATION, HOST};
use hyper_util::rt::TokioIo;
use rustls::pki_types::ServerName;
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::net::TcpStream;
use url::Url;

/// The largest answer that is read; task lists and version documents stay far below.
const MAX_ANSWER: usize = 16 << 20;

pub trait Transport: AsyncRead + AsyncWrite + Send + Unpin {}
impl<T: AsyncRead + AsyncWrite + Send + Unpin> Transport for T {}

/// Plain or encrypted.
pub type Stream = Box<dyn Transport>;

/// `Err` is half a sentence: what went wrong on the way to the host.
pub async fn connect(url: &Url) -> Result<Stream, String> {
    let host = url.host_str().ok_or("the address names no host")?;
    let port = url.port_or_known_default().ok_or("the address names no port")?;
    // A URL writes IPv6 in brackets, the resolver does not.
    let bare = host.trim_start_matches('[').trim_end_matches(']');
    let tcp = tokio::time::timeout(Duration::from_secs(10), TcpStream::connect((bare, port)));
    let tcp = tcp.await.map_err(|_| "no answer within 10 s".to_owned())?.map_err(|error| error.to_string())?;
    // Small messages must not wait for each other; where it cannot be set, they are only later.
    let _ = tcp.set_nodelay(true);
    match url.scheme() {
        "https" | "wss" => {
            let name = ServerName::try_from(bare.to_owned()).map_err(|error| error.to_string())?;
            let stream = tls()?.connect(name, tcp).await.map_err(|error| format!("TLS failed: {error}"))?;
            Ok(Box::new(stream))
        }
        _ => Ok(Box::new(tcp)),
    }
}

fn tls() -> Result<tokio_rustls::TlsConnector, String> {
    let mut roots = rustls::RootCertStore::empty();
    // What the machine trusts, so that a company's own authority works; unreadable ones are left out.
    for certificate in rustls_native_certs::load_native_certs().certs {
        let _ = roots.add(certificate);
    }
    let config = rustls::ClientConfig::builder_with_provider(Arc::new(rustls::crypto::ring::default_provider()))
        .with_safe_default_protocol_versions()
        .map_err(|error| error.to_string())?
        .with_root_certificates(roots)
        .with_no_client_auth();
    Ok(Arc::new(config).into())
}

pub struct Answer {
    pub status: u16,
    pub body: String,
}

/// One request on a connection of its own. `Err` is half a sentence.
pub async fn request(method: &str, url: &Url, bearer: Option<&str>, body: Option<String>) -> Result<Answer, String> {
    let stream = connect(url).await?;
    let (mut sender, connection) =
        hyper::client::conn::http1::handshake(TokioIo::new(stream)).await.map_err(|error| error.to_string())?;
    let authority = &url[url::Position::BeforeHost..url::Position::AfterPort];
    let target = &url[url::Position::BeforePath..url::Position::AfterQuery];
    let mut request = Request::builder().method(method).uri(target).header(HOST, authority);
    if let Some(token) = bearer {
        request = request.header(AUTHORIZATION, format!("Bearer {token}"));
    }
    if body.is_some() {
        request = request.header(hyper::header::CONTENT_TYPE, "application/json");
    }
    let request = request.body(Full::new(Bytes::from(body.unwrap_or_default()))).map_err(|error| error.to_string())?;
    let exchange = async {
        let response = sender.send_request(request).await.map_err(|error| error.to_string())?;
        let status = response.status().as_u16();
        let body = Limited::new(response.into_body(), MAX_ANSWER).collect().await.map_err(|error| error.to_string())?;
        Ok(Answer { status, body: String::from_utf8_lossy(&body.to_bytes()).into_owned() })
    };
    tokio::pin!(exchange);
    tokio::pin!(connection);
    let mut open = true;
    loop {
        tokio::select! {
            answer = &mut exchange => return answer,
            ended = &mut connection, if open => {
                open = false;
                if let Err(error) = ended { return Err(error.to_string()); }
            }
        }
    }
}
