//! The Asterisk side of `chan_websocket`, as a server: a queue that is played by a clock of 20 ms, and commands as JSON.

use super::{
    channel::{Sent, cause},
    frame::{Codec, Decoder, Encoder},
    state::{By, Switch},
};
use bytes::Bytes;
use futures_util::{SinkExt as _, StreamExt as _};
use serde_json::{Value, json};
use std::{collections::VecDeque, time::Duration};
use tokio::{
    net::TcpStream,
    sync::mpsc,
    time::{MissedTickBehavior, interval},
};
use tokio_tungstenite::{
    WebSocketStream,
    tungstenite::{
        Error, Message,
        protocol::{CloseFrame, frame::coding::CloseCode},
    },
};

const FRAME: Duration = Duration::from_millis(20);
const QUEUE_MAX: usize = 1_000;
const XOFF: usize = 900;
const XON: usize = 800;
/// Commands of more bytes are ignored.
const COMMAND_MAX: usize = 128;

type Socket = WebSocketStream<TcpStream>;

enum Item {
    Audio(Bytes),
    Mark(Value),
    /// What was buffered has been played.
    Buffered(Value),
}

struct Media {
    switch: Switch,
    id: String,
    codec: Codec,
    socket: Socket,
    decoder: Decoder,
    queue: VecDeque<Item>,
    frames: usize,
    full: bool,
    paused: bool,
    /// What has come since `START_MEDIA_BUFFERING` and is no whole frame yet.
    buffering: Option<Vec<u8>>,
    reports_drained: bool,
}

/// How a connection ended.
enum Finish {
    HungUp,
    Lost,
}

/// Carries the channel's audio over a connection that was opened for it.
pub async fn carry(
    switch: Switch,
    id: String,
    connection: &str,
    socket: Socket,
    mut sent: mpsc::UnboundedReceiver<Sent>,
) {
    let Some((codec, name, variables)) = switch.with(|state| {
        let channel = state.channels.get(&id)?;
        Some((channel.codec, channel.name.clone(), channel.variables.clone()))
    }) else {
        return;
    };
    let decoder = Decoder::new(codec);
    let queue = VecDeque::new();
    let mut media = Media {
        switch: switch.clone(),
        id: id.clone(),
        codec,
        socket,
        decoder,
        queue,
        frames: 0,
        full: false,
        paused: false,
        buffering: None,
        reports_drained: false,
    };
    let start = json!({
        "event": "MEDIA_START",
        "connection_id": connection,
        "channel": name,
        "channel_id": id,
        "format": codec.name(),
        "optimal_frame_size": codec.frame_bytes(),
        "ptime": 20,
        "channel_variables": variables,
    });
    if media.say(&start).await.is_err() {
        return switch.with(|state| state.hang_up(&id, cause::FAILURE, By::FarEnd));
    }
    switch.with(|state| state.answer(&id));
    let cause = match media.run(&mut sent).await {
        Ok(Finish::HungUp) => {
            let farewell = CloseFrame { code: CloseCode::Normal, reason: "".into() };
            let _ = media.socket.close(Some(farewell)).await;
            cause::NORMAL
        }
        Ok(Finish::Lost) | Err(_) => cause::FAILURE,
    };
    switch.with(|state| state.hang_up(&id, cause, By::FarEnd));
}

impl Media {
    async fn run(&mut self, sent: &mut mpsc::UnboundedReceiver<Sent>) -> Result<Finish, Error> {
        let mut encoder = Encoder::new(self.codec);
        let mut ticks = interval(FRAME);
        ticks.set_missed_tick_behavior(MissedTickBehavior::Burst);
        loop {
            tokio::select! {
                biased;
                message = self.socket.next() => match message {
                    Some(Ok(Message::Binary(audio))) => self.takes(&audio).await?,
                    Some(Ok(Message::Text(text))) => if self.obeys(&text).await? { return Ok(Finish::HungUp) },
                    Some(Ok(Message::Close(_))) | None => return Ok(Finish::Lost),
                    Some(Ok(_)) => {}
                    Some(Err(error)) => return Err(error),
                },
                out = sent.recv() => match out {
                    Some(Sent::Audio(frame)) => if let Some(bytes) = encoder.bytes(&frame) {
                        self.socket.send(Message::Binary(bytes)).await?;
                    },
                    Some(Sent::Digit(digit)) => self.tell("DTMF_END", json!({ "digit": digit })).await?,
                    None => return Ok(Finish::HungUp),
                },
                _ = ticks.tick() => self.plays().await?,
            }
        }
    }

    async fn say(&mut self, event: &Value) -> Result<(), Error> {
        self.socket.send(Message::text(event.to_string())).await
    }

    async fn tell(&mut self, kind: &str, more: Value) -> Result<(), Error> {
        let mut event = json!({ "event": kind, "channel_id": self.id });
        if let (Value::Object(event), Value::Object(more)) = (&mut event, more) {
            event.extend(more);
        }
        self.say(&event).await
    }

