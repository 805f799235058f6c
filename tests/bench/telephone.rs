//! A telephone in a few hundred lines, of which a thousand fit into one process: SIP over UDP (RFC 3261), µ-law or Opus over
//! RTP (RFC 3550). It dials, talks, listens and leaves at the moment that it was told to. Nothing of it checks the other side's
//! protocol: Asterisk is trusted to speak it.

use futures_util::future::join_all;
use offhook::audio::{
    FRAME, Format,
    opus::{FORMAT, Heard, Reader, Writer},
};
use std::{f32::consts::TAU, io, net::SocketAddr, time::Duration};
use tokio::{
    net::UdpSocket,
    time::{Instant, MissedTickBehavior, interval, sleep_until},
};

/// Later than that no call is answered where nothing is wrong.
pub const ANSWERED_WITHIN: Duration = Duration::from_secs(10);
/// What was not answered is sent again so often (RFC 3261, T1).
const AGAIN: Duration = Duration::from_millis(500);
/// After that long without an answer to a BYE or CANCEL the telephone goes all the same.
const PART_WITHIN: Duration = Duration::from_secs(8);
const DATAGRAM: usize = 4_096;
/// Above it a packet is sound; what coders make of silence is far below.
const LOUD_PEAK: u16 = 2_000;
const TONE_PEAK: f32 = 12_000.0;

/// What the caller says from the answer on.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Says {
    /// Not one packet: a telephone that suppresses silence.
    Nothing,
    Silence,
    /// 500 Hz.
    Tone,
}

/// What the telephone offers, and nothing else.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Codec {
    MuLaw,
    Opus,
}

impl Codec {
    const fn payload_type(self) -> u8 {
        match self {
            Self::MuLaw => 0,
            Self::Opus => 107,
        }
    }

    /// `a=rtpmap`. Of Opus the clock is 48 kHz whatever is coded (RFC 7587, section 4.1).
    const fn name(self) -> &'static str {
        match self {
            Self::MuLaw => "PCMU/8000",
            Self::Opus => "opus/48000/2",
        }
    }

    const fn clock_of_frame(self) -> u32 {
        match self {
            Self::MuLaw => 160,
            Self::Opus => 960,
        }
    }
}

/// When the caller hangs up.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Leaves {
    /// As soon as it rings.
    BeforeAnswer,
    AtAnswer,
    /// After so many packets with sound.
    Heard(u32),
    /// So long after the answer.
    After(Duration),
    /// Stays until the other side hangs up.
    Never,
}

/// One call to be made.
#[derive(Debug, Clone, Copy)]
pub struct Order<'a> {
    pub asterisk: SocketAddr,
    pub extension: &'a str,
    pub codec: Codec,
    pub says: Says,
    pub leaves: Leaves,
    /// The caller gives up after so long, whatever they were waiting for.
    pub limit: Duration,
}

impl Order<'_> {
    /// A caller of the default agent (`dialplan/extensions_offhook.conf`) who says nothing.
    pub const fn listens(asterisk: SocketAddr) -> Self {
        let (says, leaves) = (Says::Silence, Leaves::Never);
        Self { asterisk, extension: "7000", codec: Codec::MuLaw, says, leaves, limit: ANSWERED_WITHIN }
    }
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Side {
    Caller,
    Other,
}

/// What came of it.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Outcome {
    /// Of the final answer to the INVITE; 0: none came.
    pub status: u16,
    /// Packets of audio that came.
    pub packets: u32,
    /// Those with sound.
    pub loud: u32,
    /// From the answer to the first packet with sound.
    pub heard_after: Option<Duration>,
    /// The longest time between two packets with sound, from the answer to the first, and from the last until the caller left.
    pub longest_silence: Duration,
    /// The limit passed.
    pub gave_up: bool,
    /// Who hung up a call that was answered.
    pub hung_up: Option<Side>,
}

