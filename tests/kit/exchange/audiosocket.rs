//! The Asterisk side of AudioSocket, of the application and of a channel.

use super::{
    channel::Sent,
    frame::{Codec, Encoder, Frame, LINEAR, little_endian},
};
use bytes::{Buf as _, BytesMut};
use std::time::Duration;
use tokio::{
    io::{AsyncReadExt as _, AsyncWriteExt as _},
    net::TcpStream,
    sync::mpsc,
    time::{Instant, sleep_until, timeout},
};
use uuid::Uuid;

const HANG_UP: u8 = 0x00;
const ID: u8 = 0x01;
const DIGIT: u8 = 0x03;
const AUDIO: u8 = 0x10;
/// The rest of a frame must follow its beginning within this time.
const WHOLE_WITHIN: Duration = Duration::from_millis(5);
/// Linger after the hang-up frame, so that unread data does not cause a reset.
const LINGER: Duration = Duration::from_millis(100);

/// How a connection ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Finish {
    /// By a frame that says so, or by the end of the channel.
    HungUp,
    /// The peer closed it.
    Closed,
    /// It broke, was reset, carried what is not the protocol, or nothing for too long.
    Broken,
}

/// Carries what is sent to the peer, and what comes from it to `heard`, until one of them ends.
pub async fn carry(
    stream: TcpStream,
    uuid: Uuid,
    codec: Codec,
    mut sent: mpsc::UnboundedReceiver<Sent>,
    idle: Option<Duration>,
    heard: impl Fn(Frame),
) -> Finish {
    let _ = stream.set_nodelay(true);
    let (mut reader, mut writer) = stream.into_split();
    let (mut encoder, mut inbox) = (Encoder::new(codec), BytesMut::new());
    let mut active = Instant::now();
    let mut begun: Option<Instant> = None;
    if writer.write_all(&framed(ID, uuid.as_bytes())).await.is_err() {
        return Finish::Broken;
    }
    loop {
        tokio::select! {
            biased;
            read = reader.read_buf(&mut inbox) => {
                match read {
                    Ok(0) => return Finish::Closed,
                    Ok(_) => active = Instant::now(),
                    Err(_) => return Finish::Broken,
                }
                while let Some((kind, payload)) = next(&mut inbox) {
                    match (kind, rate(kind)) {
                        (HANG_UP, _) => return Finish::HungUp,
                        (_, Some(rate)) if !payload.is_empty() => heard(Frame::linear(rate, little_endian(&payload))),
                        _ => return Finish::Broken,
                    }
                }
                begun = (!inbox.is_empty()).then(|| begun.unwrap_or_else(Instant::now));
            }
            out = sent.recv() => {
                let frame = match out {
                    None => {
                        let _ = writer.shutdown().await;
                        let rest = async { while matches!(reader.read_buf(&mut inbox).await, Ok(1..)) { inbox.clear(); } };
                        let _ = timeout(LINGER, rest).await;
                        return Finish::HungUp;
                    }
                    Some(Sent::Digit(digit)) => framed(DIGIT, &[digit as u8]),
                    Some(Sent::Audio(frame)) => {
                        let Some(samples) = encoder.bytes(&frame) else { continue };
                        framed(kind(codec.rate()), &samples)
                    }
                };
                active = Instant::now();
                if writer.write_all(&frame).await.is_err() {
                    return Finish::Broken;
                }
            }
            () = until(begun, WHOLE_WITHIN) => return Finish::Broken,
            () = until(idle.map(|_| active), idle.unwrap_or_default()) => return Finish::Broken,
        }
    }
}

/// Never, where there is no beginning.
async fn until(begun: Option<Instant>, after: Duration) {
    match begun {
        Some(begun) => sleep_until(begun + after).await,
        None => std::future::pending().await,
    }
}

fn framed(kind: u8, payload: &[u8]) -> Vec<u8> {
    let length = u16::try_from(payload.len()).expect("20 ms are short");
    [&[kind][..], &length.to_be_bytes(), payload].concat()
}

/// Takes one frame from the front, if it is all there.
fn next(inbox: &mut BytesMut) -> Option<(u8, BytesMut)> {
    let &[kind, high, low, ..] = &inbox[..] else { return None };
    let length = usize::from(u16::from_be_bytes([high, low]));
    if inbox.len() < 3 + length {
        return None;
    }
    inbox.advance(3);
    Some((kind, inbox.split_to(length)))
}

fn kind(rate: u32) -> u8 {
    let place = LINEAR.iter().position(|(_, known)| *known == rate).expect("a rate of signed linear");
    AUDIO + u8::try_from(place).expect("nine of them")
}

fn rate(kind: u8) -> Option<u32> {
    LINEAR.get(usize::from(kind.checked_sub(AUDIO)?)).map(|(_, rate)| *rate)
}
