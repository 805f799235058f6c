//! A synthetic caller: what Asterisk's `AudioSocket()` would connect, with a voice and an ear.

use bytes::{Bytes, BytesMut};
use futures_util::{SinkExt as _, StreamExt as _};
use offhook::{
    asterisk::audiosocket::{Codec, CodecError, Frame},
    audio::{FRAME, Format},
};
use std::{collections::VecDeque, io, net::SocketAddr};
use tokio::{
    net::TcpStream,
    time::{Interval, MissedTickBehavior, interval},
};
use tokio_util::codec::Framed;
use uuid::Uuid;

/// What the dialplan's `AudioSocket()` speaks.
pub const FORMAT: Format = Format::SLIN8;
/// Samples of one frame.
const SAMPLES: usize = 160;
/// The phone's jitter buffer: 200 ms. More means that the engine sends faster than it may.
const JITTER_MAX: usize = 10;

pub struct Caller {
    /// `None` once either side has hung up.
    socket: Option<Framed<TcpStream, Codec>>,
    clock: Interval,
    to_say: VecDeque<i16>,
    /// Samples of a background sound, played in a loop, and the position in them.
    background: (Vec<i16>, usize),
    jitter: VecDeque<Bytes>,
    /// Both tracks, sample by sample on the caller's clock.
    pub said: Vec<i16>,
    pub heard: Vec<i16>,
    /// Frames that came faster than they could be played.
    pub overrun: usize,
}

impl Caller {
    pub async fn connect(engine: SocketAddr, id: Uuid) -> io::Result<Self> {
        let stream = TcpStream::connect(engine).await?;
        stream.set_nodelay(true)?;
        let mut socket = Framed::new(stream, Codec);
        socket.send(Frame::Id(id)).await.map_err(into_io)?;
        let mut clock = interval(FRAME);
        clock.set_missed_tick_behavior(MissedTickBehavior::Burst);
        Ok(Self {
            socket: Some(socket),
            clock,
            to_say: VecDeque::new(),
            background: (Vec::new(), 0),
            jitter: VecDeque::new(),
            said: Vec::new(),
            heard: Vec::new(),
            overrun: 0,
        })
    }

    /// Queues speech; it leaves frame by frame.
    pub fn say(&mut self, samples: &[i16]) {
        self.to_say.extend(samples);
    }

    /// Plays these samples in a loop from now on, mixed with what the caller says.
    pub fn play_background(&mut self, samples: Vec<i16>) {
        self.background = (samples, 0);
    }

    pub fn is_speaking(&self) -> bool {
        !self.to_say.is_empty()
    }

    /// Sends it at once. A write into a socket the engine has just closed is its hang-up, seen from here.
    pub async fn send(&mut self, frame: Frame) {
        if let Some(socket) = &mut self.socket
            && socket.send(frame).await.is_err()
        {
            self.socket = None;
        }
    }

    /// Lives 20 ms: sends a frame, plays a frame. `None` once the engine has hung up.
    pub async fn tick(&mut self) -> io::Result<Option<&[i16]>> {
        loop {
            tokio::select! {
                biased;
                frame = next(&mut self.socket) => match frame {
                    Some(Ok(Frame::Audio { samples, .. })) => {
                        self.jitter.push_back(samples);
                        if self.jitter.len() > JITTER_MAX {
                            self.jitter.pop_front();
                            self.overrun += 1;
                        }
                    }
                    // The engine waits for this end to be closed too.
                    Some(Ok(Frame::HangUp)) | None => self.socket = None,
                    Some(Ok(_)) => {}
                    // A finished conversation ends with a reset: that makes the dialplan hang up.
                    Some(Err(CodecError::Io(_))) => self.socket = None,
                    Some(Err(error)) => return Err(into_io(error)),
                },
                _ = self.clock.tick() => break,
            }
        }
        if self.socket.is_none() && self.jitter.is_empty() {
            return Ok(None);
        }
        let mut frame = BytesMut::with_capacity(FORMAT.frame_bytes());
        for _ in 0..SAMPLES {
            let (background, at) = &mut self.background;
            let beside = background.get(*at).copied().unwrap_or(0);
            *at = (*at + 1) % background.len().max(1);
            let sample = self.to_say.pop_front().unwrap_or(0).saturating_add(beside);
            self.said.push(sample);
            frame.extend_from_slice(&sample.to_le_bytes());
        }
        self.send(Frame::Audio { rate: FORMAT.rate, samples: frame.freeze() }).await;
        let start = self.heard.len();
        if let Some(bytes) = self.jitter.pop_front() {
            self.heard.extend(bytes.chunks_exact(2).map(|pair| i16::from_le_bytes([pair[0], pair[1]])));
        }
        self.heard.resize(start + SAMPLES, 0);
        Ok(Some(&self.heard[start..]))
    }
}

/// What comes next; nothing ever, once the call is over.
async fn next(socket: &mut Option<Framed<TcpStream, Codec>>) -> Option<Result<Frame, CodecError>> {
    match socket {
        Some(socket) => socket.next().await,
        None => std::future::pending().await,
    }
}

fn into_io(error: CodecError) -> io::Error {
    match error {
        CodecError::Io(error) => error,
        other => io::Error::other(other),
    }
}
