//! Over real loopback sockets: the tests are Asterisk's side.

mod hardships;
mod walk_ins;

use super::*;
use crate::{
    asterisk::{
        audiosocket::RATES,
        counters::{Discard, Filler},
        media::MediaEvent,
    },
    audio::Encoding,
    config::{AudioChoice, AudioSocketConfig, RtpConfig, Transport},
};
use bytes::Bytes;
use futures_util::{FutureExt, SinkExt, StreamExt};
use std::{net::Ipv4Addr, ops::RangeInclusive};
use tokio::{io::AsyncWriteExt, runtime::Handle, time::Instant};
use tokio_util::codec::Framed;

/// Far beyond what a loaded machine needs; only a failure waits this long.
const PATIENCE: Duration = Duration::from_secs(10);

pub(in crate::asterisk) struct Lab {
    pub hub: MediaHub,
    pub walk_ins: mpsc::Receiver<WalkIn>,
    pub counters: Arc<MediaCounters>,
    tasks_at_start: usize,
}

impl Lab {
    pub async fn start() -> Self {
        Self::with_ports(20_000..=29_999).await
    }

    pub async fn with_ports(ports: RangeInclusive<u16>) -> Self {
        let localhost = Ipv4Addr::LOCALHOST.into();
        let config = MediaConfig {
            ring_tone: crate::audio::RingTone::Etsi,
            ring_music: None,
            default: AudioChoice { transport: Transport::AudioSocket, format: Format::SLIN8, opus: false },
            audiosocket: AudioSocketConfig { bind: SocketAddr::new(localhost, 0), advertise: String::new() },
            rtp: RtpConfig { bind: localhost, advertise: String::new(), ports },
        };
        let counters = Arc::new(MediaCounters::new(&prometheus::Registry::new()).unwrap());
        let (hub, walk_ins) = MediaHub::start(&config, counters.clone()).await.unwrap();
        let tasks_at_start = Handle::current().metrics().num_alive_tasks();
        Self { hub, walk_ins, counters, tasks_at_start }
    }

    /// No leg, port, registration or task is left of the calls before.
    pub async fn is_idle(&self) {
        eventually("nothing is left open", || {
            self.hub.idle() && Handle::current().metrics().num_alive_tasks() == self.tasks_at_start
        })
        .await;
    }

    async fn connect(&self) -> TcpStream {
        TcpStream::connect(self.hub.local_addr()).await.unwrap()
    }

    /// A call's leg, and Asterisk's end of it.
    async fn call(&self, format: Format) -> (MediaLeg, Framed<TcpStream, Codec>) {
        let id = Uuid::new_v4();
        let expected = self.hub.expect_audiosocket(id, format);
        let mut asterisk = Framed::new(self.connect().await, Codec);
        asterisk.send(Frame::Id(id)).await.unwrap();
        (expected.leg(PATIENCE).await.expect("the connection said its UUID"), asterisk)
    }
}

pub(in crate::asterisk) async fn eventually(what: &str, mut condition: impl FnMut() -> bool) {
    let deadline = Instant::now() + PATIENCE;
    while !condition() {
        assert!(Instant::now() < deadline, "not in time: {what}");
        sleep(Duration::from_millis(2)).await;
    }
}

/// The leg's next event; a leg that says nothing fails the test.
pub(in crate::asterisk) async fn event(leg: &mut MediaLeg) -> Option<MediaEvent> {
    timeout(PATIENCE, leg.events.next()).await.expect("an event in time")
}

async fn frame(asterisk: &mut Framed<TcpStream, Codec>) -> Option<Frame> {
    timeout(PATIENCE, asterisk.next()).await.expect("a frame in time").transpose().expect("a readable frame")
}

/// The next frame that is not silence.
async fn loud_frame(asterisk: &mut Framed<TcpStream, Codec>) -> Option<Frame> {
    loop {
        match frame(asterisk).await {
            Some(Frame::Audio { samples, .. }) if samples.iter().all(|&byte| byte == 0) => {}
            other => return other,
        }
    }
}

