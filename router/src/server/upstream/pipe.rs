//! Chromium's `--remote-debugging-pipe`: frames that end with a NUL byte, over two socket pairs.

use bytes::{Buf, BytesMut};
use memchr::memchr;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::UnixStream;

use super::{Frame, MAX_FROM_BROWSER, stand_in};

/// Grown when needed and given back after a large message.
const READ_BUFFER: usize = 64 << 10;
const KEEP_BUFFER: usize = 1 << 20;

/// Frames above this are written from where they are instead of being copied together.
const COPY_LIMIT: usize = 64 << 10;

/// Our ends of the browser's file descriptors 3 (it reads) and 4 (it writes).
pub struct PipeEnds {
    pub to_browser: UnixStream,
    pub from_browser: UnixStream,
}

pub struct Reader {
    stream: UnixStream,
    buffer: BytesMut,
    /// How much of the buffer is known to hold no NUL.
    scanned: usize,
    /// Length of the frame that [`Reader::next_frame`] gave out and that is still in the buffer, with its NUL.
    given: usize,
    /// Holds the frame in the (never seen) case that it is not UTF-8.
    mended: String,
    /// The head of a frame that is too long, while the rest of it is skipped.
    skipping: Option<Vec<u8>>,
}

pub struct Writer {
    stream: UnixStream,
    buffer: Vec<u8>,
}

pub fn open(ends: PipeEnds) -> (Reader, Writer) {
    let reader = Reader {
        stream: ends.from_browser,
        buffer: BytesMut::with_capacity(READ_BUFFER),
        scanned: 0,
        given: 0,
        mended: String::new(),
        skipping: None,
    };
    (reader, Writer { stream: ends.to_browser, buffer: Vec::new() })
}

/// Enough of a frame to read its id.
const HEAD: usize = 64;

/// In the place of an event that was too long: one that nobody is told of.
const DROPPED_EVENT: &str = r#"{"method":"Tabwarden.dropped","params":{}}"#;

impl Reader {
    pub async fn fill(&mut self) -> Result<(), String> {
        self.drop_given();
        if self.buffer.is_empty() && self.buffer.capacity() > KEEP_BUFFER {
            self.buffer = BytesMut::with_capacity(READ_BUFFER);
        }
        while self.end_of_frame().is_none() {
            if self.buffer.len() > MAX_FROM_BROWSER && self.skipping.is_none() {
                self.skipping = Some(self.buffer[..HEAD.min(self.buffer.len())].to_vec());
            }
            if self.skipping.is_some() {
                // The rest of a frame that is too long is read and dropped, for the sake of everybody behind it.
                self.buffer = BytesMut::with_capacity(READ_BUFFER);
                self.scanned = 0;
            }
            self.buffer.reserve(READ_BUFFER);
            match self.stream.read_buf(&mut self.buffer).await {
                Ok(0) => return Err("The browser closed its pipe: it was closed or it crashed.".into()),
                Ok(_) => {}
                Err(error) => {
                    return Err(format!("The pipe to the browser broke ({error}): it was closed or it crashed."));
                }
            }
        }
        Ok(())
    }

    pub fn next_frame(&mut self) -> Option<Frame<'_>> {
        self.drop_given();
        let end = self.end_of_frame()?;
        self.given = end + 1;
        if let Some(head) = self.skipping.take() {
            self.mended = stand_in(&head).unwrap_or_else(|| DROPPED_EVENT.to_owned());
            return Some(Frame::Read(&self.mended));
        }
        match std::str::from_utf8(&self.buffer[..end]) {
            Ok(text) => Some(Frame::Read(text)),
            Err(_) => {
                self.mended = String::from_utf8_lossy(&self.buffer[..end]).into_owned();
                Some(Frame::Read(&self.mended))
            }
        }
    }

    fn end_of_frame(&mut self) -> Option<usize> {
        match memchr(0, &self.buffer[self.scanned..]) {
            Some(at) => {
                self.scanned += at;
                Some(self.scanned)
            }
            None => {
                self.scanned = self.buffer.len();
                None
            }
        }
    }

    fn drop_given(&mut self) {
        if self.given > 0 {
            self.buffer.advance(self.given);
            self.given = 0;
            self.scanned = 0;
        }
    }
}

impl Writer {
    pub async fn send(&mut self, batch: &[String]) -> Result<(), String> {
        for text in batch {
            // A NUL would end the frame early and begin another that was never judged; JSON cannot hold one unescaped.
            if memchr(0, text.as_bytes()).is_some() {
                tracing::error!("A frame with a NUL byte was not sent; report this as a bug of Tabwarden.");
                continue;
            }
            if text.len() > COPY_LIMIT {
                self.flush().await?;
                self.stream.write_all(text.as_bytes()).await.map_err(gone)?;
            } else {
                self.buffer.extend_from_slice(text.as_bytes());
            }
            self.buffer.push(0);
        }
        self.flush().await
    }

    async fn flush(&mut self) -> Result<(), String> {
        self.stream.write_all(&self.buffer).await.map_err(gone)?;
        self.buffer.clear();
        Ok(())
    }
}

fn gone(error: std::io::Error) -> String {
    format!("The browser no longer reads its pipe ({error}): it was closed or it crashed.")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn pair() -> (Reader, Writer, UnixStream, UnixStream) {
        let (to_browser, browser_in) = UnixStream::pair().unwrap();
        let (from_browser, browser_out) = UnixStream::pair().unwrap();
        let (reader, writer) = open(PipeEnds { to_browser, from_browser });
        (reader, writer, browser_in, browser_out)
    }

    fn text(frame: Option<Frame<'_>>) -> Option<String> {
        frame.map(|frame| frame.text().to_owned())
    }

    #[tokio::test(flavor = "current_thread")]
    async fn frames_are_found_however_they_were_cut() {
        let (mut reader, _writer, _in, mut browser) = pair();
        browser.write_all(b"one\0two\0thr").await.unwrap();
        reader.fill().await.unwrap();
        assert_eq!(text(reader.next_frame()).as_deref(), Some("one"));
        assert_eq!(text(reader.next_frame()).as_deref(), Some("two"));
        assert_eq!(text(reader.next_frame()), None);
        browser.write_all(b"ee\0").await.unwrap();
        reader.fill().await.unwrap();
        assert_eq!(text(reader.next_frame()).as_deref(), Some("three"));
        assert_eq!(text(reader.next_frame()), None);
        drop(browser);
        assert!(reader.fill().await.is_err());
    }

    #[tokio::test(flavor = "current_thread")]
    async fn a_batch_arrives_in_order_and_large_frames_whole() {
        let (_reader, mut writer, mut browser, _out) = pair();
        let large = "x".repeat(3 * COPY_LIMIT);
        let batch = ["a".to_owned(), large.clone(), "b".to_owned()];
        let writing = async move { writer.send(&batch).await };
        let reading = async {
            let mut all = vec![0; large.len() + 5];
            browser.read_exact(&mut all).await.unwrap();
            all
        };
        let (sent, all) = futures_util::future::join(writing, reading).await;
        sent.unwrap();
        assert_eq!(all, format!("a\0{large}\0b\0").into_bytes());
    }
}
