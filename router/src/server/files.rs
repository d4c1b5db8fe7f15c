//! Complete downloads over HTTP, for clients that are on another machine: below the API for the admin, below the address
//! of a task for who has its token. Page authors chose what is in them, so a browser may save them and do nothing else.

use std::fmt::Write;
use std::io;

use axum::Extension;
use axum::body::{Body, Bytes};
use axum::extract::{Path, State};
use axum::http::header::{
    CACHE_CONTROL, CONTENT_DISPOSITION, CONTENT_LENGTH, CONTENT_SECURITY_POLICY, CONTENT_TYPE, X_CONTENT_TYPE_OPTIONS,
};
use axum::http::{HeaderName, HeaderValue, StatusCode};
use axum::response::Response;
use futures_util::{Stream, stream};
use tokio::fs::File;
use tokio::io::AsyncReadExt;

use super::handle::Handle;
use super::refusal::{ApiRefusal, Refusal};
use super::routes::Opened;
use super::task_files::{Finished, open_plain};

/// Read and sent at once.
const CHUNK: usize = 64 << 10;

pub async fn of_any_task(
    State(handle): State<Handle>,
    path: Result<Path<(String, String)>, axum::extract::rejection::PathRejection>,
) -> Result<Response, ApiRefusal> {
    let Ok(Path((task, guid))) = path else { return Err(not_found().into()) };
    Ok(send(&handle, &task, &guid).await?)
}

pub async fn of_this_task(
    State(handle): State<Handle>,
    Extension(opened): Extension<Opened>,
    path: Result<Path<Guid>, axum::extract::rejection::PathRejection>,
) -> Result<Response, Refusal> {
    let Ok(Path(Guid { guid })) = path else { return Err(not_found()) };
    send(&handle, &opened.name, &guid).await
}

/// By name, as there may be a token before it in the path.
#[derive(serde::Deserialize)]
pub struct Guid {
    guid: String,
}

async fn send(handle: &Handle, task: &str, guid: &str) -> Result<Response, Refusal> {
    let Finished { path, suggested } = handle.shared.files.find(task, guid).ok_or_else(not_found)?;
    // On another thread, as is every read: a slow disk is no reason to keep anybody's messages waiting.
    let opened = tokio::task::spawn_blocking(move || {
        let file = open_plain(&path)?;
        let length = file.metadata()?.len();
        Ok::<_, io::Error>((file, length))
    });
    let Ok(Ok((file, length))) = opened.await else { return Err(not_found()) };
    let mut response = Response::new(Body::from_stream(chunks(File::from_std(file))));
    let headers = response.headers_mut();
    let fixed: [(HeaderName, &str); 4] = [
        (CONTENT_TYPE, "application/octet-stream"),
        (X_CONTENT_TYPE_OPTIONS, "nosniff"),
        (CONTENT_SECURITY_POLICY, "sandbox; default-src 'none'"),
        (CACHE_CONTROL, "no-store"),
    ];
    for (name, value) in fixed {
        headers.insert(name, HeaderValue::from_static(value));
    }
    headers.insert(CONTENT_LENGTH, HeaderValue::from(length));
    // Percent-encoded, so it can always be a header.
    if let Ok(disposition) = HeaderValue::try_from(disposition(&suggested)) {
        headers.insert(CONTENT_DISPOSITION, disposition);
    }
    Ok(response)
}

fn not_found() -> Refusal {
    Refusal::new(
        StatusCode::NOT_FOUND,
        "not_found",
        "There is no complete download of this guid in this task; Browser.downloadProgress tells guids, and files go \
            with their task.",
    )
}

fn chunks(file: File) -> impl Stream<Item = io::Result<Bytes>> {
    stream::unfold(Some(file), |file| async {
        let mut file = file?;
        let mut chunk = Vec::with_capacity(CHUNK);
        match file.read_buf(&mut chunk).await {
            Ok(0) => None,
            Ok(_) => Some((Ok(Bytes::from(chunk)), Some(file))),
            Err(error) => Some((Err(error), None)),
        }
    })
}

/// RFC 6266: a plain name for old readers, the real one for the others.
fn disposition(name: &str) -> String {
    let plain = |c: char| if c.is_ascii_alphanumeric() || matches!(c, '.' | '-' | '_') { c } else { '_' };
    let mut text =
        format!("attachment; filename=\"{}\"; filename*=UTF-8''", name.chars().map(plain).collect::<String>());
    for byte in name.bytes() {
        match byte {
            b'a'..=b'z' | b'A'..=b'Z' | b'0'..=b'9' | b'.' | b'-' | b'_' => text.push(byte.into()),
            // Writing to a string does not fail.
            byte => drop(write!(text, "%{byte:02X}")),
        }
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_name_is_only_a_name_in_the_header() {
        assert_eq!(disposition("a-1_b.txt"), "attachment; filename=\"a-1_b.txt\"; filename*=UTF-8''a-1_b.txt");
        assert_eq!(
            disposition("ü\"\r\n;.txt"),
            "attachment; filename=\"_____.txt\"; filename*=UTF-8''%C3%BC%22%0D%0A%3B.txt"
        );
        assert!(HeaderValue::try_from(disposition("\u{0}\u{7f}ü\r\n")).is_ok());
    }
}
