//! Connections over which HTTP comes in; how a request is answered is the matter of [`super::routes`].
//!
//! Served by hyper below axum's router instead of `axum::serve`: the time for a request's head is bounded, and only
//! HTTP/1.1 is spoken.

use std::time::Duration;

use axum::Router;
use hyper::server::conn::http1;
use hyper_util::rt::{TokioIo, TokioTimer};
use hyper_util::service::TowerToHyperService;
use tokio::net::{TcpListener, TcpStream};
use tracing::{debug, warn};

/// A request's head must be there by then: open connections are not free.
const HEAD_PATIENCE: Duration = Duration::from_secs(10);

pub async fn accept(listener: TcpListener, routes: Router) {
    loop {
        match listener.accept().await {
            Ok((stream, _)) => {
                tokio::task::spawn_local(serve(stream, routes.clone()));
            }
            Err(error) => {
                warn!("A connection could not be accepted ({error}); trying again.");
                // Out of file descriptors, most likely: without a pause this would spin.
                tokio::time::sleep(Duration::from_millis(100)).await;
            }
        }
    }
}

async fn serve(stream: TcpStream, routes: Router) {
    // Small messages must not wait for each other; where it cannot be set, they are only later.
    let _ = stream.set_nodelay(true);
    let connection = http1::Builder::new()
        .timer(TokioTimer::new())
        .header_read_timeout(HEAD_PATIENCE)
        .serve_connection(TokioIo::new(stream), TowerToHyperService::new(routes))
        .with_upgrades();
    if let Err(error) = connection.await {
        debug!("A connection ended early: {error}");
    }
}
