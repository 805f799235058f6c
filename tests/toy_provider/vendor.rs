//! The toy's vendor.

use bytes::Bytes;
use futures_util::{SinkExt as _, StreamExt as _};
use serde_json::{Value, json};
use tokio::net::TcpListener;
use tokio_tungstenite::{accept_async, tungstenite::Message};

/// It says "Hello." when it is asked to speak, and repeats the caller's bytes as words.
pub async fn serves(listener: TcpListener) -> Option<()> {
    let mut socket = accept_async(listener.accept().await.ok()?.0).await.ok()?;
    socket.send(Message::text(r#"{"type":"hello"}"#)).await.ok()?;
    while let Some(Ok(message)) = socket.next().await {
        match message {
            Message::Text(text) => {
                let message: Value = serde_json::from_str(&text).ok()?;
                if message["type"] == "speak" {
                    socket.send(Message::text(r#"{"type":"say","id":"one"}"#)).await.ok()?;
                    socket.send(Message::Binary(Bytes::from_static(&[7; 320]))).await.ok()?;
                    let said = json!({ "type": "said", "text": message["about"] });
                    socket.send(Message::text(said.to_string())).await.ok()?;
                }
            }
            Message::Binary(audio) => {
                let heard = json!({ "type": "heard", "text": format!("{} bytes", audio.len()) });
                socket.send(Message::text(heard.to_string())).await.ok()?;
            }
            _ => {}
        }
    }
    Some(())
}
