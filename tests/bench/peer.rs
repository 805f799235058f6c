//! A provider's server as far as a measurement needs one: it sets sessions up, speaks by a timetable,
//! and says at fixed moments that the caller interrupts. What is said is the same for every vendor;
//! each has a file about how it is written.

mod deepgram;
mod elevenlabs;
mod gemini;
mod openai;

use deepgram::Deepgram;
use elevenlabs::ElevenLabs;
use gemini::Gemini;
use openai::OpenAi;

use super::load::{Call, Load, Provider, is_loud, take_up, tone};
use base64::{Engine as _, engine::general_purpose::STANDARD};
use futures_util::{SinkExt as _, StreamExt as _};
use offhook::audio::{Converter, Format};
use std::{
    sync::{Arc, LazyLock},
    time::Duration,
};
use tokio::{
    net::{TcpListener, TcpStream},
    task::JoinSet,
    time::{Instant, sleep_until},
};
use tokio_tungstenite::{
    WebSocketStream, accept_async_with_config,
    tungstenite::{
        Message,
        protocol::{CloseFrame, WebSocketConfig, frame::coding::CloseCode},
    },
};

/// Lengths of the audio messages, in turn; the vendors' vary as much.
const PIECES_MS: [u64; 4] = [20, 40, 100, 200];
const ANSWER_MS: u64 = 1_600;
/// No multiple of 20 ms, so that answers meet every phase of the engine's clock alike.
const CYCLE: Duration = Duration::from_millis(2_007);
/// Answers come faster than they are spoken, so that the engine has something queued.
const PACE: u32 = 2;
/// Every so many answers are interrupted, after so long.
const INTERRUPTED_EVERY: u32 = 4;
const INTERRUPTED_AFTER: Duration = Duration::from_millis(500);
const CALLER_SPEAKS: Duration = Duration::from_millis(300);
/// Longer than anybody listens to it.
const MONOLOGUE_MS: u64 = 120_000;

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Cue {
    Begin,
    /// An index into [`PIECES_MS`].
    Audio(usize),
    Complete,
    Interrupt,
    CallerQuiet,
}

/// What is done when, counted from the beginning of an answer.
type Timetable = Vec<(Duration, Cue)>;

static WHOLE: LazyLock<Timetable> = LazyLock::new(|| timetable(ANSWER_MS, PACE));

static INTERRUPTED: LazyLock<Timetable> = LazyLock::new(|| {
    let mut timetable = WHOLE.clone();
    timetable.retain(|(at, _)| *at < INTERRUPTED_AFTER);
    timetable.push((INTERRUPTED_AFTER, Cue::Interrupt));
    timetable.push((INTERRUPTED_AFTER + CALLER_SPEAKS, Cue::CallerQuiet));
    timetable
});

/// In real time: nothing is queued in the engine when its session ends.
static MONOLOGUE: LazyLock<Timetable> = LazyLock::new(|| timetable(MONOLOGUE_MS, 1));

fn timetable(length_ms: u64, pace: u32) -> Timetable {
    let mut timetable = vec![(Duration::ZERO, Cue::Begin)];
    let mut said = 0;
    for piece in (0..PIECES_MS.len()).cycle() {
        if said >= length_ms {
            break;
        }
        timetable.push((Duration::from_millis(said) / pace, Cue::Audio(piece)));
        said += PIECES_MS[piece];
    }
    timetable.push((Duration::from_millis(said) / pace, Cue::Complete));
    timetable
}

/// What a session says.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Play {
    /// Answers of 1.6 s every 2 s, faster than real time; now and then one is interrupted.
    Answers,
    /// One answer without an end, in real time.
    Monologue,
}

impl Play {
    fn timetable(self, answer: u32) -> &'static Timetable {
        match self {
            Self::Monologue => &MONOLOGUE,
            Self::Answers if answer % INTERRUPTED_EVERY == INTERRUPTED_EVERY - 1 => &INTERRUPTED,
            Self::Answers => &WHOLE,
        }
    }
}

