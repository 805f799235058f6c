//! The script's course through one call, without I/O and without a clock of its own.
//!
//! Two things go on side by side: the script's own step ([`Doing`]), and the line that is being
//! spoken ([`Mouth`]), which may also be something the call asked to be said.

use super::{
    ears::Ears,
    options::{Call, OnInterrupt, Options, Pace, Step, TEXT_CHARS_MAX},
    speech::{self, Speech},
    words::FromAgent,
};
use crate::audio::{Activity, FRAME, Format};
use bytes::Bytes;
use serde_json::{Map, Value};
use std::{
    collections::VecDeque,
    sync::Arc,
    time::{Duration, Instant},
};

/// Things the call asked to be said that wait for their turn. It asks for one at a time.
const ASIDES_MAX: usize = 4;
/// Speech goes out in pieces of at most this length when it is not paced.
const BURST_FRAMES: usize = 50;

#[derive(Debug)]
pub(super) enum Input {
    Greet {
        text: Option<String>,
    },
    Say {
        text: String,
    },
    Tell {
        text: String,
    },
    /// A turn of the caller, whatever it says.
    Written,
    Interrupt {
        answer: u64,
        heard: Duration,
        cancel: bool,
    },
    ToolResult {
        call_id: String,
        /// What a script can say of it.
        words: Option<String>,
        /// The call waits for the agent's words now.
        speak: bool,
    },
    Audio(Bytes),
    /// The line of this answer has been rendered.
    Rendered {
        answer: u64,
        audio: Bytes,
    },
}

#[derive(Debug, PartialEq, Eq)]
pub(super) enum Output {
    Send(FromAgent),
    Audio {
        answer: u64,
        audio: Bytes,
    },
    Render {
        answer: u64,
        text: String,
        /// It may be said again, in this call or another.
        keep: bool,
    },
    /// Say no more and hear no more.
    End,
    /// Stop reading, but stay.
    Stall,
}

pub(super) struct Actor {
    options: Arc<Options>,
    speech: Arc<Speech>,
    format: Format,
    ears: Ears,
    doing: Doing,
    mouth: Option<Mouth>,
    asides: VecDeque<Line>,
    /// The last line of the script itself, for `on_interrupt: repeat`.
    last_line: Option<(u64, Line)>,
    /// The caller took the floor; until they are quiet nothing is begun.
    yielded: bool,
    /// When the caller will have heard all that was delivered.
    heard_out_at: Instant,
    answers: u64,
    calls: u64,
}

#[derive(Debug)]
enum Doing {
    /// Waiting for the word to greet.
    Nothing,
    Saying,
    Listening {
        next: usize,
        until: Option<Instant>,
        heard: bool,
    },
    Pausing {
        next: usize,
        until: Instant,
    },
    Calling {
        next: usize,
        call_id: String,
        /// Says what comes of it.
        speaks: bool,
    },
    /// The tool ends the call; the script goes on only if the call comes back.
    Resting {
        next: usize,
    },
    Echoing {
        next: usize,
        until: Instant,
        answer: u64,
    },
    /// Says the line as soon as nobody speaks.
    AboutToSay(Line),
    /// A fault: answers nothing any more.
    Mute,
    /// The script is over.
    Finished,
}

#[derive(Debug, Clone)]
struct Line {
    /// What the transcript shows.
    text: String,
    sound: Sound,
    /// Where the script goes on after it; `None` for what the call asked for.
    next: Option<usize>,
    hangs_up: bool,
}

#[derive(Debug, Clone)]
enum Sound {
    Words,
    /// A tool's words: the caller's own business, and hardly ever the same twice.
    WordsOnce,
    Ready(Bytes),
}

struct Mouth {
    answer: u64,
    line: Line,
    /// `None` while the line is being rendered.
    audio: Option<Bytes>,
    sent: usize,
    next_at: Instant,
}

impl Actor {
    pub(super) fn new(options: Arc<Options>, speech: Arc<Speech>, format: Format, now: Instant) -> Self {
        let ears = Ears::new(&options.detector, format, now);
        Self {
            options,
            speech,
            format,
            ears,
            doing: Doing::Nothing,
            mouth: None,
            asides: VecDeque::new(),
            last_line: None,
            yielded: false,
            heard_out_at: now,
            answers: 0,
            calls: 0,
        }
    }