/// Reads until the other side has closed.
async fn closed(mut stream: TcpStream) {
    let mut rest = Vec::new();
    // A reset is a close as well, where the close is not the polite one.
    let _ = timeout(PATIENCE, stream.read_to_end(&mut rest)).await.expect("the connection is closed in time");
}

fn audio(format: Format, byte: u8) -> Bytes {
    vec![byte; format.frame_bytes()].into()
}

/// T1: so that no channel waits for a frame with its lock held.
#[tokio::test]
async fn silence_flows_from_the_first_moment_every_20_ms_until_the_call_plays() {
    let lab = Lab::start().await;
    for format in [Format::SLIN8, Format::SLIN16] {
        let since = Instant::now();
        let (mut leg, mut asterisk) = lab.call(format).await;
        assert_eq!(leg.format, format);
        for _ in 0..10 {
            let samples = audio(format, 0);
            assert_eq!(frame(&mut asterisk).await, Some(Frame::Audio { rate: format.rate, samples }));
        }
        assert!(since.elapsed() >= Duration::from_millis(140), "paced, not in a burst");

        assert!(leg.sender.play(audio(format, 7)));
        let played = Frame::Audio { rate: format.rate, samples: audio(format, 7) };
        assert_eq!(loud_frame(&mut asterisk).await, Some(played));
    }
    assert!(lab.counters.filler(Filler::Start).get() >= 20);
    lab.is_idle().await;
}

/// The kinds 0x10 to 0x18, which Asterisk 22.10 has for its own rates.
#[tokio::test]
async fn every_rate_that_asterisk_has_a_kind_for_is_carried_both_ways() {
    let lab = Lab::start().await;
    for rate in RATES {
        let format = Format { encoding: Encoding::Linear, rate };
        let (mut leg, mut asterisk) = lab.call(format).await;
        let samples = audio(format, 0);
        assert_eq!(frame(&mut asterisk).await, Some(Frame::Audio { rate, samples }), "silence at {rate} Hz");
        assert!(leg.sender.play(audio(format, 7)), "{rate} Hz");
        assert_eq!(loud_frame(&mut asterisk).await, Some(Frame::Audio { rate, samples: audio(format, 7) }));
        asterisk.send(Frame::Audio { rate, samples: audio(format, 9) }).await.unwrap();
        assert_eq!(event(&mut leg).await, Some(MediaEvent::Audio(audio(format, 9))), "{rate} Hz");
    }
    lab.is_idle().await;
}

/// T1: also in mid-call.
#[tokio::test]
async fn a_call_that_stops_playing_is_stood_in_for_with_silence() {
    let lab = Lab::start().await;
    let (mut leg, mut asterisk) = lab.call(Format::SLIN8).await;
    let since = Instant::now();
    assert!(leg.sender.play(audio(Format::SLIN8, 7)));
    loud_frame(&mut asterisk).await;
    assert_eq!(frame(&mut asterisk).await, Some(Frame::Audio { rate: 8_000, samples: audio(Format::SLIN8, 0) }));
    assert!(since.elapsed() >= Duration::from_millis(40), "a call that is on time is not interfered with");
    assert!(lab.counters.filler(Filler::Starved).get() >= 1);
}

