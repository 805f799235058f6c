//! Over real loopback sockets: the tests are Asterisk's side.

mod passed_through;

use super::*;
use crate::asterisk::hub::tests::{self as hub, Lab, eventually};
use serde_json::{Value, json};
use std::net::Ipv4Addr;
use tokio::{io::AsyncWriteExt, net::TcpListener};
use tokio_tungstenite::accept_async;

/// Far beyond what a loaded machine needs; only a failure waits this long.
const PATIENCE: Duration = Duration::from_secs(10);
const CHANNEL: &str = "offhook-media-1";

/// Asterisk's HTTP server, where a channel waits for its connection.
struct Server(TcpListener);

impl Server {
    async fn start() -> Self {
        Self(TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).await.unwrap())
    }

    fn url(&self) -> Url {
        Url::parse(&format!("ws://{}/media/3f2a", self.0.local_addr().unwrap())).unwrap()
    }

    async fn connection(&self) -> Asterisk {
        let (stream, _) = self.0.accept().await.unwrap();
        Asterisk(accept_async(stream).await.unwrap())
    }
}

/// The other end of a leg.
struct Asterisk(WebSocketStream<TcpStream>);

impl Asterisk {
    async fn say(&mut self, text: impl ToString) {
        self.0.send(Message::text(text.to_string())).await.unwrap();
    }

    async fn says_start(&mut self, format: Format) {
        self.say(start(CHANNEL, format.name(), format.frame_bytes())).await;
    }

    async fn plays(&mut self, audio: Bytes) {
        self.0.send(Message::Binary(audio)).await.unwrap();
    }

    async fn message(&mut self) -> Option<Message> {
        timeout(PATIENCE, self.0.next()).await.expect("a message in time").transpose().unwrap_or(None)
    }

    /// The next command.
    async fn command(&mut self) -> String {
        loop {
            match self.message().await {
                Some(Message::Text(text)) => {
                    let command: Value = serde_json::from_str(&text).unwrap();
                    return command["command"].as_str().unwrap().to_owned();
                }
                Some(_) => {}
                None => panic!("the leg closed"),
            }
        }
    }

    /// The first byte of each frame until one that begins with `last`.
    async fn hears_until(&mut self, last: u8) -> Vec<u8> {
        let mut heard = Vec::new();
        while heard.last() != Some(&last) {
            match self.message().await {
                Some(Message::Binary(frame)) => heard.push(frame[0]),
                Some(_) => {}
                None => panic!("the leg closed"),
            }
        }
        heard
    }
}

fn start(channel: &str, format: &str, size: usize) -> Value {
    json!({ "event": "MEDIA_START", "connection_id": "3f2a", "channel": "WebSocket/INCOMING/0x7f", "channel_id": channel,
            "format": format, "optimal_frame_size": size, "ptime": 20, "channel_variables": { "A": "b" } })
}

async fn call(lab: &Lab, format: Format) -> (MediaLeg, Asterisk) {
    let server = Server::start().await;
    let url = server.url();
    let (leg, asterisk) =
        tokio::join!(lab.hub.websocket(format).connect(&url, CHANNEL, Coding::Plain, PATIENCE), async {
            let mut asterisk = server.connection().await;
            asterisk.says_start(format).await;
            asterisk
        });
    (leg.expect("a leg"), asterisk)
}

/// What becomes of a leg whose Asterisk does this with the connection.
async fn refused(lab: &Lab, within: Duration, answer: impl AsyncFnOnce(TcpStream)) -> bool {
    let server = Server::start().await;
    let url = server.url();
    let (leg, ()) =
        tokio::join!(lab.hub.websocket(Format::SLIN8).connect(&url, CHANNEL, Coding::Plain, within), async {
            let (stream, _) = server.0.accept().await.unwrap();
            answer(stream).await;
        });
    leg.is_none()
}

