//! One client's WebSocket, from the upgrade to the close frame.
//!
//! The upgrade is done by hand instead of by a framework, so that only `socket` knows the codec. No compression is
//! negotiated: Playwright offers it, and it costs more than everything else that is done with a message.

use std::rc::Rc;
use std::time::Duration;

use axum::http::header::{CONNECTION, SEC_WEBSOCKET_ACCEPT, SEC_WEBSOCKET_KEY, SEC_WEBSOCKET_VERSION, UPGRADE};
use axum::http::{HeaderMap, HeaderName, HeaderValue, Method, Request, StatusCode, Version};
use axum::response::Response;
use hyper::upgrade::OnUpgrade;
use tokio::sync::mpsc::UnboundedReceiver;
use tokio_tungstenite::tungstenite::handshake::derive_accept_key;
use tracing::{debug, info};

use super::inbox::{Arrival, ClientChannel, Inbox};
use super::join::Place;
use super::refusal::{Refusal, plain};
use super::socket::{self, MAX_FROM_CLIENT, Received, SocketReader, SocketWriter};
use crate::engine::io::CloseCode;

/// A peer gets so long to read its close frame and close too.
const LINGER: Duration = Duration::from_secs(2);

/// Whether this request asks for another protocol at all.
pub fn wants_upgrade(headers: &HeaderMap) -> bool {
    headers.contains_key(UPGRADE)
}

/// Checks what RFC 6455 asks of a client; the answer to the key is what the response must carry.
pub fn check_upgrade<B>(request: &Request<B>) -> Result<String, Refusal> {
    let headers = request.headers();
    let bad = |message: &str| Err(Refusal::new(StatusCode::BAD_REQUEST, "bad_upgrade", message));
    if request.method() != Method::GET || request.version() != Version::HTTP_11 {
        return bad("A WebSocket upgrade must be a GET of HTTP/1.1; connect with a WebSocket client.");
    }
    if !has_item(headers, UPGRADE, "websocket") || !has_item(headers, CONNECTION, "upgrade") {
        return bad(
            "Only an upgrade to WebSocket is served here; send `Connection: Upgrade` and `Upgrade: websocket`.",
        );
    }
    if headers.get(SEC_WEBSOCKET_VERSION).map(|v| v.as_bytes()) != Some(b"13") {
        return bad("Only version 13 of WebSocket is spoken here; send `Sec-WebSocket-Version: 13`.");
    }
    match headers.get(SEC_WEBSOCKET_KEY).map(|key| key.as_bytes()) {
        Some(key) if key.len() == 24 => Ok(derive_accept_key(key)),
        _ => bad("The Sec-WebSocket-Key is missing or has not the length of one; connect with a WebSocket client."),
    }
}

fn has_item(headers: &HeaderMap, name: HeaderName, item: &str) -> bool {
    let values = headers.get_all(name);
    values
        .iter()
        .filter_map(|value| value.to_str().ok())
        .flat_map(|value| value.split(','))
        .any(|found| found.trim().eq_ignore_ascii_case(item))
}

pub fn switching_protocols(accept: &str) -> Response {
    let mut response = plain(StatusCode::SWITCHING_PROTOCOLS, "text/plain", "");
    let headers = response.headers_mut();
    headers.clear();
    headers.insert(CONNECTION, HeaderValue::from_static("Upgrade"));
    headers.insert(UPGRADE, HeaderValue::from_static("websocket"));
    if let Ok(accept) = accept.parse() {
        headers.insert(SEC_WEBSOCKET_ACCEPT, accept);
    }
    response
}

/// A client whose upgrade was granted. It crosses from the HTTP side, whose futures could run on any thread, to the one
/// thread of sockets and driver.
pub struct Newcomer {
    pub upgrade: OnUpgrade,
    /// Given back when the client has gone.
    pub place: Place,
    pub task_name: String,
    pub user_agent: String,
}