/// T7: one write. Asterisk gives a payload 5 ms to follow its header. A reader that runs beside the writer, always
/// waiting for bytes, sees every write by itself.
#[tokio::test]
async fn every_frame_is_one_write() {
    let lab = Lab::start().await;
    let (mut leg, asterisk) = lab.call(Format::SLIN16).await;
    let mut stream = asterisk.into_inner().into_std().unwrap();
    stream.set_nonblocking(false).unwrap();
    let whole = 3 + Format::SLIN16.frame_bytes();
    let (tells, mut read) = mpsc::channel(64);
    #[expect(clippy::disallowed_methods, reason = "a reader that always waits sees each write by itself")]
    let reader = std::thread::spawn(move || {
        let mut buffer = vec![0; 64 * whole];
        let mut torn = 0;
        while let Ok(length @ 1..) = std::io::Read::read(&mut stream, &mut buffer) {
            torn += usize::from(length % whole != 0);
            let _ = tells.blocking_send(length);
        }
        torn
    });
    let mut bytes = 0;
    for frames in 1..=500 {
        assert!(leg.sender.play(audio(Format::SLIN16, 7)));
        while bytes < frames * whole {
            bytes += timeout(PATIENCE, read.recv()).await.expect("a frame in time").expect("a reader");
        }
    }
    drop(leg);
    read.close();
    assert_eq!(reader.join().unwrap(), 0, "frames were seen in part");
}

#[tokio::test]
async fn the_caller_and_their_keys_reach_the_call_in_order() {
    let lab = Lab::start().await;
    let (mut leg, mut asterisk) = lab.call(Format::SLIN8).await;
    for byte in 1..=3 {
        asterisk.feed(Frame::Audio { rate: 8_000, samples: audio(Format::SLIN8, byte) }).await.unwrap();
        asterisk.feed(Frame::Digit('5')).await.unwrap();
    }
    asterisk.flush().await.unwrap();
    for byte in 1..=3 {
        assert_eq!(event(&mut leg).await, Some(MediaEvent::Audio(audio(Format::SLIN8, byte))));
        assert_eq!(event(&mut leg).await, Some(MediaEvent::Digit('5')));
    }
    assert_eq!(lab.counters.received(Transport::AudioSocket).get(), 3);
}

#[tokio::test]
async fn a_caller_of_another_rate_is_heard_in_the_legs_own() {
    let lab = Lab::start().await;
    let (mut leg, mut asterisk) = lab.call(Format::SLIN16).await;
    for _ in 0..3 {
        asterisk.send(Frame::Audio { rate: 8_000, samples: audio(Format::SLIN8, 9) }).await.unwrap();
    }
    let Some(MediaEvent::Audio(heard)) = event(&mut leg).await else { panic!("no audio") };
    assert_eq!(heard.len() % Format::SLIN16.frame_bytes(), 0);
}

#[tokio::test]
async fn a_slow_call_loses_nothing() {
    let lab = Lab::start().await;
    let (mut leg, mut asterisk) = lab.call(Format::SLIN8).await;
    let frames = 200_u8;
    let sending = tokio::spawn(async move {
        for byte in 0..frames {
            asterisk.send(Frame::Audio { rate: 8_000, samples: audio(Format::SLIN8, byte) }).await.unwrap();
        }
        asterisk
    });
    let _asterisk = timeout(PATIENCE, sending).await.unwrap().unwrap();
    for byte in 0..frames {
        assert_eq!(event(&mut leg).await, Some(MediaEvent::Audio(audio(Format::SLIN8, byte))));
    }
}

#[tokio::test]
async fn odd_frames_are_counted_and_the_call_goes_on() {
    let lab = Lab::start().await;
    let (mut leg, asterisk) = lab.call(Format::SLIN8).await;
    let mut stream = asterisk.into_inner();
    let odd = [&[0x05, 0, 1, 1][..], &[0x10, 0, 0], &[0x10, 0, 1, 1], &[0xff, 0, 1, 2], &[0x03, 0, 1, b'7']];
    stream.write_all(&odd.concat()).await.unwrap();
    assert_eq!(event(&mut leg).await, Some(MediaEvent::Digit('7')));
    assert_eq!(lab.counters.discarded(Discard::UnknownKind).get(), 1);
    assert_eq!(lab.counters.discarded(Discard::Malformed).get(), 2);
    assert_eq!(lab.counters.discarded(Discard::ErrorFrame).get(), 1);
}