    pub(super) fn step(&mut self, input: Input, now: Instant, out: &mut Vec<Output>) {
        if matches!(self.doing, Doing::Mute) {
            return;
        }
        match input {
            Input::Greet { text } if matches!(self.doing, Doing::Nothing) => self.greet(text, now, out),
            Input::Tell { .. } if matches!(self.doing, Doing::Nothing) => self.greet(None, now, out),
            Input::Greet { text: None } => {}
            // A script acts upon nothing, so it says what it was told.
            Input::Greet { text: Some(text) } | Input::Say { text } | Input::Tell { text } => {
                if let Doing::Resting { next } = self.doing {
                    self.begin(next, now, out);
                }
                if self.asides.len() < ASIDES_MAX {
                    self.asides.push_back(Line { text, sound: Sound::Words, next: None, hangs_up: false });
                }
            }
            Input::Written => {
                self.give_way(now, out);
                if let Doing::Listening { next, .. } = self.doing {
                    self.begin(next, now, out);
                }
            }
            Input::Interrupt { answer, heard, cancel } => self.interrupted(answer, heard, cancel, now, out),
            Input::ToolResult { call_id, words, speak } => match &self.doing {
                Doing::Calling { next, call_id: awaited, speaks } if *awaited == call_id => {
                    let next = *next;
                    let words = words.filter(|_| *speaks);
                    if let (Some(text), true) = (words, speak || self.ears.hear_speech()) {
                        self.yielded |= self.ears.hear_speech();
                        let text = text.chars().take(TEXT_CHARS_MAX).collect();
                        self.wait_to_speak(text, Sound::WordsOnce, next, false);
                    } else if speak {
                        self.begin(next, now, out);
                    } else if self.ears.hear_speech() {
                        // The caller is answered when they have finished.
                        self.doing = Doing::Listening { next, until: None, heard: true };
                    } else {
                        self.doing = Doing::Resting { next };
                    }
                }
                _ => {}
            },
            Input::Audio(audio) => self.hear(&audio, now, out),
            Input::Rendered { answer, audio } => {
                if let Some(mouth) = self.mouth.as_mut().filter(|mouth| mouth.answer == answer) {
                    mouth.audio = Some(audio);
                    mouth.next_at = now;
                }
            }
        }
        self.settle(now, out);
    }

    /// When [`on_deadline`](Self::on_deadline) wants to be called.
    pub(super) fn deadline(&self) -> Option<Instant> {
        let speaking = self.mouth.as_ref().filter(|mouth| mouth.audio.is_some()).map(|mouth| mouth.next_at);
        let waiting = match &self.doing {
            Doing::Listening { until, .. } => *until,
            Doing::Pausing { until, .. } | Doing::Echoing { until, .. } => Some(*until),
            _ => None,
        };
        speaking.into_iter().chain(waiting).min()
    }

    pub(super) fn on_deadline(&mut self, now: Instant, out: &mut Vec<Output>) {
        match &self.doing {
            Doing::Listening { next, until: Some(until), .. } | Doing::Pausing { next, until } if *until <= now => {
                self.begin(*next, now, out);
            }
            Doing::Echoing { next, until, answer } if *until <= now => {
                let (next, answer) = (*next, *answer);
                self.end_answer(answer, false, out);
                self.begin(next, now, out);
            }
            _ => {}
        }
        self.settle(now, out);
    }

    fn greet(&mut self, text: Option<String>, now: Instant, out: &mut Vec<Output>) {
        let Some(text) = text else { return self.begin(0, now, out) };
        let replaces_first = matches!(self.options.script.first(), Some(Step::Say(_) | Step::Tone(_)));
        let line = Line { text, sound: Sound::Words, next: Some(usize::from(replaces_first)), hangs_up: false };
        self.speak(line, now, out);
    }