/// The next event, but for what is told of the buffer in Asterisk.
async fn event(leg: &mut MediaLeg) -> Option<MediaEvent> {
    loop {
        match hub::event(leg).await {
            Some(MediaEvent::Waits(_) | MediaEvent::ThrownAway(_)) => {}
            event => return event,
        }
    }
}

fn audio(format: Format, byte: u8) -> Bytes {
    vec![byte; format.frame_bytes()].into()
}

fn silence(format: Format) -> Bytes {
    audio(format, format.silence())
}

#[tokio::test]
async fn both_sides_hear_each_other_at_every_rate() {
    let lab = Lab::start().await;
    for format in [Format::SLIN8, Format::SLIN16, Format::SLIN24, Format::SLIN48, Format::ULAW, Format::ALAW] {
        let (mut leg, mut asterisk) = call(&lab, format).await;
        assert_eq!(lab.hub.open().websocket_legs, 1);
        for byte in 1..=3 {
            assert!(leg.sender.play(audio(format, byte)));
            asterisk.plays(audio(format, byte + 10)).await;
        }
        for byte in 1..=3 {
            assert_eq!(event(&mut leg).await, Some(MediaEvent::Audio(audio(format, byte + 10))), "{format}");
        }
        assert_eq!(asterisk.hears_until(3).await, [1, 2, 3], "{format}");
        drop(leg);
        let farewell = asterisk.message().await;
        assert!(matches!(farewell, Some(Message::Close(Some(frame))) if frame.code == CloseCode::Normal), "{format}");
    }
    assert_eq!(lab.counters.sent(Transport::WebSocket).get(), 18);
    assert_eq!(lab.counters.received(Transport::WebSocket).get(), 18);
    lab.is_idle().await;
}

#[tokio::test]
async fn what_is_said_between_the_audio_disturbs_nothing() {
    let lab = Lab::start().await;
    let (mut leg, mut asterisk) = call(&lab, Format::SLIN8).await;
    asterisk.plays(audio(Format::SLIN8, 1)).await;
    for text in [
        r#"{"event":"DTMF_END","channel_id":"c","digit":"5"}"#,
        r#"{"event":"MEDIA_MARK_PROCESSED","correlation_id":"a"}"#,
        r#"{"event":"FROM_THE_FUTURE"}"#,
        &start(CHANNEL, "slin", 320).to_string(),
        r#"{"event":"ERROR","error_text":"no such thing"}"#,
        "{\"event\":",
        "MEDIA_XOFF",
        "",
    ] {
        asterisk.say(text).await;
    }
    asterisk.0.send(Message::Ping(Bytes::from_static(b"?"))).await.unwrap();
    for odd in [Bytes::new(), Bytes::from_static(b"abc")] {
        asterisk.plays(odd).await;
    }
    asterisk.plays(audio(Format::SLIN8, 2)).await;
    assert_eq!(event(&mut leg).await, Some(MediaEvent::Audio(audio(Format::SLIN8, 1))));
    assert_eq!(event(&mut leg).await, Some(MediaEvent::Digit('5')));
    assert_eq!(event(&mut leg).await, Some(MediaEvent::Audio(audio(Format::SLIN8, 2))));
    assert_eq!(lab.counters.discarded(Discard::UnknownKind).get(), 3);
    assert_eq!(lab.counters.discarded(Discard::Malformed).get(), 5);
    assert_eq!(lab.counters.discarded(Discard::ErrorFrame).get(), 1);
    assert!(leg.sender.play(audio(Format::SLIN8, 7)));
    assert_eq!(asterisk.hears_until(7).await, [7]);
}