#[tokio::test]
async fn an_oversize_frame_ends_the_leg() {
    let lab = Lab::start().await;
    let (mut leg, asterisk) = lab.call(Format::SLIN8).await;
    let mut stream = asterisk.into_inner();
    stream.write_all(&[0x10, 0xff, 0xff]).await.unwrap();
    assert_eq!(event(&mut leg).await, Some(MediaEvent::Broken));
    assert_eq!(event(&mut leg).await, None);
    assert!(!leg.sender.play(audio(Format::SLIN8, 7)), "a closed leg takes nothing");
    closed(stream).await;
}

#[tokio::test]
async fn the_callers_hang_up_is_the_end_of_the_stream() {
    let lab = Lab::start().await;
    let (mut leg, mut asterisk) = lab.call(Format::SLIN8).await;
    asterisk.send(Frame::Audio { rate: 8_000, samples: audio(Format::SLIN8, 1) }).await.unwrap();
    drop(asterisk);
    assert_eq!(event(&mut leg).await, Some(MediaEvent::Audio(audio(Format::SLIN8, 1))));
    assert_eq!(event(&mut leg).await, Some(MediaEvent::Closed));
    drop(leg);
    lab.is_idle().await;
}

/// T2: what is dropped is closed.
#[tokio::test]
async fn dropping_the_leg_closes_at_once_after_what_was_played() {
    let lab = Lab::start().await;
    let (mut leg, mut asterisk) = lab.call(Format::SLIN8).await;
    assert!(leg.sender.play(audio(Format::SLIN8, 7)));
    drop(leg);
    let played = Frame::Audio { rate: 8_000, samples: audio(Format::SLIN8, 7) };
    assert_eq!(loud_frame(&mut asterisk).await, Some(played));
    assert_eq!(loud_frame(&mut asterisk).await, None);
    lab.is_idle().await;
}

#[tokio::test]
async fn dropping_a_leg_whose_events_nobody_took_leaves_nothing() {
    let lab = Lab::start().await;
    let (leg, asterisk) = lab.call(Format::SLIN8).await;
    let mut stream = asterisk.into_inner();
    let frame = [&[0x10, 1, 64][..], &audio(Format::SLIN8, 1)].concat();
    stream.write_all(&frame.repeat(100)).await.unwrap();
    drop(leg);
    closed(stream).await;
    lab.is_idle().await;
}

#[tokio::test]
async fn a_polite_hang_up_says_so_and_waits_for_asterisk_to_close() {
    let lab = Lab::start().await;
    let (leg, mut asterisk) = lab.call(Format::SLIN8).await;
    let hanging_up = tokio::spawn(leg.hang_up());
    // Asterisk happens to be writing: this must not break the connection.
    asterisk.send(Frame::Audio { rate: 8_000, samples: audio(Format::SLIN8, 1) }).await.unwrap();
    assert_eq!(loud_frame(&mut asterisk).await, Some(Frame::HangUp));
    assert_eq!(frame(&mut asterisk).await, None, "nothing follows a hang-up");
    asterisk.send(Frame::Audio { rate: 8_000, samples: audio(Format::SLIN8, 1) }).await.unwrap();
    assert!(!hanging_up.is_finished());
    drop(asterisk);
    timeout(PATIENCE, hanging_up).await.unwrap().unwrap();
    lab.is_idle().await;
}

#[tokio::test]
async fn a_reset_is_a_reset_and_no_end_of_stream() {
    let lab = Lab::start().await;
    let (leg, asterisk) = lab.call(Format::SLIN8).await;
    let mut stream = asterisk.into_inner();
    leg.reset();
    let mut read = Vec::new();
    let ended = timeout(PATIENCE, stream.read_to_end(&mut read)).await.expect("at once");
    assert_eq!(ended.unwrap_err().kind(), std::io::ErrorKind::ConnectionReset);
    lab.is_idle().await;
}

#[tokio::test]
async fn a_hang_up_that_asterisk_ignores_ends_all_the_same() {
    let lab = Lab::start().await;
    let (leg, asterisk) = lab.call(Format::SLIN8).await;
    timeout(PATIENCE, leg.hang_up()).await.expect("bounded");
    lab.is_idle().await;
    drop(asterisk);
}

