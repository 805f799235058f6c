//! A real SIP phone for each caller: baresip out of the lab's tree, watched and commanded over its control
//! socket.
//!
//! What it hears is written by the phone's own clock from the moment the call is established: where no
//! packet arrives the recording has silence, so times in it are times of the call. Facts of baresip
//! 1.1.0 on the loopback, by measurement:
//!
//! - A sound is in the recording 40 ms (its player's buffer) after its packet arrived; the jitter buffer is
//!   off. Through Echo() a sound comes back 40 to 60 ms after its place in what was said.
//! - The first packet leaves about 80 ms after the call is established, and before it many applications of
//!   Asterisk send nothing either. [`Baresip::say`] is on its way after about 50 ms.
//! - The recording's clock is up to 50 ms ahead of [`Baresip::wait_established`].
//! - The call ends when the sound to say ends; [`TAIL`] of silence follows it, and tests end before.
//! - While the call lasts the file is behind by up to 210 ms; it is complete after the end of the call.
//! - A phone for wideband ([`Baresip::call_wide`]) plays and records twice as many samples a second, as if they were 8000: in its
//!   sounds 3000 Hz are 6000, and a second is half of one.
//! - A new SDP with another address or direction (hold) begins the file anew.

use super::{
    super::{
        audio::{Sound, silence},
        tied::{Tied, free_ports},
    },
    ANSWER_WITHIN, LOOK_EVERY, Seen, Wide,
};
use std::{fmt::Write as _, path::Path, time::Duration};
use tempfile::TempDir;
use tokio::{
    io::{AsyncReadExt, AsyncWriteExt},
    net::{TcpStream, tcp::OwnedReadHalf, tcp::OwnedWriteHalf},
    sync::watch,
    time::{Instant, sleep, timeout},
};

/// Silence after what a phone says; no test talks longer than this after its last word.
const TAIL: Duration = Duration::from_secs(120);
const START_WITHIN: Duration = Duration::from_secs(10);
/// RTP and RTCP of one call; baresip takes them at random from its range.
const RTP_PORTS: u16 = 10;
/// Events are a few hundred bytes; more is not baresip.
const LONGEST_EVENT: usize = 64 * 1024;
/// Bytes before the samples in a WAV file as baresip writes it.
const WAV_HEADER: usize = 44;

/// The rate of a phone, and the codecs that it offers.
#[derive(Debug, Clone, Copy)]
struct Voice {
    rate: u32,
    /// As baresip calls them; nothing: G.711.
    codecs: &'static str,
    /// The module that has them.
    module: &'static str,
}

const NARROW: Voice = Voice { rate: 8000, codecs: "", module: "g711" };

impl Wide {
    const fn voice(self) -> Voice {
        match self {
            Self::G722 => Voice { rate: 16_000, codecs: "G722/16000/1", module: "g722" },
            Self::Opus => Voice { rate: 16_000, codecs: "opus/48000/2", module: "opus" },
        }
    }
}

pub struct Baresip {
    directory: TempDir,
    process: Tied,
    sip_port: u16,
    seen: watch::Receiver<Seen>,
    control: OwnedWriteHalf,
    sounds: u32,
    rate: u32,
}

impl Baresip {
    /// Calls `extension` at an Asterisk and says this, beginning when the call is answered, as a caller of this name and number.
    /// Does not wait for an answer.
    pub async fn call_as(asterisk_sip_port: u16, extension: &str, says: Sound, name: &str, number: &str) -> Self {
        let account = format!("\"{name}\" <sip:{number}@127.0.0.1>;regint=0\n");
        let mut phone = Self::start(&account, says).await;
        phone.command("dial", &format!("sip:{extension}@127.0.0.1:{asterisk_sip_port}")).await;
        phone
    }

    /// The same, from a phone that speaks one wideband codec alone. All of its sounds, those it says and those it has heard,
    /// are twice as slow and half as high as on the line.
    pub async fn call_wide(asterisk_sip_port: u16, extension: &str, says: Sound, codec: Wide) -> Self {
        let voice = codec.voice();
        let account = format!("\"Wide\" <sip:2025550199@127.0.0.1>;regint=0;audio_codecs={}\n", voice.codecs);
        let mut phone = Self::start_with(&account, says, voice).await;
        phone.command("dial", &format!("sip:{extension}@127.0.0.1:{asterisk_sip_port}")).await;
        phone
    }

    /// The same, from an account of that Asterisk's, by its name and password.
    pub async fn call_by(asterisk_sip_port: u16, extension: &str, says: Sound, account: (&str, &str)) -> Self {
        let (user, password) = account;
        let at = format!("127.0.0.1:{asterisk_sip_port}");
        let account = format!("<sip:{user}@{at}>;auth_user={user};auth_pass={password};regint=0\n");
        let mut phone = Self::start(&account, says).await;
        phone.command("dial", &format!("sip:{extension}@{at}")).await;
        phone
    }