    async fn error(&mut self, words: &str) -> Result<(), Error> {
        self.tell("ERROR", json!({ "error_text": words })).await
    }

    /// Audio from the peer: whole frames, of which the rest is thrown away; packets of Opus as they are.
    async fn takes(&mut self, audio: &[u8]) -> Result<(), Error> {
        if self.codec == Codec::Opus {
            return self.put(Bytes::copy_from_slice(audio)).await;
        }
        let size = self.codec.frame_bytes();
        let whole: Vec<Bytes> = match &mut self.buffering {
            Some(buffered) => {
                buffered.extend_from_slice(audio);
                let end = buffered.len() - buffered.len() % size;
                let whole: Vec<u8> = buffered.drain(..end).collect();
                whole.chunks(size).map(Bytes::copy_from_slice).collect()
            }
            None => audio.chunks_exact(size).map(Bytes::copy_from_slice).collect(),
        };
        for frame in whole {
            self.put(frame).await?;
        }
        Ok(())
    }

    async fn put(&mut self, frame: Bytes) -> Result<(), Error> {
        if self.frames >= QUEUE_MAX {
            return Ok(());
        }
        self.queue.push_back(Item::Audio(frame));
        self.frames += 1;
        if self.frames >= XOFF && !std::mem::replace(&mut self.full, true) {
            self.tell("MEDIA_XOFF", json!({})).await?;
        }
        Ok(())
    }

    /// The clock's turn: what is due is played.
    async fn plays(&mut self) -> Result<(), Error> {
        if self.paused {
            return Ok(());
        }
        while let Some(item) = self.queue.pop_front() {
            match item {
                Item::Audio(audio) => {
                    self.frames -= 1;
                    let frame = self.decoder.frame(&audio);
                    self.switch.with(|state| state.read(&self.id, &frame));
                    break;
                }
                Item::Mark(id) => self.tell("MEDIA_MARK_PROCESSED", json!({ "correlation_id": id })).await?,
                Item::Buffered(id) => self.tell("MEDIA_BUFFERING_COMPLETED", json!({ "correlation_id": id })).await?,
            }
        }
        self.after_change().await
    }

    async fn after_change(&mut self) -> Result<(), Error> {
        if self.frames < XON && std::mem::take(&mut self.full) {
            self.tell("MEDIA_XON", json!({})).await?;
        }
        if self.frames == 0 && std::mem::take(&mut self.reports_drained) {
            self.tell("QUEUE_DRAINED", json!({})).await?;
        }
        Ok(())
    }

    /// A command; `true`: it ends the channel.
    async fn obeys(&mut self, text: &str) -> Result<bool, Error> {
        if text.len() > COMMAND_MAX {
            return Ok(false);
        }
        let Ok(command) = serde_json::from_str::<Value>(text) else {
            self.error("Unable to parse JSON command").await?;
            return Ok(false);
        };
        let named = command["command"].as_str().unwrap_or_default();
        let id = command["correlation_id"].clone();
        let cuts = self.codec != Codec::Opus;
        match named {
            "HANGUP" => return Ok(true),
            "ANSWER" => {}
            "GET_STATUS" => {
                let status = json!({
                    "queue_length": self.frames,
                    "xon_level": XON,
                    "xoff_level": XOFF,
                    "queue_full": self.full,
                    "bulk_media": self.buffering.is_some(),
                    "media_paused": self.paused,
                });
                self.tell("STATUS", status).await?;
            }
            "FLUSH_MEDIA" | "START_MEDIA_BUFFERING" | "STOP_MEDIA_BUFFERING" | "MARK_MEDIA" if !cuts => {
                self.error(&format!("{named} not supported in passthrough mode")).await?;
            }
            "FLUSH_MEDIA" => {
                self.queue.clear();
                (self.frames, self.buffering) = (0, None);
                self.after_change().await?;
            }
            "START_MEDIA_BUFFERING" => self.buffering = Some(Vec::new()),
            "STOP_MEDIA_BUFFERING" => {
                if let Some(mut rest) = self.buffering.take().filter(|rest| !rest.is_empty()) {
                    rest.resize(self.codec.frame_bytes(), 0);
                    self.put(rest.into()).await?;
                }
                self.queue.push_back(Item::Buffered(id));
            }
            "MARK_MEDIA" => self.queue.push_back(Item::Mark(id)),
            "REPORT_QUEUE_DRAINED" => self.reports_drained = true,
            "PAUSE_MEDIA" => self.paused = true,
            "CONTINUE_MEDIA" => self.paused = false,
            unknown => {
                let line = format!("{}: unknown command {unknown}", self.id);
                self.switch.with(|state| state.logs("WARNING", &line));
            }
        }
        Ok(false)
    }
}