#[tokio::test]
async fn a_peer_that_does_not_read_is_refused_frames_then_given_up_and_no_frame_is_torn() {
    let lab = Lab::start().await;
    let id = Uuid::new_v4();
    let expected = lab.hub.expect_audiosocket(id, Format::SLIN16);
    let socket = tokio::net::TcpSocket::new_v4().unwrap();
    socket.set_recv_buffer_size(4_096).unwrap();
    let mut asterisk = Framed::new(socket.connect(lab.hub.local_addr()).await.unwrap(), Codec);
    asterisk.send(Frame::Id(id)).await.unwrap();
    let mut leg = expected.leg(PATIENCE).await.unwrap();

    let mut taken = 0;
    while leg.sender.play(audio(Format::SLIN16, 7)) {
        taken += 1;
        assert!(taken < 200, "four seconds of backlog for a peer that does not read");
        tokio::task::yield_now().await;
    }
    // It reads again: what was taken arrives, whole.
    for _ in 0..taken {
        let played = Frame::Audio { rate: 16_000, samples: audio(Format::SLIN16, 7) };
        tokio::select! {
            frame = loud_frame(&mut asterisk) => assert_eq!(frame, Some(played)),
            event = leg.events.next() => panic!("the leg goes on, it said {event:?}"),
        }
    }
    assert!(leg.sender.play(audio(Format::SLIN16, 7)), "the socket has room again");

    let mut refused = 0;
    let last = loop {
        if let Some(event) = leg.events.next().now_or_never() {
            break event;
        }
        if !leg.sender.play(audio(Format::SLIN16, 7)) {
            refused += 1;
        }
        assert!(refused < 10_000, "a peer that never reads is given up");
        tokio::task::yield_now().await;
    };
    assert_eq!(last, Some(MediaEvent::Closed));
    assert!(lab.counters.discarded(Discard::SocketFull).get() >= 200);
    drop((leg, asterisk));
    lab.is_idle().await;
}

/// T7: no frame of no bytes.
#[tokio::test]
async fn frames_that_would_end_the_call_are_not_sent() {
    let lab = Lab::start().await;
    let (mut leg, _asterisk) = lab.call(Format::SLIN8).await;
    assert!(!leg.sender.play(Bytes::new()));
    assert!(!leg.sender.play(vec![0; 70_000].into()));
    assert_eq!(lab.counters.discarded(Discard::FrameSize).get(), 2);
}

#[tokio::test]
async fn a_connection_that_is_not_a_call_is_closed_and_counted() {
    let lab = Lab::start().await;
    for (bytes, cause) in [
        (&[0x10, 0, 2, 0, 0][..], Refusal::NotAnId),
        (&[0x01, 0, 3, b'a', b'b', b'c'], Refusal::NotAnId),
        (b"\x00\x00\x00", Refusal::NotAnId),
        (b"GET / HTTP/1.1\r\n\r\n", Refusal::Malformed),
        (b"\x01\xff\xff", Refusal::Malformed),
    ] {
        let before = lab.counters.refused(cause).get();
        let mut stream = lab.connect().await;
        stream.write_all(bytes).await.unwrap();
        closed(stream).await;
        eventually("counted", || lab.counters.refused(cause).get() == before + 1).await;
    }
    let mut stream = lab.connect().await;
    stream.write_all(&[0x01, 0, 16, 1]).await.unwrap();
    drop(stream);
    eventually("counted", || lab.counters.refused(Refusal::Closed).get() == 1).await;
    lab.is_idle().await;
}

#[tokio::test]
async fn a_connection_that_says_nothing_is_closed_after_two_seconds() {
    let lab = Lab::start().await;
    let stream = lab.connect().await;
    eventually("accepted", || lab.hub.open().unidentified == 1).await;
    closed(stream).await;
    assert_eq!(lab.counters.refused(Refusal::Silent).get(), 1);
    lab.is_idle().await;
}