    /// Goes to the step of this number.
    fn begin(&mut self, number: usize, now: Instant, out: &mut Vec<Output>) {
        let Some(step) = self.options.script.get(number) else {
            self.doing = Doing::Finished;
            return;
        };
        let next = number + 1;
        // What was said last is waited for: the caller hears it at the pace of speech.
        let quiet_at = self.heard_out_at.max(now);
        match step.clone() {
            Step::Say(text) => self.wait_to_speak(text, Sound::Words, next, false),
            Step::HangUp(text) => self.wait_to_speak(text, Sound::Words, next, true),
            Step::Tone(tone) => {
                let text = format!("(a tone of {} Hz)", tone.hertz);
                self.wait_to_speak(text, Sound::Ready(speech::tone_of(tone, self.format)), next, false);
            }
            Step::Listen(listen) => {
                let until = listen.unwrap_or_default().timeout.map(|timeout| quiet_at + timeout.0);
                self.doing = Doing::Listening { next, until, heard: self.ears.hear_speech() };
            }
            Step::Pause(span) => self.doing = Doing::Pausing { next, until: quiet_at + span.0 },
            Step::Repeat => self.doing = Doing::Pausing { next: 0, until: quiet_at },
            Step::Call(Call { tool, arguments, speak }) => {
                let answer = self.start_answer(out);
                self.call(tool, arguments, next, speak, out);
                out.push(Output::Send(FromAgent::Done { answer, cancelled: false }));
            }
            Step::Echo(span) => {
                let answer = self.start_answer(out);
                self.doing = Doing::Echoing { next, until: now + span.0, answer };
            }
            Step::Close(_) => {
                self.doing = Doing::Mute;
                out.push(Output::End);
            }
            Step::Silence => self.doing = Doing::Mute,
            Step::Stall => {
                self.doing = Doing::Mute;
                out.push(Output::Stall);
            }
        }
    }

    /// A line of the script begins as soon as nobody speaks; see [`settle`](Self::settle).
    fn wait_to_speak(&mut self, text: String, sound: Sound, next: usize, hangs_up: bool) {
        self.doing = Doing::AboutToSay(Line { text, sound, next: Some(next), hangs_up });
    }

    /// Delivers what is due and begins what may begin, until nothing changes any more.
    fn settle(&mut self, now: Instant, out: &mut Vec<Output>) {
        loop {
            if self.mouth.is_some() {
                if !self.deliver(now, out) {
                    return;
                }
            } else if self.yielded {
                return;
            } else if let Some(line) = self.asides.pop_front() {
                self.speak(line, now, out);
            } else if let Doing::AboutToSay(line) = &self.doing {
                let line = line.clone();
                self.speak(line, now, out);
            } else {
                return;
            }
        }
    }

    fn speak(&mut self, line: Line, now: Instant, out: &mut Vec<Output>) {
        let answer = self.start_answer(out);
        let audio = match &line.sound {
            Sound::Ready(audio) => Some(audio.clone()),
            Sound::Words | Sound::WordsOnce => self.speech.at_once(&line.text, self.format),
        };
        if audio.is_none() {
            let keep = !matches!(line.sound, Sound::WordsOnce);
            out.push(Output::Render { answer, text: line.text.clone(), keep });
        }
        if line.next.is_some() {
            self.doing = Doing::Saying;
            self.last_line = Some((answer, line.clone()));
        }
        self.mouth = Some(Mouth { answer, line, audio, sent: 0, next_at: now });
    }

    /// Sends what is due of the line; true when that was its end.
    fn deliver(&mut self, now: Instant, out: &mut Vec<Output>) -> bool {
        let Some(Mouth { answer, audio: Some(audio), sent, next_at, .. }) = &mut self.mouth else { return false };
        let (frames, every) = match self.options.pace {
            Pace::Times(times) => (times as usize, FRAME),
            Pace::Named(_) => (BURST_FRAMES, Duration::ZERO),
        };
        while *next_at <= now && *sent < audio.len() {
            let end = (*sent + frames * self.format.frame_bytes()).min(audio.len());
            out.push(Output::Audio { answer: *answer, audio: audio.slice(*sent..end) });
            *sent = end;
            *next_at += every;
        }
        let ended = *sent == audio.len();
        if ended {
            self.finish_line(now, out);
        }
        ended
    }

