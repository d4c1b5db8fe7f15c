//! What waits for the driver: messages of clients, in order. And the other way, the queue of each client. All on one
//! thread; only wake-ups pass between the futures.

use std::cell::{Cell, RefCell};
use std::collections::VecDeque;
use std::rc::Rc;

use ownership::id::{ClientId, TaskId};
use tokio::sync::Notify;

use super::socket::Utf8Bytes;

/// So much of one client waits for the driver; then its socket is not read. Keeps a flood of one client from delaying
/// the others by more than this.
const MAX_WAITING_BYTES: usize = 256 << 10;
const MAX_WAITING_MESSAGES: usize = 64;

/// So much may wait for a client that does not read; then it is closed. Holds the largest message of Chromium's.
const MAX_UNREAD_BYTES: usize = 256 << 20;

/// So much is given to the codec at once, so that a close frame need not wait for the whole queue of a slow client.
const WRITE_CHUNK_BYTES: usize = 1 << 20;

pub enum Arrival {
    Joined { channel: Rc<ClientChannel>, task: TaskId, user_agent: String },
    Frame { client: ClientId, text: Utf8Bytes },
    Left { client: ClientId },
}

#[derive(Default)]
pub struct Inbox {
    arrivals: RefCell<VecDeque<Arrival>>,
    /// Set when no driver will ever come again: how whoever still joins is closed.
    shut: RefCell<Option<(u16, String)>>,
    wake: Notify,
}

impl Inbox {
    pub fn push(&self, arrival: Arrival) {
        if let Some((code, reason)) = &*self.shut.borrow() {
            if let Arrival::Joined { channel, .. } = arrival {
                channel.close(*code, reason.clone());
            }
            return;
        }
        self.arrivals.borrow_mut().push_back(arrival);
        self.wake.notify_one();
    }

    /// The driver has ended: closes whoever it never saw.
    pub fn shut(&self, code: u16, reason: &str) {
        *self.shut.borrow_mut() = Some((code, reason.to_owned()));
        for arrival in self.arrivals.take() {
            self.push(arrival);
        }
    }

    pub fn next_arrival(&self) -> Option<Arrival> {
        self.arrivals.borrow_mut().pop_front()
    }

    /// Wakes the driver for another reason than an arrival: the browser's queue has room again, or a batch was cut
    /// short.
    pub fn wake(&self) {
        self.wake.notify_one();
    }

    pub async fn woken(&self) {
        self.wake.notified().await;
    }
}

/// One client as its socket and the driver share it.
pub struct ClientChannel {
    pub id: ClientId,
    /// Entered only to log: entering it for each message would cost more than the message.
    pub span: tracing::Span,
    outgoing: RefCell<VecDeque<String>>,
    unread: Cell<usize>,
    close: RefCell<Option<(u16, String)>>,
    to_write: Notify,
    waiting_bytes: Cell<usize>,
    waiting_messages: Cell<usize>,
    drained: Notify,
}

impl ClientChannel {
    pub fn new(id: ClientId, span: tracing::Span) -> ClientChannel {
        ClientChannel {
            id,
            span,
            outgoing: RefCell::default(),
            unread: Cell::new(0),
            close: RefCell::default(),
            to_write: Notify::new(),
            waiting_bytes: Cell::new(0),
            waiting_messages: Cell::new(0),
            drained: Notify::new(),
        }
    }

    /// `false` when the client reads too slowly: it has to be closed. One message is taken whatever its size.
    pub fn queue(&self, text: String) -> bool {
        let unread = self.unread.get();
        if unread > 0 && unread + text.len() > MAX_UNREAD_BYTES {
            return false;
        }
        self.unread.set(unread + text.len());
        self.outgoing.borrow_mut().push_back(text);
        true
    }

    /// After a batch: lets the socket write what was queued.
    pub fn flush(&self) {
        self.to_write.notify_one();
    }

    /// What is queued already still goes out first.
    pub fn close(&self, code: u16, reason: String) {
        self.close.borrow_mut().get_or_insert((code, reason));
        self.to_write.notify_one();
    }

    /// For a client that does not read: what has not been written will not be.
    pub fn discard_and_close(&self, code: u16, reason: String) {
        self.outgoing.borrow_mut().clear();
        self.close(code, reason);
    }

    fn chunk(&self) -> Vec<String> {
        let mut outgoing = self.outgoing.borrow_mut();
        let mut batch = Vec::new();
        let mut bytes = 0;
        while bytes < WRITE_CHUNK_BYTES {
            let Some(text) = outgoing.pop_front() else { break };
            bytes += text.len();
            batch.push(text);
        }
        batch
    }

    /// The next messages to write, or the close frame when nothing is left before it.
    pub async fn to_write(&self) -> Result<Vec<String>, (u16, String)> {
        loop {
            let batch = self.chunk();
            if !batch.is_empty() {
                return Ok(batch);
            }
            if let Some(close) = self.close.borrow_mut().take() {
                return Err(close);
            }
            self.to_write.notified().await;
        }
    }

    pub fn written(&self, bytes: usize) {
        self.unread.set(self.unread.get().saturating_sub(bytes));
    }

    /// The socket's side: a message has gone to the inbox; returns when the next may be read.
    pub async fn arrived(&self, bytes: usize) {
        self.waiting_bytes.set(self.waiting_bytes.get() + bytes);
        self.waiting_messages.set(self.waiting_messages.get() + 1);
        while self.waiting_bytes.get() > MAX_WAITING_BYTES || self.waiting_messages.get() > MAX_WAITING_MESSAGES {
            self.drained.notified().await;
        }
    }

    /// The driver's side of [`Self::arrived`].
    pub fn taken(&self, bytes: usize) {
        self.waiting_bytes.set(self.waiting_bytes.get().saturating_sub(bytes));
        self.waiting_messages.set(self.waiting_messages.get().saturating_sub(1));
        self.drained.notify_one();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn channel() -> ClientChannel {
        ClientChannel::new(ClientId(1), tracing::Span::none())
    }

    #[test]
    fn a_client_that_does_not_read_is_found_out_but_one_message_of_any_size_fits() {
        let channel = channel();
        assert!(channel.queue("x".repeat(MAX_UNREAD_BYTES + 1)));
        assert!(!channel.queue("x".into()));
        channel.written(MAX_UNREAD_BYTES + 1);
        assert!(channel.queue("x".into()));
    }

    #[tokio::test(flavor = "current_thread")]
    async fn what_was_queued_goes_out_before_the_close_frame() {
        let channel = channel();
        channel.queue("last words".into());
        channel.close(4001, "ended".into());
        assert_eq!(channel.to_write().await, Ok(vec!["last words".into()]));
        assert_eq!(channel.to_write().await, Err((4001, "ended".into())));
    }

    #[tokio::test(flavor = "current_thread")]
    async fn a_flooding_client_waits_until_the_driver_took_something() {
        let channel = channel();
        channel.arrived(10).await;
        let flood = channel.arrived(MAX_WAITING_BYTES);
        let taken = async {
            tokio::task::yield_now().await;
            channel.taken(MAX_WAITING_BYTES);
        };
        futures_util::future::join(flood, taken).await;
    }
}