/// Serves everyone who comes.
pub async fn welcome(mut newcomers: UnboundedReceiver<Newcomer>, inbox: Rc<Inbox>) {
    while let Some(newcomer) = newcomers.recv().await {
        tokio::task::spawn_local(run(newcomer, inbox.clone()));
    }
}

/// Serves one client until either side ends.
async fn run(newcomer: Newcomer, inbox: Rc<Inbox>) {
    let Newcomer { upgrade, place, task_name, user_agent } = newcomer;
    let span = tracing::info_span!("client", id = place.client.0, task = %task_name, user_agent = %user_agent);
    let sockets = match upgrade.await {
        Ok(upgraded) => socket::take_over(upgraded).await,
        Err(error) => Err(error.to_string()),
    };
    let (mut reader, mut writer) = match sockets {
        Ok(sockets) => sockets,
        Err(error) => return debug!(parent: &span, "gone during the upgrade: {error}"),
    };
    let channel = Rc::new(ClientChannel::new(place.client, span));
    info!(parent: &channel.span, "connected");
    inbox.push(Arrival::Joined { channel: channel.clone(), task: place.task, user_agent });
    let close = tokio::select! {
        close = read(&mut reader, &channel, &inbox) => close,
        close = write(&mut writer, &channel) => close,
    };
    inbox.push(Arrival::Left { client: place.client });
    match close {
        Ok((code, reason)) => {
            info!(parent: &channel.span, code, "closed: {reason}");
            let closing = async {
                writer.close(code, &reason).await;
                socket::linger(reader, writer).await;
            };
            let _ = tokio::time::timeout(LINGER, closing).await;
        }
        Err(reason) => info!(parent: &channel.span, "left: {reason}"),
    }
}

/// `Ok` is the close frame to send; `Err` says why nobody is left to send one to.
type End = Result<(u16, String), String>;

async fn read(reader: &mut SocketReader, channel: &ClientChannel, inbox: &Inbox) -> End {
    loop {
        match reader.next().await {
            Received::Text(text) => {
                let bytes = text.len();
                inbox.push(Arrival::Frame { client: channel.id, text });
                channel.arrived(bytes).await;
            }
            Received::Binary => return Ok((1003, "Binary messages are not part of CDP; send text.".into())),
            Received::TooLong => {
                let reason = format!("A message was longer than {} MiB; send less at once.", MAX_FROM_CLIENT >> 20);
                return Ok((CloseCode::Limit.number(), reason));
            }
            Received::Gone(reason) => return Err(reason),
        }
    }
}

async fn write(writer: &mut SocketWriter, channel: &ClientChannel) -> End {
    loop {
        match channel.to_write().await {
            Ok(batch) => {
                let bytes = batch.iter().map(String::len).sum();
                writer.send(batch).await?;
                channel.written(bytes);
            }
            Err(close) => return Ok(close),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn request(headers: &[(&str, &str)]) -> Request<()> {
        let mut builder = Request::builder();
        for (name, value) in headers {
            builder = builder.header(*name, *value);
        }
        builder.body(()).unwrap()
    }

    const GOOD: [(&str, &str); 4] = [
        ("connection", "keep-alive, Upgrade"),
        ("upgrade", "websocket"),
        ("sec-websocket-version", "13"),
        ("sec-websocket-key", "dGhlIHNhbXBsZSBub25jZQ=="),
    ];

    #[test]
    fn the_example_of_the_rfc_is_accepted() {
        assert_eq!(check_upgrade(&request(&GOOD)).unwrap(), "s3pPLMBiTxaQ9kYGzzhZRbK+xOo=");
    }

    #[test]
    fn an_upgrade_without_one_of_its_headers_is_refused() {
        for missing in 0..GOOD.len() {
            let mut headers = GOOD.to_vec();
            headers.remove(missing);
            assert_eq!(check_upgrade(&request(&headers)).unwrap_err().status, StatusCode::BAD_REQUEST);
        }
    }
}