/// Makes the call and returns when it is over.
///
/// # Errors
/// When no socket can be opened or used.
pub async fn call(order: &Order<'_>) -> io::Result<Outcome> {
    let mut telephone = Telephone::new(order).await?;
    telephone.run(order).await?;
    Ok(telephone.outcome)
}

/// So many of these calls, each of which begins so long after the one before, until all hang up at `over`.
///
/// # Errors
/// As of [`call`].
pub async fn crowd(order: &Order<'_>, calls: usize, every: Duration, over: Instant) -> io::Result<Vec<Outcome>> {
    let begin = Instant::now();
    let placed = (0..calls).map(|number| async move {
        sleep_until(begin + every * number as u32).await;
        let stays = over.saturating_duration_since(Instant::now());
        call(&Order { leaves: Leaves::After(stays), limit: stays + ANSWERED_WITHIN, ..*order }).await
    });
    join_all(placed).await.into_iter().collect()
}

/// How far the call is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Stage {
    Dialling,
    /// CANCEL has been sent.
    Cancelling,
    Up,
    /// BYE has been sent.
    Leaving,
    Over,
}

struct Telephone {
    sip: UdpSocket,
    rtp: UdpSocket,
    asterisk: SocketAddr,
    /// Where the other side's audio is expected.
    media: Option<SocketAddr>,
    /// `From`, `Call-ID`, the address in `Via` and `Contact`.
    identity: Identity,
    /// With the other side's tag, once there is one.
    to: String,
    stage: Stage,
    answered: Option<Instant>,
    /// The request that waits for its answer, and when it is sent again.
    pending: Option<(String, Instant)>,
    packet: Packet,
    /// The last packet with sound, or the answer.
    sound: Option<Instant>,
    /// Hears Opus.
    opus: Option<Reader>,
    outcome: Outcome,
}

struct Identity {
    call: String,
    local: SocketAddr,
    media: u16,
    codec: Codec,
    extension: String,
    asterisk: SocketAddr,
}

impl Telephone {
    async fn new(order: &Order<'_>) -> io::Result<Self> {
        let here = SocketAddr::new(order.asterisk.ip(), 0);
        let (sip, rtp) = (UdpSocket::bind(here).await?, UdpSocket::bind(here).await?);
        let identity = Identity {
            call: uuid::Uuid::new_v4().simple().to_string(),
            local: sip.local_addr()?,
            media: rtp.local_addr()?.port(),
            codec: order.codec,
            extension: order.extension.to_owned(),
            asterisk: order.asterisk,
        };
        let to = format!("<sip:{}@{}>", order.extension, order.asterisk);
        Ok(Self {
            sip,
            rtp,
            asterisk: order.asterisk,
            media: None,
            identity,
            to,
            stage: Stage::Dialling,
            answered: None,
            pending: None,
            packet: Packet::new(order.says, order.codec)?,
            sound: None,
            opus: (order.codec == Codec::Opus).then(Reader::new).transpose().map_err(io::Error::other)?,
            outcome: Outcome::default(),
        })
    }