/// How one vendor writes it.
pub trait Vendor: Default + Send + 'static {
    /// What it hears, where that is not linear.
    const HEARS: Format;

    /// What the server says as soon as the connection stands.
    fn hello(&self) -> Option<Message> {
        None
    }

    /// Reads a message of the client; what is to be answered at once goes into `out`.
    fn hear<'m>(&mut self, message: &'m Message, out: &mut Vec<Message>) -> Heard<'m>;

    /// Writes what the cue means in the answer of this number. Nothing, where the vendor says nothing.
    fn act(&mut self, cue: Cue, answer: u32, out: &mut Vec<Message>);
}

pub enum Heard<'m> {
    Nothing,
    /// The agent is to speak.
    Go,
    /// The caller's audio.
    Base64(&'m str),
    Raw(&'m [u8]),
}

/// The agent's voice, in pieces of [`PIECES_MS`].
fn voice(format: Format) -> [Vec<u8>; PIECES_MS.len()] {
    PIECES_MS.map(|ms| {
        let linear = Format { encoding: Format::SLIN8.encoding, rate: format.rate };
        let mut bytes = Vec::new();
        let mut converter = Converter::new(linear, format);
        converter.push(&tone(linear, Duration::from_millis(ms)), &mut bytes);
        converter.flush(&mut bytes);
        bytes
    })
}

fn voice_base64(format: Format) -> [String; PIECES_MS.len()] {
    voice(format).map(|piece| STANDARD.encode(piece))
}

struct Server<V> {
    vendor: V,
    play: Play,
    socket: WebSocketStream<TcpStream>,
    load: Arc<Load>,
    call: Arc<Call>,
    /// Answers begun so far.
    answers: u32,
    /// When the current answer began, and its next cue; `None` before the first one.
    course: Option<(Instant, usize)>,
}

/// Serves one session of this vendor until either side ends it, or the call's is to break.
pub async fn serve(provider: Provider, stream: TcpStream, load: Arc<Load>, call: Arc<Call>, play: Play) {
    match provider {
        Provider::OpenAi => session::<OpenAi>(stream, load, call, play).await,
        Provider::Gemini => session::<Gemini>(stream, load, call, play).await,
        Provider::Deepgram => session::<Deepgram>(stream, load, call, play).await,
        Provider::ElevenLabs => session::<ElevenLabs>(stream, load, call, play).await,
        // These have servers of their own, or none.
        Provider::Raw | Provider::Stages | Provider::Embedded => {}
    }
}

/// Serves everybody who connects, whose call ever it is, until it is dropped.
pub fn serve_all(provider: Provider, listener: TcpListener, load: Arc<Load>, play: Play) -> JoinSet<()> {
    let mut tasks = JoinSet::new();
    tasks.spawn(async move {
        let mut sessions = JoinSet::new();
        while let Ok((stream, _)) = listener.accept().await {
            let call = Arc::new(Call::default());
            sessions.spawn(serve(provider, stream, Arc::clone(&load), call, play));
        }
    });
    tasks
}

async fn session<V: Vendor>(stream: TcpStream, load: Arc<Load>, call: Arc<Call>, play: Play) {
    // The library's default of 128 KiB per connection would be most of the load's memory.
    let config = WebSocketConfig::default().read_buffer_size(16 << 10);
    let Ok(socket) = accept_async_with_config(stream, Some(config)).await else { return };
    let (stop, breaks) = (load.provider_stop.clone(), call.breaks.clone());
    let mut server = Server { vendor: V::default(), play, socket, load, call, answers: 0, course: None };
    tokio::select! {
        () = stop.cancelled() => {}
        // The caller of this session notices when it ends by itself.
        _ = server.run() => {}
        () = breaks.cancelled() => {
            let frame = CloseFrame { code: CloseCode::Error, reason: "".into() };
            // Who does not take it is cut off.
            let _ = server.socket.close(Some(frame)).await;
        }
    }
}

impl<V: Vendor> Server<V> {
    async fn run(&mut self) -> Option<()> {
        if let Some(hello) = self.vendor.hello() {
            self.socket.send(hello).await.ok()?;
        }
        loop {
            tokio::select! {
                biased;
                (due, cue) = next_cue(self.course, self.play, self.answers) => {
                    let now = Instant::now();
                    self.load.note(|samples| samples.late.push(now.saturating_duration_since(due)));
                    self.perform(cue, now).await?;
                }
                message = self.socket.next() => self.hear(&message?.ok()?).await?,
            }
        }
    }

    async fn hear(&mut self, message: &Message) -> Option<()> {
        let now = Instant::now();
        let mut replies = Vec::new();
        let heard = self.vendor.hear(message, &mut replies);
        // Most frames come while nothing is awaited, and need no look.
        let awaited = self.call.up.is_set();
        match heard {
            Heard::Base64(text) if awaited => {
                if let Ok(bytes) = STANDARD.decode(text) {
                    take_up(&self.call, &self.load, now, is_loud_in(V::HEARS, &bytes));
                }
            }
            Heard::Raw(bytes) if awaited => take_up(&self.call, &self.load, now, is_loud_in(V::HEARS, bytes)),
            Heard::Go if self.course.is_none() => self.course = Some((now, 0)),
            Heard::Nothing | Heard::Go | Heard::Base64(_) | Heard::Raw(_) => {}
        }
        self.send(replies).await
    }

    async fn perform(&mut self, cue: Cue, now: Instant) -> Option<()> {
        let mut messages = Vec::new();
        self.vendor.act(cue, self.answers, &mut messages);
        match cue {
            // The first piece, which finds nothing queued before it.
            Cue::Audio(_) if self.course.is_some_and(|(_, at)| at == 1) => self.call.down.set(now),
            Cue::Interrupt => self.call.barge_in.set(now),
            _ => {}
        }
        self.send(messages).await?;
        self.course = self.course.map(|(began, at)| {
            if at + 1 < self.play.timetable(self.answers).len() {
                return (began, at + 1);
            }
            self.answers += 1;
            (began + CYCLE, 0)
        });
        Some(())
    }

    async fn send(&mut self, messages: Vec<Message>) -> Option<()> {
        for message in messages {
            self.socket.send(message).await.ok()?;
        }
        Some(())
    }
}

async fn next_cue(course: Option<(Instant, usize)>, play: Play, answer: u32) -> (Instant, Cue) {
    let cue = course.and_then(|(began, at)| play.timetable(answer).get(at).map(|(after, cue)| (began + *after, *cue)));
    match cue {
        Some((due, cue)) => {
            sleep_until(due).await;
            (due, cue)
        }
        None => std::future::pending().await,
    }
}

fn is_loud_in(format: Format, bytes: &[u8]) -> bool {
    let linear = Format { encoding: Format::SLIN8.encoding, rate: format.rate };
    let mut converter = Converter::new(format, linear);
    if converter.is_identity() {
        return is_loud(bytes);
    }
    let mut samples = Vec::new();
    converter.push(bytes, &mut samples);
    is_loud(&samples)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn said_ms(timetable: &Timetable) -> u64 {
        timetable.iter().map(|(_, cue)| if let Cue::Audio(piece) = cue { PIECES_MS[*piece] } else { 0 }).sum()
    }

    #[test]
    fn an_answer_is_over_in_half_the_time_it_is_spoken_and_before_the_next_one() {
        let (at, last) = *WHOLE.last().unwrap();
        assert_eq!((at, last), (Duration::from_millis(said_ms(&WHOLE)) / PACE, Cue::Complete));
        assert!(Duration::from_millis(said_ms(&WHOLE)) < CYCLE);
    }

    #[test]
    fn an_interrupted_answer_has_more_queued_than_the_barge_in_may_take() {
        assert!(Duration::from_millis(said_ms(&INTERRUPTED)) > INTERRUPTED_AFTER + Duration::from_millis(300));
    }

    #[test]
    fn a_monologue_is_said_no_faster_than_it_is_heard() {
        let (at, _) = *MONOLOGUE.last().unwrap();
        assert_eq!(at, Duration::from_millis(said_ms(&MONOLOGUE)));
    }

    /// Each vendor's own codec is asked what it makes of the peer's messages.
    mod codecs {
        use super::*;
        use offhook::{
            call::{AgentCommand, AgentEvent, ResponseStatus},
            facts::CallId,
            provider::{self, AgentSetup, Opens, Wire},
        };
        use serde_json::{Value, json};

        fn wire(message: &Message) -> Wire {
            match message {
                Message::Binary(bytes) => Wire::Binary(bytes.clone()),
                message => Wire::Text(message.to_text().unwrap().to_owned()),
            }
        }

        fn message(wire: Wire) -> Message {
            match wire {
                Wire::Text(text) => Message::text(text),
                Wire::Binary(bytes) => Message::Binary(bytes),
            }
        }

        /// One session, both ends of it in memory: set-up, greeting, an answer, an interruption.
        fn converse<V: Vendor>(kind: &str, options: &Value) -> Vec<AgentEvent> {
            let setup = AgentSetup {
                opens: Opens::Greets(Some("Hello.".into())),
                ..AgentSetup::new(CallId::random(), Format::SLIN8)
            };
            let mut codec = provider::build(kind, options).expect("good options").remote().codec(&setup);
            let (mut vendor, mut events, mut out) = (V::default(), Vec::new(), Vec::new());
            codec.open(&mut out);
            let mut to_client = Vec::from_iter(vendor.hello());
            let (mut greeted, mut goes) = (false, false);
            // As long as anybody has something to say.
            while !(out.is_empty() && to_client.is_empty()) {
                for said in std::mem::take(&mut to_client) {
                    codec.decode(wire(&said), &mut events, &mut out);
                }
                if events.contains(&AgentEvent::Ready) && !std::mem::replace(&mut greeted, true) {
                    codec.encode(AgentCommand::Greet { text: Some("Hello.".into()) }, &mut out);
                }
                for asked in std::mem::take(&mut out) {
                    goes |= matches!(vendor.hear(&message(asked), &mut to_client), Heard::Go);
                }
            }
            assert!(goes, "{kind} was never told to speak: {events:?}");
            let timetable = [Cue::Begin, Cue::Audio(0), Cue::Audio(1), Cue::Complete];
            let interrupted = [Cue::Begin, Cue::Audio(0), Cue::Interrupt, Cue::CallerQuiet];
            for (answer, cues) in [timetable, interrupted].into_iter().enumerate() {
                for cue in cues {
                    let mut said = Vec::new();
                    vendor.act(cue, answer as u32, &mut said);
                    said.iter().for_each(|said| codec.decode(wire(said), &mut events, &mut out));
                }
            }
            out.clear();
            codec.encode(AgentCommand::Audio(vec![0; V::HEARS.frame_bytes()].into()), &mut out);
            let frame = message(out.remove(0));
            let bytes = match vendor.hear(&frame, &mut to_client) {
                Heard::Base64(text) => STANDARD.decode(text).unwrap(),
                Heard::Raw(bytes) => bytes.to_vec(),
                Heard::Nothing | Heard::Go => panic!("{kind}: the caller is not heard"),
            };
            assert_eq!(bytes, vec![0; V::HEARS.frame_bytes()]);
            events
        }

        #[track_caller]
        fn speaks<V: Vendor>(kind: &str, options: &Value, output: Format) {
            let events = converse::<V>(kind, options);
            let noise = events.iter().find(|event| matches!(event, AgentEvent::Noise(_) | AgentEvent::Lost(_)));
            assert_eq!(noise, None, "{events:?}");
            let bytes: usize = events
                .iter()
                .map(|event| if let AgentEvent::Audio { audio, .. } = event { audio.len() } else { 0 })
                .sum();
            assert_eq!(bytes, output.frame_bytes() * 4, "20 + 40 + 20 ms of speech: {events:?}");
            let ended = |status| {
                let ends =
                    |event: &&AgentEvent| matches!(event, AgentEvent::ResponseDone { status: s, .. } if *s == status);
                events.iter().filter(ends).count()
            };
            assert_eq!((ended(ResponseStatus::Completed), ended(ResponseStatus::Cancelled)), (1, 1), "{events:?}");
            assert!(events.iter().any(|event| matches!(event, AgentEvent::CallerSpeechStarted { .. })), "{events:?}");
        }

        #[test]
        fn openais_codec_understands_its_peer() {
            speaks::<OpenAi>("openai_realtime", &json!({ "api_key": "none" }), Format::SLIN24);
        }

        #[test]
        fn geminis_codec_understands_its_peer() {
            speaks::<Gemini>("gemini_live", &json!({ "api_key": "none" }), Format::SLIN24);
        }

        #[test]
        fn deepgrams_codec_understands_its_peer() {
            speaks::<Deepgram>("deepgram_agent", &json!({ "api_key": "none" }), Format::SLIN8);
        }

        #[test]
        fn elevenlabs_codec_understands_its_peer() {
            speaks::<ElevenLabs>("elevenlabs_agent", &json!({ "agent_id": "bench" }), Format::ULAW);
        }
    }
}