#[tokio::test]
async fn silent_connections_make_room_for_a_call_and_are_told_of() {
    let lab = Lab::start().await;
    let mut idle = Vec::new();
    for _ in 0..UNIDENTIFIED + 10 {
        idle.push(lab.connect().await);
    }
    eventually("the limit is reached", || lab.hub.open().unidentified == UNIDENTIFIED).await;
    let (_leg, mut asterisk) = lab.call(Format::SLIN8).await;
    assert!(frame(&mut asterisk).await.is_some());
    assert!(lab.counters.refused(Refusal::Crowded).get() >= 11, "ten for the others, one for the call");
    assert_eq!(lab.counters.refused(Refusal::Silent).get(), 0, "the call did not wait until they were given up");
    assert_eq!(lab.hub.trouble(), None, "a moment is none");
    while lab.hub.trouble().is_none() {
        // Others come as soon as some are closed.
        idle.push(lab.connect().await);
        sleep(Duration::from_millis(10)).await;
    }
    drop(idle);
    eventually("all is well again", || lab.hub.trouble().is_none()).await;
}

#[tokio::test]
async fn a_call_whose_connection_does_not_come_leaves_no_place_behind() {
    let lab = Lab::start().await;
    let expected = lab.hub.expect_audiosocket(Uuid::new_v4(), Format::SLIN8);
    assert_eq!(lab.hub.open().expected, 1);
    assert!(expected.leg(Duration::from_millis(5)).await.is_none());
    lab.is_idle().await;

    drop(lab.hub.expect_audiosocket(Uuid::new_v4(), Format::SLIN8));
    lab.is_idle().await;
}

#[tokio::test]
async fn a_call_that_gives_up_while_its_connection_comes_closes_it() {
    let lab = Lab::start().await;
    let id = Uuid::new_v4();
    let expected = lab.hub.expect_audiosocket(id, Format::SLIN8);
    let mut asterisk = Framed::new(lab.connect().await, Codec);
    asterisk.send(Frame::Id(id)).await.unwrap();
    eventually("it has come", || lab.hub.open().audiosocket_legs == 1).await;
    drop(expected);
    closed(asterisk.into_inner()).await;
    lab.is_idle().await;
}

#[tokio::test]
async fn a_place_given_up_does_not_take_a_later_one_of_the_same_id_with_it() {
    let lab = Lab::start().await;
    let id = Uuid::new_v4();
    let first = lab.hub.expect_audiosocket(id, Format::SLIN8);
    let second = lab.hub.expect_audiosocket(id, Format::SLIN16);
    assert!(first.leg(PATIENCE).await.is_none(), "superseded at once");
    let mut asterisk = Framed::new(lab.connect().await, Codec);
    asterisk.send(Frame::Id(id)).await.unwrap();
    assert_eq!(second.leg(PATIENCE).await.unwrap().format, Format::SLIN16);
}

#[tokio::test]
async fn a_format_that_audiosocket_does_not_carry_closes_the_connection() {
    let lab = Lab::start().await;
    let id = Uuid::new_v4();
    let expected = lab.hub.expect_audiosocket(id, Format::ULAW);
    let mut asterisk = Framed::new(lab.connect().await, Codec);
    asterisk.send(Frame::Id(id)).await.unwrap();
    assert!(expected.leg(PATIENCE).await.is_none());
    closed(asterisk.into_inner()).await;
    lab.is_idle().await;
}

#[tokio::test]
async fn dropping_the_hub_ends_the_listener_and_keeps_the_legs() {
    let lab = Lab::start().await;
    let (mut leg, mut asterisk) = lab.call(Format::SLIN8).await;
    let address = lab.hub.local_addr();
    drop(lab);
    eventually("the listener is gone", || std::net::TcpStream::connect(address).is_err()).await;
    assert!(leg.sender.play(audio(Format::SLIN8, 7)));
    assert!(loud_frame(&mut asterisk).await.is_some());
}