    async fn run(&mut self, order: &Order<'_>) -> io::Result<()> {
        let invite = self.identity.request("INVITE", 1, &self.to);
        self.ask(invite).await?;
        let mut gives_up = Instant::now() + order.limit;
        let mut clock = interval(FRAME);
        clock.set_missed_tick_behavior(MissedTickBehavior::Skip);
        let (mut message, mut audio) = (vec![0; DATAGRAM], vec![0; DATAGRAM]);
        while self.stage != Stage::Over {
            let again = self.pending.as_ref().map_or(gives_up, |(_, again)| *again);
            tokio::select! {
                read = self.sip.recv_from(&mut message) => {
                    let (length, _) = read?;
                    let text = String::from_utf8_lossy(&message[..length]).into_owned();
                    self.hear(&text, order).await?;
                }
                read = self.rtp.recv(&mut audio), if self.stage == Stage::Up => {
                    // ICMP may tell that Asterisk has closed its port; the BYE is on its way.
                    if let Ok(length) = read {
                        self.listen(&audio[..length]);
                    }
                }
                _ = clock.tick(), if self.stage == Stage::Up => self.talk().await,
                () = sleep_until(again.min(gives_up)) => {
                    if Instant::now() >= gives_up {
                        if matches!(self.stage, Stage::Cancelling | Stage::Leaving) {
                            return Ok(());
                        }
                        self.outcome.gave_up = true;
                        self.part().await?;
                        gives_up = Instant::now() + PART_WITHIN;
                    } else if let Some((request, again)) = &mut self.pending {
                        *again = Instant::now() + AGAIN;
                        self.sip.send_to(request.as_bytes(), self.asterisk).await?;
                    }
                }
            }
            if self.stage == Stage::Up && self.is_done(order.leaves) {
                self.part().await?;
                gives_up = Instant::now() + PART_WITHIN;
            }
        }
        Ok(())
    }

    fn is_done(&self, leaves: Leaves) -> bool {
        match leaves {
            Leaves::BeforeAnswer | Leaves::AtAnswer => true,
            Leaves::Heard(loud) => self.outcome.loud >= loud,
            Leaves::After(length) => self.answered.is_some_and(|since| since.elapsed() >= length),
            Leaves::Never => false,
        }
    }

    /// Hangs up, or takes back what has not been answered.
    async fn part(&mut self) -> io::Result<()> {
        let request = match self.stage {
            Stage::Up => {
                self.note_silence();
                self.stage = Stage::Leaving;
                self.outcome.hung_up = Some(Side::Caller);
                self.identity.request("BYE", 2, &self.to)
            }
            Stage::Dialling => {
                self.stage = Stage::Cancelling;
                let to = format!("<sip:{}@{}>", self.identity.extension, self.asterisk);
                self.identity.request("CANCEL", 1, &to)
            }
            Stage::Cancelling | Stage::Leaving | Stage::Over => return Ok(()),
        };
        self.ask(request).await
    }

    async fn ask(&mut self, request: String) -> io::Result<()> {
        self.sip.send_to(request.as_bytes(), self.asterisk).await?;
        self.pending = Some((request, Instant::now() + AGAIN));
        Ok(())
    }

    async fn hear(&mut self, text: &str, order: &Order<'_>) -> io::Result<()> {
        let Some(rest) = text.strip_prefix("SIP/2.0 ") else { return self.obey(text).await };
        let status: u16 = rest.get(..3).and_then(|code| code.parse().ok()).unwrap_or(0);
        let about = header(text, "CSeq").unwrap_or_default().to_owned();
        match (about.split_whitespace().last().unwrap_or_default(), status) {
            // It has arrived; what is told of it next comes by itself.
            ("INVITE", 100..=199) if self.stage == Stage::Dialling => {
                self.pending = None;
                if status > 100 && order.leaves == Leaves::BeforeAnswer {
                    self.part().await?;
                }
            }
            ("INVITE", 100..=199) => {}
            ("INVITE", 200..=299) => self.answered(text).await?,
            ("INVITE", _) => {
                let to = header(text, "To").unwrap_or_default().to_owned();
                self.outcome.status = status;
                let ack = self.identity.request("ACK", 1, &to);
                self.sip.send_to(ack.as_bytes(), self.asterisk).await?;
                self.stage = Stage::Over;
            }
            ("BYE", _) => self.stage = Stage::Over,
            // The INVITE's own answer follows.
            ("CANCEL", _) => self.pending = None,
            _ => {}
        }
        Ok(())
    }