    /// Waits for a call at `sip:phone@127.0.0.1:{Self::port}`, answers it at once, and says this.
    pub async fn listen(says: Sound) -> Self {
        Self::start("<sip:phone@127.0.0.1>;regint=0;answermode=auto\n", says).await
    }

    /// Waits for a call and lets it ring.
    pub async fn listen_without_answering() -> Self {
        Self::start("<sip:phone@127.0.0.1>;regint=0;answermode=manual\n", Sound::default()).await
    }

    /// Where this phone can be called. In the lab's dialplan, dial 8 and this port.
    pub fn port(&self) -> u16 {
        self.sip_port
    }

    pub fn seen(&self) -> Seen {
        self.seen.borrow().clone()
    }

    /// Presses a key: an RFC 4733 event in the call.
    pub async fn dtmf(&mut self, key: char) {
        self.command("sndcode", &key.to_string()).await;
    }

    /// Says this from now on, instead of what was left of the earlier words.
    pub async fn say(&mut self, words: Sound) {
        self.sounds += 1;
        let path = self.directory.path().join(format!("say{}.wav", self.sounds));
        (words + silence(TAIL)).write_wav_at(&path, self.rate);
        self.command("ausrc", &format!("aufile,{}", path.display())).await;
    }

    /// Puts the call on hold; what is heard begins anew. This phone may crash when it is told that it holds the call, so that its
    /// answer is not waited for, and it is good for nothing afterwards.
    pub async fn hold(&mut self) {
        self.send("hold", "").await;
    }

    /// Answers what rings here.
    pub async fn answer(&mut self) {
        self.command("accept", "").await;
    }

    /// Transfers the call blindly; the phone ends it when it is told that the transfer was accepted.
    pub async fn transfer(&mut self, asterisk_sip_port: u16, extension: &str) {
        self.command("transfer", &format!("sip:{extension}@127.0.0.1:{asterisk_sip_port}")).await;
    }

    /// Hangs up.
    pub async fn hang_up(&mut self) {
        self.command("hangup", "").await;
    }

    /// Gone without a word, as when a caller's network is lost.
    pub async fn vanish(&mut self) {
        self.process.kill().await;
    }

    /// What has been heard since the call was answered. While the call lasts, up to 210 ms ago.
    pub fn heard(&self) -> Sound {
        let file = std::fs::read(self.directory.path().join("heard.wav")).unwrap_or_default();
        // The sizes in the header are filled in only at the end.
        let samples = file.get(WAV_HEADER..).unwrap_or_default();
        Sound { samples: samples.chunks_exact(2).map(|pair| i16::from_le_bytes([pair[0], pair[1]])).collect() }
    }

    async fn start(account: &str, says: Sound) -> Self {
        Self::start_with(account, says, NARROW).await
    }

    async fn start_with(account: &str, says: Sound, voice: Voice) -> Self {
        let directory = TempDir::with_prefix("offhook-phone-").expect("a temporary directory");
        let path = directory.path();
        (says + silence(TAIL)).write_wav_at(&path.join("say0.wav"), voice.rate);
        // SIP by UDP and TCP, and one port further by TLS.
        let (sip_port, control_port, rtp) = (free_ports(2), free_ports(1), free_ports(RTP_PORTS));
        let config = configuration(path, sip_port, control_port, rtp, voice);
        for (name, text) in [("config", config.as_str()), ("accounts", account), ("contacts", "")] {
            std::fs::write(path.join(name), text).expect("a file in the test's own directory");
        }
        let path_text = path.to_str().expect("a temporary directory with an ordinary name");
        let mut process = Tied::start("baresip.sh", &[path_text], &[], path, &path.join("log"));
        let until = Instant::now() + START_WITHIN;
        let stream = loop {
            match TcpStream::connect(("127.0.0.1", control_port)).await {
                Ok(stream) => break stream,
                Err(_) if !process.has_ended() && Instant::now() < until => sleep(LOOK_EVERY).await,
                Err(error) => panic!("the phone did not start ({error}):\n{}", log_of(path)),
            }
        };
        let (reader, control) = stream.into_split();
        let (report, seen) = watch::channel(Seen::default());
        tokio::spawn(follow(reader, report));
        Self { directory, process, sip_port, seen, control, sounds: 0, rate: voice.rate }
    }

    /// Sends one command and waits until the phone has taken it.
    async fn command(&mut self, command: &str, params: &str) {
        let answers = self.seen.borrow().answers;
        self.send(command, params).await;
        let seen = self.wait("answer a command", ANSWER_WITHIN, |seen| seen.answers > answers).await;
        let (accepted, said) = seen.last_answer;
        assert!(accepted, "the phone refused {command} {params}: {said}\n{}", log_of(self.directory.path()));
    }

