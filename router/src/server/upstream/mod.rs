//! The one connection to the browser: a pipe to a browser that we started, or the WebSocket of one that was there.
//!
//! Reading and writing are apart, and the reader never waits for the writer: a browser that is busy sending would
//! otherwise never get to read, and both sides would stand still.

mod pipe;
pub mod websocket;

use std::cell::{Cell, RefCell};
use std::rc::Rc;

use tokio::sync::Notify;

use super::inbox::Inbox;
use super::socket::Utf8Bytes;
pub use pipe::PipeEnds;

/// Largest message from the browser; screenshots and heap snapshots stay far below.
pub const MAX_FROM_BROWSER: usize = 256 << 20;

/// Largest message to the browser. It closes the connection, and so ends everybody, at about 100 MB.
pub const MAX_TO_BROWSER: usize = crate::engine::io::LARGEST_TO_BROWSER;

/// An open connection, not yet in use.
pub enum Upstream {
    Pipe(PipeEnds),
    WebSocket(Box<websocket::BrowserSocket>),
}

/// One frame of the browser's, where it was read or as the codec made it.
pub enum Frame<'a> {
    Read(&'a str),
    Made(Utf8Bytes),
}

impl Frame<'_> {
    pub fn text(&self) -> &str {
        match self {
            Frame::Read(text) => text,
            Frame::Made(text) => text,
        }
    }
}

pub enum UpstreamReader {
    Pipe(pipe::Reader),
    WebSocket(websocket::Reader),
}

impl UpstreamReader {
    /// Waits until there is something for [`Self::next_frame`]; may be dropped and called again. `Err` says how the
    /// browser went.
    pub async fn fill(&mut self) -> Result<(), String> {
        match self {
            UpstreamReader::Pipe(reader) => reader.fill().await,
            UpstreamReader::WebSocket(reader) => reader.fill().await,
        }
    }

    /// The next whole frame of what was read.
    pub fn next_frame(&mut self) -> Option<Frame<'_>> {
        match self {
            UpstreamReader::Pipe(reader) => reader.next_frame(),
            UpstreamReader::WebSocket(reader) => reader.next_frame().map(Frame::Made),
        }
    }
}

/// For an answer of the browser's that is too long to pass on: an error with its id, so that one client's wish for it is the
/// only thing lost. `None` for an event, which nobody waits for. Chromium writes the id first.
fn stand_in(head: &[u8]) -> Option<String> {
    let digits = head.strip_prefix(b"{\"id\":")?;
    let end = digits.iter().position(|byte| !byte.is_ascii_digit())?;
    let id = std::str::from_utf8(&digits[..end]).ok().filter(|id| !id.is_empty())?;
    tracing::warn!("An answer of the browser's was longer than {} MiB and was not passed on.", MAX_FROM_BROWSER >> 20);
    Some(format!(
        r#"{{"id":{id},"error":{{"code":-32000,"message":"tabwarden: the answer is longer than {} MiB and was not passed on; ask for less at once"}}}}"#,
        MAX_FROM_BROWSER >> 20
    ))
}

/// What waits to be written to the browser.
#[derive(Default)]
pub struct SendQueue {
    pending: RefCell<Vec<String>>,
    bytes: Cell<usize>,
    finished: Cell<bool>,
    kick: Notify,
}

impl SendQueue {
    pub fn push(&self, text: String) {
        self.bytes.set(self.bytes.get() + text.len());
        self.pending.borrow_mut().push(text);
    }

    /// After a batch.
    pub fn flush(&self) {
        if !self.pending.borrow().is_empty() {
            self.kick.notify_one();
        }
    }

    /// Bytes that the browser has not taken yet.
    pub fn backlog(&self) -> usize {
        self.bytes.get()
    }

    /// Nothing more will come: what is queued is written, then the browser is told.
    pub fn finish(&self) {
        self.finished.set(true);
        self.kick.notify_one();
    }

    /// `None` when all was written that ever will be.
    async fn take(&self) -> Option<Vec<String>> {
        loop {
            let batch = std::mem::take(&mut *self.pending.borrow_mut());
            if !batch.is_empty() {
                return Some(batch);
            }
            if self.finished.get() {
                return None;
            }
            self.kick.notified().await;
        }
    }

    fn written(&self, batch: &[String]) {
        let bytes: usize = batch.iter().map(String::len).sum();
        self.bytes.set(self.bytes.get().saturating_sub(bytes));
    }
}

/// Splits the connection; the returned future writes until it is dropped or fails, and must be polled beside the
/// reader.
pub fn open(
    upstream: Upstream,
    queue: Rc<SendQueue>,
    inbox: Rc<Inbox>,
) -> (UpstreamReader, impl Future<Output = String>) {
    let (reader, mut writer) = match upstream {
        Upstream::Pipe(ends) => {
            let (reader, writer) = pipe::open(ends);
            (UpstreamReader::Pipe(reader), Writer::Pipe(writer))
        }
        Upstream::WebSocket(socket) => {
            let (reader, writer) = websocket::open(*socket);
            (UpstreamReader::WebSocket(reader), Writer::WebSocket(writer))
        }
    };
    let writing = async move {
        while let Some(batch) = queue.take().await {
            let sent = match &mut writer {
                Writer::Pipe(writer) => writer.send(&batch).await,
                Writer::WebSocket(writer) => writer.send(&batch).await,
            };
            queue.written(&batch);
            // Clients may be waiting for room.
            inbox.wake();
            if let Err(reason) = sent {
                return reason;
            }
        }
        if let Writer::WebSocket(writer) = &mut writer {
            writer.close().await;
        }
        "Everything was written.".to_owned()
    };
    (reader, writing)
}

enum Writer {
    Pipe(pipe::Writer),
    WebSocket(websocket::Writer),
}