    /// Somebody has answered; also when that crossed a CANCEL, or is told once more.
    async fn answered(&mut self, text: &str) -> io::Result<()> {
        header(text, "To").unwrap_or_default().clone_into(&mut self.to);
        // Of a transaction of its own, unlike the ACK of a refusal (RFC 3261, 17.1.1.3).
        let ack = self.identity.request("ACK", 1, &self.to).replacen(";rport", "ack;rport", 1);
        self.sip.send_to(ack.as_bytes(), self.asterisk).await?;
        if !matches!(self.stage, Stage::Dialling | Stage::Cancelling) {
            return Ok(());
        }
        self.outcome.status = 200;
        let port = text.lines().find_map(|line| line.strip_prefix("m=audio ")?.split(' ').next()?.parse().ok());
        self.media = port.map(|port| SocketAddr::new(self.asterisk.ip(), port));
        self.answered = Some(Instant::now());
        self.sound = self.answered;
        self.pending = None;
        let unwanted = self.stage == Stage::Cancelling;
        self.stage = Stage::Up;
        if unwanted { self.part().await } else { Ok(()) }
    }

    /// Does what Asterisk asks for: whatever it is, it may have it.
    async fn obey(&mut self, text: &str) -> io::Result<()> {
        let method = text.split(' ').next().unwrap_or_default();
        if method == "ACK" {
            return Ok(());
        }
        let kept = ["via", "from", "to", "call-id", "cseq"];
        let lines = text.lines().skip(1).take_while(|line| !line.is_empty());
        let lines = lines.filter(|line| {
            line.split_once(':').is_some_and(|(name, _)| kept.contains(&name.trim().to_ascii_lowercase().as_str()))
        });
        let head: String = lines.map(|line| format!("{line}\r\n")).collect();
        let body = if method == "INVITE" { self.identity.description() } else { String::new() };
        let answer = format!(
            "SIP/2.0 200 OK\r\n{head}Contact: <sip:soak@{}>\r\n{}Content-Length: {}\r\n\r\n{body}",
            self.identity.local,
            if body.is_empty() { "" } else { "Content-Type: application/sdp\r\n" },
            body.len()
        );
        self.sip.send_to(answer.as_bytes(), self.asterisk).await?;
        if method == "BYE" {
            self.outcome.hung_up.get_or_insert(Side::Other);
            self.stage = Stage::Over;
        }
        Ok(())
    }

    fn listen(&mut self, packet: &[u8]) {
        // Version 2, no padding, no extension, no CSRC, one payload type: all that Asterisk sends here.
        let kind = self.identity.codec.payload_type();
        let Some(payload) = packet.get(12..).filter(|_| packet[0] == 0x80 && packet[1] & 0x7f == kind) else { return };
        self.outcome.packets += 1;
        let mut samples = Vec::with_capacity(payload.len());
        match &mut self.opus {
            Some(opus) => {
                let (Heard::Audio(audio) | Heard::Concealed(audio)) = opus.audio(payload);
                FORMAT.decode(&audio, &mut samples);
            }
            None => Format::ULAW.decode(payload, &mut samples),
        }
        if samples.iter().any(|sample| sample.unsigned_abs() > LOUD_PEAK) {
            self.outcome.loud += 1;
            if self.outcome.heard_after.is_none() {
                self.outcome.heard_after = self.answered.map(|since| since.elapsed());
            }
            self.note_silence();
            self.sound = Some(Instant::now());
        }
    }

    fn note_silence(&mut self) {
        let silence = self.sound.map_or(Duration::ZERO, |since| since.elapsed());
        self.outcome.longest_silence = self.outcome.longest_silence.max(silence);
    }

    async fn talk(&mut self) {
        if let (Some(media), Some(packet)) = (self.media, self.packet.next()) {
            // A packet that is lost is lost.
            let _ = self.rtp.send_to(packet, media).await;
        }
    }
}