/// T25: nor one of another channel.
#[tokio::test]
async fn a_connection_that_does_not_say_which_channel_it_is_is_no_leg() {
    let lab = Lab::start().await;
    let starts = [
        (start("another", "slin", 320).to_string(), Refusal::NotAnId),
        (start(CHANNEL, "slin16", 640).to_string(), Refusal::NotAnId),
        (start(CHANNEL, "slin", 0).to_string(), Refusal::NotAnId),
        (start(CHANNEL, "slin", 300).to_string(), Refusal::NotAnId),
        (r#"{"event":"MEDIA_XON"}"#.to_owned(), Refusal::NotAnId),
        ("MEDIA_START connection_id:1".to_owned(), Refusal::Malformed),
    ];
    for (first, refusal) in starts {
        let before = lab.counters.refused(refusal).get();
        assert!(
            refused(&lab, PATIENCE, async |stream| {
                let mut asterisk = Asterisk(accept_async(stream).await.unwrap());
                asterisk.say(&first).await;
                while asterisk.message().await.is_some() {}
            })
            .await,
            "{first}"
        );
        assert_eq!(lab.counters.refused(refusal).get(), before + 1, "{first}");
    }
    let audio_first = refused(&lab, PATIENCE, async |stream| {
        let mut asterisk = Asterisk(accept_async(stream).await.unwrap());
        asterisk.plays(audio(Format::SLIN8, 1)).await;
        while asterisk.message().await.is_some() {}
    });
    assert!(audio_first.await);
    lab.is_idle().await;
}

#[tokio::test]
async fn an_asterisk_that_is_silent_refuses_or_leaves_is_given_up_in_time() {
    let lab = Lab::start().await;
    let short = Duration::from_millis(100);
    assert!(
        refused(&lab, short, async |stream| {
            let mut asterisk = Asterisk(accept_async(stream).await.unwrap());
            while asterisk.message().await.is_some() {}
        })
        .await,
        "no MEDIA_START"
    );
    assert!(
        refused(&lab, short, async |stream| drop(tokio::io::copy(&mut { stream }, &mut tokio::io::sink()).await)).await
    );
    assert_eq!(lab.counters.refused(Refusal::Silent).get(), 2);
    assert!(
        refused(&lab, PATIENCE, async |mut stream| {
            stream.write_all(b"HTTP/1.1 404 Not Found\r\nContent-Length: 0\r\n\r\n").await.unwrap();
            let _ = tokio::io::copy(&mut stream, &mut tokio::io::sink()).await;
        })
        .await
    );
    assert!(refused(&lab, PATIENCE, async |stream| drop(stream)).await);
    let gone = Server::start().await.url();
    assert!(
        lab.hub.websocket(Format::SLIN8).connect(&gone, CHANNEL, Coding::Plain, PATIENCE).await.is_none(),
        "nobody listens"
    );
    assert_eq!(lab.counters.refused(Refusal::Closed).get(), 3);
    lab.is_idle().await;
}

/// Between the upgrade and `MEDIA_START`: nobody has said yet which channel it is.
#[tokio::test]
async fn a_connection_that_ends_before_it_says_which_channel_it_is_is_closed_and_waited_for_no_longer() {
    let lab = Lab::start().await;
    let ends = ["close", "close after a ping", "end of stream", "reset"];
    for (before, end) in ends.into_iter().enumerate() {
        let began = tokio::time::Instant::now();
        let given_up = refused(&lab, PATIENCE, async |stream| {
            let mut asterisk = Asterisk(accept_async(stream).await.unwrap());
            match end {
                "close" => asterisk.0.close(None).await.unwrap(),
                "close after a ping" => {
                    asterisk.0.send(Message::Ping(Bytes::from_static(b"?"))).await.unwrap();
                    asterisk.0.close(None).await.unwrap();
                }
                "end of stream" => asterisk.0.get_mut().shutdown().await.unwrap(),
                _ => SockRef::from(asterisk.0.get_ref()).set_linger(Some(Duration::ZERO)).unwrap(),
            }
        });
        assert!(given_up.await, "{end}");
        assert_eq!(lab.counters.refused(Refusal::Closed).get(), before as u64 + 1, "{end}");
        assert!(began.elapsed() < PATIENCE / 2, "{end}: given up when it was told, after {:?}", began.elapsed());
    }
    assert_eq!(lab.counters.refused(Refusal::Silent).get(), 0);
    lab.is_idle().await;
}

#[tokio::test]
async fn however_the_connection_ends_the_call_is_told_once() {
    let lab = Lab::start().await;
    for end in ["close", "end of stream", "reset", "oversize", "no WebSocket"] {
        let (mut leg, mut asterisk) = call(&lab, Format::SLIN8).await;
        let expected = match end {
            "close" => {
                asterisk.0.close(None).await.unwrap();
                MediaEvent::Closed
            }
            "end of stream" => {
                asterisk.0.get_mut().shutdown().await.unwrap();
                MediaEvent::Closed
            }
            "reset" => {
                SockRef::from(asterisk.0.get_ref()).set_linger(Some(Duration::ZERO)).unwrap();
                drop(asterisk);
                MediaEvent::Closed
            }
            "oversize" => {
                let _ = asterisk.0.send(Message::Binary(vec![0; MESSAGE_BYTES_MAX + 2].into())).await;
                MediaEvent::Broken
            }
            _ => {
                asterisk.0.get_mut().write_all(&[0xff; 64]).await.unwrap();
                MediaEvent::Broken
            }
        };
        assert_eq!(event(&mut leg).await, Some(expected), "{end}");
        assert_eq!(event(&mut leg).await, None, "{end}");
        assert!(leg.sender.flush());
        assert!(!leg.sender.play(audio(Format::SLIN8, 1)), "{end}");
    }
    lab.is_idle().await;
}

/// The other side closes: before a frame has passed, in mid-audio, full, behind, and with our own frames on their way.
#[tokio::test]
async fn a_connection_that_is_closed_in_any_state_is_told_once_and_takes_no_more() {
    let lab = Lab::start().await;
    for (state, opus) in ["fresh", "heard", "paused", "behind", "with a backlog"]
        .into_iter()
        .flat_map(|state| [(state, false), (state, true)])
    {
        let (mut leg, mut asterisk) =
            if opus { passed_through::opus_call(&lab).await } else { call(&lab, Format::SLIN16).await };
        match state {
            "heard" => {
                assert!(leg.sender.play(audio(Format::SLIN16, 1)));
                assert!(asterisk.message().await.is_some_and(|message| message.is_binary()));
            }
            // Of a path that cannot be emptied that is the end already.
            "paused" => asterisk.say(r#"{"event":"MEDIA_XOFF"}"#).await,
            "behind" => asterisk.say(r#"{"event":"STATUS","queue_length":50}"#).await,
            "with a backlog" => while leg.sender.play(audio(Format::SLIN16, 1)) {},
            _ => {}
        }
        let _ = asterisk.0.close(None).await;
        assert_eq!(event(&mut leg).await, Some(MediaEvent::Closed), "{state}, opus: {opus}");
        assert_eq!(event(&mut leg).await, None, "{state}, opus: {opus}");
        assert!(!leg.sender.play(audio(Format::SLIN16, 1)), "{state}, opus: {opus}");
        assert!(leg.sender.flush());
        drop((leg, asterisk));
        lab.is_idle().await;
    }
}

#[tokio::test]
async fn a_leg_that_is_dropped_in_any_state_leaves_nothing() {
    let lab = Lab::start().await;
    for state in ["fresh", "unread", "paused", "behind", "with a backlog", "closed by Asterisk"] {
        let (mut leg, mut asterisk) = call(&lab, Format::SLIN48).await;
        match state {
            "unread" => asterisk.plays(audio(Format::SLIN48, 1)).await,
            "paused" => {
                asterisk.say(r#"{"event":"MEDIA_XOFF"}"#).await;
                asterisk.plays(audio(Format::SLIN48, 1)).await;
                event(&mut leg).await;
            }
            "behind" => {
                asterisk.say(r#"{"event":"STATUS","queue_length":50}"#).await;
                asterisk.plays(audio(Format::SLIN48, 1)).await;
                event(&mut leg).await;
            }
            "with a backlog" => while leg.sender.play(audio(Format::SLIN48, 1)) {},
            "closed by Asterisk" => {
                asterisk.0.close(None).await.unwrap();
                event(&mut leg).await;
            }
            _ => {}
        }
        drop(leg);
        while asterisk.message().await.is_some() {}
        drop(asterisk);
        lab.is_idle().await;
    }
}

#[tokio::test]
async fn an_asterisk_that_is_full_is_emptied_and_sent_nothing_until_it_asks() {
    let lab = Lab::start().await;
    let (mut leg, mut asterisk) = call(&lab, Format::SLIN8).await;
    asterisk.say(r#"{"event":"MEDIA_XOFF","channel_id":"c"}"#).await;
    asterisk.plays(audio(Format::SLIN8, 1)).await;
    event(&mut leg).await;
    assert_eq!(asterisk.command().await, "FLUSH_MEDIA");
    assert!(!leg.sender.play(audio(Format::SLIN8, 2)));
    assert_eq!(lab.counters.discarded(Discard::PeerFull).get(), 1);
    asterisk.say(r#"{"event":"MEDIA_XON","channel_id":"c"}"#).await;
    asterisk.plays(audio(Format::SLIN8, 1)).await;
    event(&mut leg).await;
    assert!(leg.sender.play(audio(Format::SLIN8, 3)));
    assert_eq!(asterisk.hears_until(3).await, [3]);
}

#[tokio::test]
async fn an_asterisk_that_is_full_for_ever_is_given_up_after_a_second_of_frames() {
    let lab = Lab::start().await;
    let (mut leg, mut asterisk) = call(&lab, Format::SLIN8).await;
    asterisk.say(r#"{"event":"MEDIA_XOFF","channel_id":"c"}"#).await;
    asterisk.plays(audio(Format::SLIN8, 1)).await;
    event(&mut leg).await;
    for _ in 0..PAUSED_FRAMES {
        assert!(!leg.sender.play(audio(Format::SLIN8, 2)));
    }
    assert_eq!(lab.counters.discarded(Discard::PeerFull).get(), u64::from(PAUSED_FRAMES));
    assert_eq!(event(&mut leg).await, Some(MediaEvent::Closed));
    assert!(!leg.sender.play(audio(Format::SLIN8, 2)));
    assert_eq!(lab.counters.discarded(Discard::NotSent).get(), 1);
    drop(leg);
    lab.is_idle().await;
}

#[tokio::test]
async fn an_asterisk_that_does_not_read_is_refused_frames_then_given_up() {
    let lab = Lab::start().await;
    let (mut leg, asterisk) = call(&lab, Format::SLIN16).await;
    let mut played = 0;
    while lab.counters.discarded(Discard::NotSent).get() == 0 {
        let _ = leg.sender.play(audio(Format::SLIN16, 1));
        played += 1;
        assert!(played < 100_000, "somebody buffers without a limit");
    }
    assert!(lab.counters.discarded(Discard::SocketFull).get() >= u64::from(STALLED_FRAMES));
    assert_eq!(event(&mut leg).await, Some(MediaEvent::Closed));
    drop((leg, asterisk));
    lab.is_idle().await;
}

#[tokio::test]
async fn a_stall_that_ends_tears_no_frame() {
    let lab = Lab::start().await;
    let (mut leg, mut asterisk) = call(&lab, Format::SLIN16).await;
    let mut played = 0;
    while leg.sender.play(audio(Format::SLIN16, 1)) {
        played += 1;
    }
    // It reads on: the frame that was cut short is whole, and the next ones follow.
    let (reading, _) = tokio::join!(
        async {
            let mut heard = 0;
            while heard < played {
                match asterisk.message().await {
                    Some(Message::Binary(frame)) => {
                        assert_eq!(frame, audio(Format::SLIN16, 1));
                        heard += 1;
                    }
                    Some(_) => {}
                    None => panic!("the leg closed"),
                }
            }
            asterisk.plays(audio(Format::SLIN16, 9)).await;
            heard
        },
        event(&mut leg)
    );
    assert_eq!(reading, played);
    eventually("the leg plays again", || leg.sender.play(audio(Format::SLIN16, 5))).await;
    assert_eq!(*asterisk.hears_until(5).await.last().unwrap(), 5);
}

#[tokio::test]
async fn asterisk_is_asked_once_a_second_and_catches_up_on_silence_alone() {
    let lab = Lab::start().await;
    let format = Format::ULAW;
    let (mut leg, mut asterisk) = call(&lab, format).await;
    for _ in 0..STATUS_EVERY {
        assert!(leg.sender.play(audio(format, 1)));
    }
    assert_eq!(asterisk.command().await, "GET_STATUS");
    let status = |length: u32| json!({ "event": "STATUS", "channel_id": "c", "queue_length": length });
    let told = async |leg: &mut MediaLeg, asterisk: &mut Asterisk, length| {
        asterisk.say(status(length)).await;
        asterisk.plays(audio(format, 1)).await;
        event(leg).await;
    };
    // As many as are usual: everything is sent.
    told(&mut leg, &mut asterisk, USUAL_QUEUE).await;
    assert!(leg.sender.play(silence(format)));
    told(&mut leg, &mut asterisk, USUAL_QUEUE + 2).await;
    for byte in [2, format.silence(), 3, format.silence(), format.silence(), format.silence(), format.silence(), 4] {
        assert!(leg.sender.play(audio(format, byte)), "nothing of this is lost to the call");
    }
    assert_eq!(asterisk.hears_until(4).await, [0xff, 2, 3, 0xff, 4]);
    assert_eq!(lab.counters.discarded(Discard::Behind).get(), 4);
    assert!(leg.sender.play(silence(format)));
    // Who is interrupted owes nothing.
    told(&mut leg, &mut asterisk, 100).await;
    assert!(leg.sender.flush());
    assert_eq!(asterisk.command().await, "FLUSH_MEDIA");
    assert!(leg.sender.play(silence(format)));
    assert_eq!(asterisk.hears_until(0xff).await, [0xff]);
}

/// What waits in Asterisk is not heard yet, and what is flushed for its being full never is: the call is told both.
#[tokio::test]
async fn the_call_is_told_what_waits_in_asterisk_and_what_was_thrown_away_there() {
    let lab = Lab::start().await;
    let (mut leg, mut asterisk) = call(&lab, Format::SLIN16).await;
    for (frames, told) in [(0, 0), (3, 60), (50, 1_000), (u32::MAX, 20_000)] {
        asterisk.say(json!({ "event": "STATUS", "channel_id": "c", "queue_length": frames })).await;
        assert_eq!(hub::event(&mut leg).await, Some(MediaEvent::Waits(Duration::from_millis(told))), "{frames}");
    }
    asterisk.say(r#"{"event":"MEDIA_XOFF","channel_id":"c"}"#).await;
    assert_eq!(hub::event(&mut leg).await, Some(MediaEvent::ThrownAway(Duration::from_secs(18))));
    assert_eq!(lab.counters.discarded(Discard::ThrownAway).get(), 900);
    assert_eq!(asterisk.command().await, "FLUSH_MEDIA");
}

#[tokio::test]
async fn a_frame_of_another_length_would_lose_its_end_and_is_not_sent() {
    let lab = Lab::start().await;
    let (mut leg, mut asterisk) = call(&lab, Format::SLIN8).await;
    for bytes in [0, 100, 319, 321, 640] {
        assert!(!leg.sender.play(vec![1; bytes].into()), "{bytes}");
    }
    assert_eq!(lab.counters.discarded(Discard::FrameSize).get(), 5);
    assert!(leg.sender.play(audio(Format::SLIN8, 2)));
    assert_eq!(asterisk.hears_until(2).await, [2]);
}
