//! Client sockets: from the upgrade to each kind of end.

use futures_util::{SinkExt, StreamExt};
use tokio_tungstenite::WebSocketStream;
use tokio_tungstenite::tungstenite::protocol::{CloseFrame, Message};

use super::*;

type Socket = WebSocketStream<TcpStream>;

pub(super) async fn connect(world: &World) -> Socket {
    let stream = TcpStream::connect(("127.0.0.1", world.port)).await.unwrap();
    let url = format!("ws://127.0.0.1:{}{}", world.port, world.path("/devtools/browser/anything"));
    tokio_tungstenite::client_async(url, stream).await.unwrap().0
}

async fn close_frame(socket: &mut Socket) -> CloseFrame {
    loop {
        match socket.next().await {
            Some(Ok(Message::Close(Some(frame)))) => return frame,
            Some(Ok(_)) => {}
            other => panic!("no close frame but {other:?}"),
        }
    }
}

#[test]
fn messages_go_both_ways_in_order() {
    with_world(settings(), |world| async move {
        let mut socket = connect(&world).await;
        for n in 0..500 {
            socket.feed(Message::text(format!("echo{n}"))).await.unwrap();
        }
        socket.flush().await.unwrap();
        for n in 0..500 {
            assert_eq!(socket.next().await.unwrap().unwrap(), Message::text(format!("echo{n}")));
        }
        let (mut reads, mut writes) = world.browser.lock().await.take().unwrap();
        socket.send(Message::text("up1")).await.unwrap();
        let mut frame = [0; 4];
        reads.read_exact(&mut frame).await.unwrap();
        assert_eq!(&frame, b"up1\0");
        writes.write_all(b"down1\0down2\0").await.unwrap();
        assert_eq!(socket.next().await.unwrap().unwrap(), Message::text("down1"));
        assert_eq!(socket.next().await.unwrap().unwrap(), Message::text("down2"));
    });
}

#[test]
fn a_binary_message_ends_its_client_only() {
    with_world(settings(), |world| async move {
        let (mut one, mut two) = (connect(&world).await, connect(&world).await);
        one.send(Message::binary(vec![1])).await.unwrap();
        assert_eq!(u16::from(close_frame(&mut one).await.code), 1003);
        two.send(Message::text("echo")).await.unwrap();
        assert_eq!(two.next().await.unwrap().unwrap(), Message::text("echo"));
    });
}

#[test]
fn a_message_that_is_too_long_ends_its_client_with_4004_and_the_reason() {
    with_world(settings(), |world| async move {
        for message in ["x".repeat((64 << 20) + 1), "huge".into()] {
            let (mut write, mut read) = connect(&world).await.split();
            let (_, frame) = futures_util::future::join(write.send(Message::text(message)), async {
                loop {
                    match read.next().await {
                        Some(Ok(Message::Close(Some(frame)))) => return frame,
                        Some(Ok(_)) => {}
                        other => panic!("no close frame but {other:?}"),
                    }
                }
            })
            .await;
            assert_eq!(u16::from(frame.code), 4004);
            assert!(frame.reason.contains("send less"), "{}", frame.reason);
        }
    });
}

#[test]
fn a_client_that_does_not_read_is_closed_with_4004() {
    with_world(settings(), |world| async move {
        let mut socket = connect(&world).await;
        socket.send(Message::text("flood")).await.unwrap();
        // 320 MiB are queued while nothing is read.
        tokio::time::sleep(Duration::from_millis(300)).await;
        assert_eq!(u16::from(close_frame(&mut socket).await.code), 4004);
    });
}

#[test]
fn the_engine_closes_a_client_with_its_code_and_reason() {
    with_world(settings(), |world| async move {
        let mut socket = connect(&world).await;
        socket.send(Message::text("end")).await.unwrap();
        let frame = close_frame(&mut socket).await;
        assert_eq!((u16::from(frame.code), frame.reason.as_str()), (4001, "The task was ended."));
    });
}

#[test]
fn a_lost_browser_closes_everybody_with_4003() {
    with_world(settings(), |world| async move {
        let mut socket = connect(&world).await;
        socket.send(Message::text("echo")).await.unwrap();
        socket.next().await.unwrap().unwrap();
        world.browser.lock().await.take();
        assert_eq!(u16::from(close_frame(&mut socket).await.code), 4003);
        assert!(matches!(world.driving.await.unwrap(), Outcome::BrowserLost(_)));
        assert_eq!(
            world.handle.shared.registry.phase(),
            crate::server::registry::Phase::Over(
                "The browser closed its pipe: it was closed or it crashed. Start Tabwarden again.".into()
            )
        );
    });
}

#[test]
fn draining_closes_everybody_with_1001() {
    with_world(settings(), |world| async move {
        let mut socket = connect(&world).await;
        socket.send(Message::text("echo")).await.unwrap();
        socket.next().await.unwrap().unwrap();
        world.handle.drain();
        assert_eq!(u16::from(close_frame(&mut socket).await.code), 1001);
        assert_eq!(world.driving.await.unwrap(), Outcome::Drained);
        drop(socket);
        world.handle.clients_gone(Duration::from_secs(5)).await;
        assert!(world.handle.shared.open.is_empty());
    });
}

#[test]
fn an_ended_or_rotated_token_opens_nothing() {
    with_world(settings(), |world| async move {
        let new = world.handle.rotate("one").unwrap().unwrap();
        assert_eq!(status(&world.get(&world.path("/json/version")).await), 401);
        let path = format!("/t/{}/json/version", new.reveal());
        assert_eq!(status(&world.get(&path).await), 200);
        world.handle.ask(AdminCommand::TaskEnd { name: "one".into(), keep_pages: false }).await.unwrap();
        assert_eq!(status(&world.get(&path).await), 401);
    });
}

#[test]
fn the_sockets_of_one_task_are_counted() {
    with_world(settings(), |world| async move {
        let mut sockets = Vec::new();
        for _ in 0..128 {
            sockets.push(connect(&world).await);
        }
        let upgrade = "Connection: Upgrade\r\nUpgrade: websocket\r\nSec-WebSocket-Version: 13\r\nSec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==\r\n";
        let request = format!("GET {} HTTP/1.1\r\nHost: localhost\r\n{upgrade}\r\n", world.path("/devtools/browser/x"));
        assert_eq!(status(&world.raw(&request).await), 429);
        drop(sockets);
        tokio::time::sleep(Duration::from_millis(200)).await;
        assert_eq!(status(&world.raw(&request).await), 101);
    });
}

#[test]
fn a_task_that_is_still_to_be_made_answers_503_then_opens() {
    with_world(settings(), |world| async move {
        let token = Tokens::new().unwrap().draw().unwrap();
        world.handle.expect(&token);
        let path = format!("/t/{}/json/version", token.reveal());
        assert!(world.get(&path).await.starts_with("HTTP/1.1 503 This task is being made"));
        world.handle.set_waiting("Tabwarden is waiting for your approval in Chrome.");
        assert!(world.get(&path).await.starts_with("HTTP/1.1 503 Tabwarden is waiting for your approval in Chrome."));
        world.handle.expect_no_more();
        assert_eq!(status(&world.get(&path).await), 401);
    });
}
