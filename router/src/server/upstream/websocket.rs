//! The DevTools WebSocket of a browser that was there before us.

use std::collections::VecDeque;
use std::time::Duration;

use futures_util::stream::{SplitSink, SplitStream};
use futures_util::{FutureExt, SinkExt, StreamExt};
use tokio_tungstenite::WebSocketStream;
use tokio_tungstenite::tungstenite::protocol::{Message, WebSocketConfig};
use tokio_tungstenite::tungstenite::{Error, Utf8Bytes};
use url::Url;

use super::{MAX_FROM_BROWSER, stand_in};
use crate::server::net::{self, Stream};

/// So many frames are taken from the codec at once; the clients' turn comes after them.
const READ_BATCH: usize = 256;

/// What the codec takes. Above `MAX_FROM_BROWSER` it is not passed on; above this the connection ends.
const LARGEST_MESSAGE: usize = 1 << 30;

pub type BrowserSocket = WebSocketStream<Stream>;

pub struct Reader {
    stream: SplitStream<BrowserSocket>,
    ready: VecDeque<Utf8Bytes>,
}

pub struct Writer(SplitSink<BrowserSocket, Message>);

/// Why a dial failed; each has its own remedy, which the command line words.
#[derive(Debug, PartialEq)]
pub enum DialError {
    /// Nobody accepts TCP connections there.
    NotListening(String),
    /// The browser (or the person, asked by it) said no: HTTP 403.
    Refused,
    /// Nobody answered the handshake in time.
    Unanswered,
    Other(String),
}

/// One attempt. Chrome asks its person at every connection, so nothing here tries again.
pub async fn dial(url: &Url, patience: Duration) -> Result<BrowserSocket, DialError> {
    let stream = net::connect(url).await.map_err(DialError::NotListening)?;
    let config =
        WebSocketConfig::default().max_message_size(Some(LARGEST_MESSAGE)).max_frame_size(Some(LARGEST_MESSAGE));
    let handshake = tokio_tungstenite::client_async_with_config(url.as_str(), stream, Some(config));
    match tokio::time::timeout(patience, handshake).await {
        Err(_) => Err(DialError::Unanswered),
        Ok(Ok((socket, _))) => Ok(socket),
        Ok(Err(Error::Http(response))) if response.status() == 403 => Err(DialError::Refused),
        Ok(Err(Error::Http(response))) => {
            Err(DialError::Other(format!("it answered HTTP {}", response.status().as_u16())))
        }
        Ok(Err(error)) => Err(DialError::Other(error.to_string())),
    }
}

pub fn open(socket: BrowserSocket) -> (Reader, Writer) {
    let (writer, reader) = socket.split();
    (Reader { stream: reader, ready: VecDeque::new() }, Writer(writer))
}

impl Reader {
    pub async fn fill(&mut self) -> Result<(), String> {
        while self.ready.is_empty() {
            let mut next = Some(self.stream.next().await);
            while let Some(message) = next {
                match message {
                    Some(Ok(Message::Text(text))) if text.len() > MAX_FROM_BROWSER => {
                        self.ready.extend(stand_in(&text.as_bytes()[..64]).map(Utf8Bytes::from));
                    }
                    Some(Ok(Message::Text(text))) => self.ready.push_back(text),
                    Some(Ok(_)) => {}
                    // What was read before the end is still delivered; the next call meets the end again.
                    _ if !self.ready.is_empty() => return Ok(()),
                    Some(Err(error)) => return Err(format!("The connection to the browser broke ({error}).")),
                    None => return Err("The browser closed the connection.".into()),
                }
                next = (self.ready.len() < READ_BATCH).then(|| self.stream.next().now_or_never()).flatten();
            }
        }
        Ok(())
    }

    pub fn next_frame(&mut self) -> Option<Utf8Bytes> {
        self.ready.pop_front()
    }
}

impl Writer {
    pub async fn send(&mut self, batch: &[String]) -> Result<(), String> {
        for text in batch {
            self.0.feed(Message::text(text.as_str())).await.map_err(gone)?;
        }
        self.0.flush().await.map_err(gone)
    }

    pub async fn close(&mut self) {
        // Gone already is as good.
        let _ = self.0.close().await;
    }
}

fn gone(error: Error) -> String {
    format!("The browser no longer takes messages ({error}).")
}

#[cfg(test)]
mod tests {
    use super::*;
    use tokio::io::{AsyncReadExt, AsyncWriteExt};
    use tokio::net::TcpListener;

    /// What a dial to somebody who answers the handshake so comes to.
    async fn dialled(answer: Option<&'static str>) -> Result<(), DialError> {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let url = Url::parse(&format!("ws://{}/devtools/browser/x", listener.local_addr().unwrap())).unwrap();
        let serving = async {
            let (mut stream, _) = listener.accept().await.unwrap();
            let mut request = [0; 4096];
            let _ = stream.read(&mut request).await;
            if let Some(answer) = answer {
                stream.write_all(answer.as_bytes()).await.unwrap();
            }
            let _ = stream.read(&mut request).await;
        };
        let dialling = dial(&url, Duration::from_millis(300));
        let (_, outcome) = futures_util::future::join(serving, dialling.map(|outcome| outcome.map(drop))).await;
        outcome
    }

    #[tokio::test(flavor = "current_thread")]
    async fn each_way_to_fail_is_told_apart() {
        assert_eq!(dialled(Some("HTTP/1.1 403 Forbidden\r\nContent-Length: 0\r\n\r\n")).await, Err(DialError::Refused));
        assert_eq!(dialled(None).await, Err(DialError::Unanswered));
        let not_found = dialled(Some("HTTP/1.1 404 Not Found\r\nContent-Length: 0\r\n\r\n")).await;
        assert_eq!(not_found, Err(DialError::Other("it answered HTTP 404".into())));
        assert!(matches!(dialled(Some("SSH-2.0-x\r\n\r\n")).await, Err(DialError::Other(_))));
        let nobody = dial(&Url::parse("ws://127.0.0.1:1/x").unwrap(), Duration::from_secs(1)).await.map(drop);
        assert!(matches!(nobody, Err(DialError::NotListening(_))));
    }
}