    async fn send(&mut self, command: &str, params: &str) {
        let message = serde_json::json!({ "command": command, "params": params }).to_string();
        let framed = format!("{}:{message},", message.len());
        if let Err(error) = self.control.write_all(framed.as_bytes()).await {
            panic!("the phone is gone ({error}):\n{}", log_of(self.directory.path()));
        }
    }

    pub async fn wait(&mut self, what: &str, within: Duration, is_so: impl Fn(&Seen) -> bool) -> Seen {
        let reached =
            timeout(within, self.seen.wait_for(|seen| is_so(seen))).await.map(|seen| seen.map(|seen| seen.clone()));
        match reached {
            Ok(Ok(seen)) => seen,
            Ok(Err(_)) => panic!("the phone went away before it could {what}:\n{}", log_of(self.directory.path())),
            Err(_) => panic!("the phone did not {what} within {within:?}; it has seen {:?}", self.seen()),
        }
    }
}

impl Drop for Baresip {
    fn drop(&mut self) {
        if std::thread::panicking() {
            eprintln!("--- phone on port {}\n{}", self.sip_port, log_of(self.directory.path()));
        }
    }
}

fn configuration(directory: &Path, sip_port: u16, control_port: u16, rtp: u16, voice: Voice) -> String {
    let directory = directory.display();
    let Voice { rate, module, .. } = voice;
    let mut text = String::new();
    for line in [
        format!("sip_listen 127.0.0.1:{sip_port}"),
        format!("ctrl_tcp_listen 127.0.0.1:{control_port}"),
        format!("rtp_ports {rtp}-{}", rtp + RTP_PORTS - 1),
        format!("audio_source aufile,{directory}/say0.wav"),
        format!("audio_player aufile,{directory}/heard.wav"),
        format!("audio_alert aufile,{directory}/alert.wav"),
        format!("ausrc_srate {rate}\nausrc_channels 1\nauplay_srate {rate}\nauplay_channels 1"),
        // On the loopback packets come in order; a jitter buffer would only blur the times by 100 ms.
        "jitter_buffer_type off\naudio_buffer 40-400".to_owned(),
        "poll_method epoll\ncall_max_calls 1".to_owned(),
        // Its own ringing and busy tones would be written over the recording, and a player that is stopped
        // right after its start, as by an answer to the first ring, can crash baresip (its PR 2917).
        format!("ringback_disabled yes\naudio_path {directory}/no-tones"),
        format!("module {module}.so\nmodule aufile.so"),
        "module_app account.so\nmodule_app menu.so\nmodule_app ctrl_tcp.so".to_owned(),
    ] {
        writeln!(text, "{line}").expect("writing to a String");
    }
    text
}

fn log_of(directory: &Path) -> String {
    let log = std::fs::read(directory.join("log")).unwrap_or_default();
    // The progress line is rewritten many times a second; what came before each carriage return is noise.
    String::from_utf8_lossy(&log)
        .lines()
        .map(|line| line.rsplit('\r').next().unwrap_or(line))
        .collect::<Vec<_>>()
        .join("\n")
}

/// Reads netstrings of JSON until the phone closes, and notes what they tell.
async fn follow(mut reader: OwnedReadHalf, report: watch::Sender<Seen>) {
    let mut pending = Vec::new();
    loop {
        while let Some(message) = next_netstring(&mut pending) {
            let Ok(event) = serde_json::from_slice::<serde_json::Value>(&message) else { continue };
            report.send_modify(|seen| note(seen, &event));
        }
        match reader.read_buf(&mut pending).await {
            Ok(1..) if pending.len() <= LONGEST_EVENT => {}
            _ => return,
        }
    }
}

/// Takes one `LENGTH:BYTES,` from the front, if it is all there.
fn next_netstring(pending: &mut Vec<u8>) -> Option<Vec<u8>> {
    let colon = pending.iter().position(|&byte| byte == b':')?;
    let length: usize = std::str::from_utf8(&pending[..colon]).ok()?.parse().ok()?;
    if pending.len() < colon + 1 + length + 1 {
        return None;
    }
    let message = pending[colon + 1..colon + 1 + length].to_vec();
    pending.drain(..colon + 1 + length + 1);
    Some(message)
}

fn note(seen: &mut Seen, event: &serde_json::Value) {
    let text = |name: &str| event[name].as_str().unwrap_or_default().to_owned();
    if event["response"] == true {
        seen.answers += 1;
        seen.last_answer = (event["ok"] == true, text("data"));
        return;
    }
    if event["direction"] == "incoming" {
        seen.peer = (text("peerdisplayname"), text("peeruri"));
    }
    match event["type"].as_str().unwrap_or_default() {
        "CALL_RINGING" | "CALL_INCOMING" => seen.ringing |= seen.established.is_none(),
        "CALL_DTMF_START" => seen.keys.push_str(&text("param")),
        "CALL_ESTABLISHED" => seen.established = Some(Instant::now()),
        "CALL_CLOSED" => seen.ended = Some((Instant::now(), text("param"))),
        _ => {}
    }
}