    fn finish_line(&mut self, now: Instant, out: &mut Vec<Output>) {
        let Some(Mouth { answer, line, audio, .. }) = self.mouth.take() else { return };
        // Paced speech is heard while it is delivered, and some of it before this moment.
        let length = self.format.duration_of(audio.map_or(0, |audio| audio.len()));
        let delivered_in = match self.options.pace {
            Pace::Times(times) => length / times.max(1),
            Pace::Named(_) => Duration::ZERO,
        };
        self.heard_out_at = self.heard_out_at.max(now) + length.saturating_sub(delivered_in);
        out.push(Output::Send(FromAgent::Said { text: line.text }));
        if line.hangs_up {
            self.call("hangup_call".into(), Map::new(), line.next.unwrap_or(usize::MAX), false, out);
        }
        out.push(Output::Send(FromAgent::Done { answer, cancelled: false }));
        if let (Some(next), false) = (line.next, line.hangs_up) {
            self.begin(next, now, out);
        }
    }

    fn call(&mut self, tool: String, arguments: Map<String, Value>, next: usize, speaks: bool, out: &mut Vec<Output>) {
        self.calls += 1;
        let call_id = format!("call-{}", self.calls);
        let arguments = Value::Object(arguments).to_string();
        out.push(Output::Send(FromAgent::Called { id: call_id.clone(), name: tool, arguments }));
        self.doing = Doing::Calling { next, call_id, speaks };
    }

    fn hear(&mut self, audio: &Bytes, now: Instant, out: &mut Vec<Output>) {
        let activity = self.ears.push(audio);
        // Its own echo is no interruption.
        if let Doing::Echoing { answer, .. } = self.doing {
            out.push(Output::Audio { answer, audio: audio.clone() });
            return;
        }
        for activity in activity {
            match activity {
                Activity::Started => {
                    out.push(Output::Send(FromAgent::SpeechStarted));
                    if let Doing::Listening { heard, .. } = &mut self.doing {
                        *heard = true;
                    }
                    self.give_way(now, out);
                }
                Activity::Stopped => {
                    out.push(Output::Send(FromAgent::SpeechStopped));
                    self.yielded = false;
                    if let Doing::Listening { next, heard: true, .. } = self.doing {
                        self.begin(next, now, out);
                    }
                }
            }
        }
    }

    /// The call tells that a line was cut short; what was delivered early is then not heard either.
    fn interrupted(&mut self, answer: u64, heard: Duration, cancel: bool, now: Instant, out: &mut Vec<Output>) {
        self.heard_out_at = self.heard_out_at.min(now);
        let speaking = self.mouth.as_ref().is_some_and(|mouth| mouth.answer == answer);
        if speaking && cancel {
            return self.give_way(now, out);
        }
        let listening = matches!(self.doing, Doing::Listening { .. });
        if self.options.on_interrupt == OnInterrupt::Repeat && listening && !speaking {
            let Some((_, line)) = self.last_line.take_if(|(last, _)| *last == answer) else { return };
            tracing::trace!(?heard, "the last line is said again");
            self.yielded = self.ears.hear_speech();
            self.doing = Doing::AboutToSay(line);
        }
    }

    /// Stops speaking in favour of the caller.
    fn give_way(&mut self, now: Instant, out: &mut Vec<Output>) {
        let Some(Mouth { answer, line, audio, sent, .. }) = self.mouth.take() else { return };
        self.yielded = self.ears.hear_speech();
        self.heard_out_at = now;
        let said = beginning(&line.text, sent, audio.map_or(0, |audio| audio.len()));
        if !said.is_empty() {
            out.push(Output::Send(FromAgent::Said { text: said }));
        }
        self.end_answer(answer, true, out);
        let Some(next) = line.next else { return };
        if line.hangs_up || self.options.on_interrupt == OnInterrupt::Repeat {
            self.doing = Doing::AboutToSay(line);
        } else {
            self.begin(next, now, out);
        }
    }

    fn start_answer(&mut self, out: &mut Vec<Output>) -> u64 {
        self.answers += 1;
        out.push(Output::Send(FromAgent::Started { answer: self.answers }));
        self.answers
    }

    fn end_answer(&self, answer: u64, cancelled: bool, out: &mut Vec<Output>) {
        out.push(Output::Send(FromAgent::Done { answer, cancelled }));
    }
}

/// The part of a line that `sent` of `total` bytes have spoken, in whole words.
fn beginning(text: &str, sent: usize, total: usize) -> String {
    let words: Vec<&str> = text.split_whitespace().collect();
    let spoken = (words.len() * sent.min(total)).checked_div(total).unwrap_or(0);
    if spoken == 0 {
        return String::new();
    }
    format!("{} …", words[..spoken].join(" "))
}
