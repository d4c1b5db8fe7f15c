//! The seam over the WebSocket codec: text in, batches of text out. Only this file and `upstream::websocket` know that
//! it is tungstenite, so that a faster codec can take its place.

use futures_util::stream::{SplitSink, SplitStream};
use futures_util::{SinkExt, StreamExt};
use hyper_util::rt::TokioIo;
use tokio::io::AsyncReadExt;
use tokio::net::TcpStream;
use tokio_tungstenite::WebSocketStream;
use tokio_tungstenite::tungstenite::error::{CapacityError, Error};
use tokio_tungstenite::tungstenite::protocol::frame::coding::CloseCode;
use tokio_tungstenite::tungstenite::protocol::{CloseFrame, Message, Role, WebSocketConfig};

pub use tokio_tungstenite::tungstenite::Utf8Bytes;

/// Largest message that a client may send. Chromium drops everybody at 100 MB, so it must not even come near.
pub const MAX_FROM_CLIENT: usize = 64 << 20;

pub enum Received {
    Text(Utf8Bytes),
    /// Chromium drops the connection, and so every client, at a binary frame: it must end here.
    Binary,
    TooLong,
    /// Closed or broken; the sentence is for the log.
    Gone(String),
}

pub struct SocketReader {
    stream: SplitStream<WebSocketStream<TcpStream>>,
    too_long: bool,
}

pub struct SocketWriter(SplitSink<WebSocketStream<TcpStream>, Message>);

/// Takes over an upgraded HTTP connection. `Err` says why it cannot be.
pub async fn take_over(upgraded: hyper::upgrade::Upgraded) -> Result<(SocketReader, SocketWriter), String> {
    let parts = upgraded.downcast::<TokioIo<TcpStream>>().map_err(
        |_| "The upgraded connection is not the TCP stream that was accepted; report this as a bug of Tabwarden.",
    )?;
    let config =
        WebSocketConfig::default().max_message_size(Some(MAX_FROM_CLIENT)).max_frame_size(Some(MAX_FROM_CLIENT));
    let stream = parts.io.into_inner();
    let socket =
        WebSocketStream::from_partially_read(stream, parts.read_buf.to_vec(), Role::Server, Some(config)).await;
    let (writer, reader) = socket.split();
    Ok((SocketReader { stream: reader, too_long: false }, SocketWriter(writer)))
}

impl SocketReader {
    pub async fn next(&mut self) -> Received {
        loop {
            match self.stream.next().await {
                Some(Ok(Message::Text(text))) => return Received::Text(text),
                Some(Ok(Message::Binary(_))) => return Received::Binary,
                // Tungstenite answers pings and close frames by itself; after a close the stream ends.
                Some(Ok(_)) => {}
                Some(Err(Error::Capacity(CapacityError::MessageTooLong { .. }))) => {
                    self.too_long = true;
                    return Received::TooLong;
                }
                Some(Err(error)) => return Received::Gone(error.to_string()),
                None => return Received::Gone("closed by the client".into()),
            }
        }
    }
}

/// After the close frame: reads until the peer is gone, whatever it sends. A reset, which unread input causes, could
/// overtake the close frame.
pub async fn linger(mut reader: SocketReader, writer: SocketWriter) {
    while reader.stream.next().await.is_some() {}
    // The codec reads no further after a message that was too long; the rest of that message is still coming.
    if reader.too_long
        && let Ok(mut socket) = reader.stream.reunite(writer.0)
    {
        let mut scrap = vec![0; 64 << 10];
        while matches!(socket.get_mut().read(&mut scrap).await, Ok(1..)) {}
    }
}

impl SocketWriter {
    /// Writes all and flushes once: a flush for each message costs seven times as much.
    pub async fn send(&mut self, batch: impl IntoIterator<Item = String>) -> Result<(), String> {
        for text in batch {
            self.0.feed(Message::Text(text.into())).await.map_err(|error| error.to_string())?;
        }
        self.0.flush().await.map_err(|error| error.to_string())
    }

    pub async fn close(&mut self, code: u16, reason: &str) {
        let frame = CloseFrame { code: CloseCode::from(code), reason: cut(reason).into() };
        // The peer may be gone already; there is nobody left to tell then.
        let _ = self.0.send(Message::Close(Some(frame))).await;
    }
}

/// A close reason holds 123 bytes at most.
fn cut(reason: &str) -> &str {
    let mut end = reason.len().min(123);
    while !reason.is_char_boundary(end) {
        end -= 1;
    }
    &reason[..end]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn long_reasons_are_cut_between_characters() {
        assert_eq!(cut("short"), "short");
        assert_eq!(cut(&"ä".repeat(100)).len(), 122);
    }
}
