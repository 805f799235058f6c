//! Lines that bring the agent back to the engine: it is not stopped by itself, and where a caller's voice cannot be told
//! from it, nobody is stopped by voice. What is heard here is a real voice: tones are no speech, and set nothing off.

use crate::providers::{
    agents::Agents,
    desk::{Desk, Setting, has_heard_since},
    ear::{Caller, Echo},
    kit::{
        audio::Sound,
        spoken,
        vendor::{Dialect, Scenario},
    },
    ms,
    turns::QUESTION,
};
use std::{
    ops::{Range, RangeInclusive},
    sync::OnceLock,
    time::Duration,
};

/// As late as by two mobile networks.
const AFTER: Duration = ms(160);
/// A good telephone's, and that of a loudspeaker beside the microphone.
const WEAK: Echo = Echo { after: AFTER, loss_db: 18.0 };
const HEAVY: Echo = Echo { after: AFTER, loss_db: 3.0 };
/// How often it is taken for a voice until it is known, in the first seconds.
const ALARMS: RangeInclusive<f64> = 1.0..=6.0;
/// Longer than any pause in what the agent says.
const SILENT: Duration = ms(1_000);
/// From the caller's first sound until the agent must not be heard any more: the line has an echo, so that it may take longer
/// than on others.
const SILENCED_WITHIN: Duration = ms(400);

/// Six seconds and more of an agent's voice, at 8 kHz.
async fn voice() -> &'static [i16] {
    static VOICE: OnceLock<Vec<i16>> = OnceLock::new();
    let words = "We are open from Monday to Friday between nine in the morning and five in the afternoon, on Saturday \
                 until noon, and on Sunday we are closed all day long, but you can always leave a message after the tone";
    let rendered = spoken::says(words, "en-us").await;
    VOICE.get_or_init(|| rendered)
}

/// How long it is audible.
fn audible(voice: &[i16]) -> Duration {
    let frames = voice.chunks(160).filter(|frame| !Sound { samples: frame.to_vec() }.is_silent());
    ms(20) * u32::try_from(frames.count()).expect("seconds")
}

/// The agent speaks, and is heard to its end; from when to when.
async fn is_heard_to_the_end(caller: &Caller, since: Duration) -> Range<Duration> {
    let whole = audible(voice().await);
    caller.until("the agent is heard", |tape| tape.loud_time(since..tape.now()) >= whole.mul_f64(0.85)).await;
    caller.hears_nothing_for(SILENT).await;
    let (heard, story) = caller.look(|tape| (tape.loud_time(since..tape.now()), format!("{tape:?}")));
    assert!(heard <= whole.mul_f64(1.15), "once: {heard:?} of {whole:?}; {story}");
    since..caller.now() - SILENT
}

/// Agents with that voice, who understand the caller's question, and a caller with such a line.
struct Line {
    agents: Agents,
    desk: Desk,
    caller: Caller,
}

impl Line {
    async fn of<D: Dialect>(echo: Echo) -> Self {
        Self::with(echo, Agents::of::<D>(scenario().await).await).await
    }

    async fn of_stages(echo: Echo) -> Self {
        Self::with(echo, Agents::of_stages(scenario().await).await).await
    }

    async fn with(echo: Echo, agents: Agents) -> Self {
        let desk = agents.desk(Setting::default()).await;
        let caller = desk.call().await;
        caller.has_echo(Some(echo));
        Self { agents, desk, caller }
    }

    /// The agent says something of its own accord; since when, and so much of it is heard.
    async fn speaks(&self, heard: Duration) -> Duration {
        let since = self.caller.now();
        self.agents.speaks(&self.desk);
        self.caller.until("the agent speaks", |tape| tape.loud_time(since..tape.now()) >= heard).await;
        since
    }

    fn story(&self) -> String {
        self.caller.look(|tape| format!("{tape:?}"))
    }

    async fn is_over(&self) {
        self.desk.ends_with(&self.caller).await;
        self.agents.is_content();
    }
}

async fn scenario() -> Scenario {
    Scenario { words: Some(voice().await), caller_words: QUESTION, ..Scenario::default() }
}

pub async fn an_agent_is_not_stopped_by_its_own_echo<D: Dialect>() {
    is_not_stopped(Line::of::<D>(WEAK).await).await;
}

pub async fn a_line_of_heavy_echo_is_half_duplex_until_it_is_gone<D: Dialect>() {
    is_half_duplex(Line::of::<D>(HEAVY).await).await;
}

/// The same of a pipeline.
pub mod of_stages {
    use super::{HEAVY, Line, WEAK, is_half_duplex, is_not_stopped};

    pub async fn an_agent_is_not_stopped_by_its_own_echo() {
        is_not_stopped(Line::of_stages(WEAK).await).await;
    }

    pub async fn a_line_of_heavy_echo_is_half_duplex_until_it_is_gone() {
        is_half_duplex(Line::of_stages(HEAVY).await).await;
    }
}

/// And a caller is heard through it.
async fn is_not_stopped(line: Line) {
    let Line { agents, desk, caller } = &line;
    is_heard_to_the_end(caller, ms(0)).await;
    assert!(agents.was_left_alone(), "{:?}; {}", agents.texts(), line.story());
    let alarms = desk.metric("offhook_false_alarms_total");
    assert!(ALARMS.contains(&alarms), "it sounds like a voice, until it is known: {alarms}; {}", line.story());
    line.speaks(ms(1_500)).await;
    let more = desk.metric("offhook_false_alarms_total") - alarms;
    assert!(more <= 1.0, "now it is known: {more}; {}", line.story());
    is_interrupted(caller).await;
    assert_eq!(desk.metric("offhook_half_duplex_total"), 0.0);
    assert_eq!(agents.conversation().0, 1, "{:?}; {}", agents.texts(), line.story());
    line.is_over().await;
}

/// By the caller, who is answered.
async fn is_interrupted(caller: &Caller) {
    caller.says(QUESTION).await;
    let said = caller.has_spoken().await;
    let (over, story) = caller
        .look(|tape| (tape.loud_time(said.start + SILENCED_WITHIN..said.end.min(tape.now())), format!("{tape:?}")));
    assert_eq!(over, ms(0), "it is spoken over: {story}");
    caller.until("the caller is answered", |tape| tape.loud_time(said.end..tape.now()) >= ms(1_000)).await;
}

/// By measurement, and not for ever: who speaks over the agent is not let in, who speaks when it has ended is; and when the
/// echo is gone, so is that.
async fn is_half_duplex(line: Line) {
    let Line { agents, desk, caller } = &line;
    is_heard_to_the_end(caller, ms(0)).await;
    assert_eq!(desk.metric("offhook_half_duplex_total"), 1.0, "it is found in the first answer: {}", line.story());
    let since = line.speaks(ms(1_000)).await;
    caller.says(QUESTION).await;
    caller.has_spoken().await;
    is_heard_to_the_end(caller, since).await;
    assert!(agents.was_left_alone(), "{:?}; {}", agents.texts(), line.story());
    // The agent is silent.
    let before = agents.listens().of(1, |seen| seen.audio.len());
    caller.says(QUESTION).await;
    let said = caller.has_spoken().await;
    caller.has_echo(None);
    is_heard_to_the_end(caller, said.end).await;
    assert_eq!(agents.conversation(), (1, 3, 0), "{:?}; {}", agents.texts(), line.story());
    has_heard_since("who listens", agents.listens(), 1, before, caller);
    // Four seconds without an echo have passed in that answer.
    line.speaks(ms(1_000)).await;
    is_interrupted(caller).await;
    line.is_over().await;
}