impl Identity {
    /// The requests of one call; an ACK or a CANCEL belongs to the INVITE of its number.
    fn request(&self, method: &str, number: u32, to: &str) -> String {
        let Self { call, local, extension, asterisk, .. } = self;
        let body = if method == "INVITE" { self.description() } else { String::new() };
        let kind = if body.is_empty() { "" } else { "Content-Type: application/sdp\r\n" };
        format!(
            "{method} sip:{extension}@{asterisk} SIP/2.0\r\nVia: SIP/2.0/UDP {local};branch=z9hG4bK{call}{number};rport\r\n\
             Max-Forwards: 70\r\nFrom: <sip:soak@{local}>;tag={call}\r\nTo: {to}\r\nCall-ID: {call}\r\nCSeq: {number} \
             {method}\r\nContact: <sip:soak@{local}>\r\n{kind}Content-Length: {}\r\n\r\n{body}",
            body.len()
        )
    }

    fn description(&self) -> String {
        let (ip, kind) = (self.local.ip(), self.codec.payload_type());
        format!(
            "v=0\r\no=soak 1 1 IN IP4 {ip}\r\ns=-\r\nc=IN IP4 {ip}\r\nt=0 0\r\nm=audio {} RTP/AVP {kind}\r\n\
             a=rtpmap:{kind} {}\r\na=ptime:20\r\n",
            self.media,
            self.codec.name()
        )
    }
}

fn header<'a>(text: &'a str, name: &str) -> Option<&'a str> {
    let lines = text.lines().skip(1).take_while(|line| !line.is_empty());
    let mut named = lines.filter_map(|line| line.split_once(':'));
    named.find(|(key, _)| key.trim().eq_ignore_ascii_case(name)).map(|(_, value)| value.trim())
}

/// The packets of one stream.
struct Packet {
    /// What they hold, over and over; nothing is sent where there is none.
    payloads: Vec<Vec<u8>>,
    header: [u8; 12],
    bytes: Vec<u8>,
    clock: u32,
    sequence: u16,
    timestamp: u32,
    number: usize,
}

impl Packet {
    fn new(says: Says, codec: Codec) -> io::Result<Self> {
        let format = if codec == Codec::Opus { FORMAT } else { Format::ULAW };
        let peak = if says == Says::Tone { TONE_PEAK } else { 0.0 };
        // 500 Hz has whole periods in a frame.
        let sample = |at: usize| (peak * (TAU * 500.0 * at as f32 / format.rate as f32).sin()) as i16;
        let mut frame = Vec::new();
        format.encode(&(0..format.rate as usize / 50).map(sample).collect::<Vec<_>>(), &mut frame);
        let payloads = match (says, codec) {
            (Says::Nothing, _) => Vec::new(),
            (_, Codec::MuLaw) => vec![frame],
            (_, Codec::Opus) => {
                let mut writer = Writer::new().map_err(io::Error::other)?;
                // A second, in which the coder has settled.
                (0..50).filter_map(|_| writer.packet(&frame)).map(Vec::from).collect()
            }
        };
        let mut header = [0; 12];
        (header[0], header[1]) = (0x80, codec.payload_type());
        header[8..].copy_from_slice(&rand::random::<u32>().to_be_bytes());
        let (sequence, timestamp) = (rand::random(), rand::random());
        Ok(Self { payloads, header, bytes: Vec::new(), clock: codec.clock_of_frame(), sequence, timestamp, number: 0 })
    }

    fn next(&mut self) -> Option<&[u8]> {
        let payload = self.payloads.get(self.number % self.payloads.len().max(1))?;
        self.header[2..4].copy_from_slice(&self.sequence.to_be_bytes());
        self.header[4..8].copy_from_slice(&self.timestamp.to_be_bytes());
        self.sequence = self.sequence.wrapping_add(1);
        self.timestamp = self.timestamp.wrapping_add(self.clock);
        self.number += 1;
        self.bytes.clear();
        self.bytes.extend_from_slice(&self.header);
        self.bytes.extend_from_slice(payload);
        Some(&self.bytes)
    }
}
