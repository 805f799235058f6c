//! How callers fare, by human recordings: the scenes, their figures, and the bars. Each [`Script`] is one whole call, in which
//! the engine alone decides what the agent hears, says and is asked.

use super::{
    conversation::{Background, Conversation, Script, When, play},
    lines::Line,
    recordings::{Cut, Half, Recording, Sound, Use},
    stand_in::Kind,
};
use std::time::{Duration, Instant};

/// Milliseconds from the audible end of the agent's question to the begin of a short answer.
const EARLY: [i64; 2] = [-600, -450];
const PROMPT: [i64; 7] = [-300, -150, 0, 150, 300, 450, 600];
const SHORT_MS_MAX: usize = 750;
/// A short answer that the agent has not answered by then was lost.
const ANSWERED_WITHIN: Duration = Duration::from_secs(3);
const SPELLED: usize = 6;
/// The agent's words before them, as a provider tells them.
const ASKS_TO_SPELL: &str = "Could you spell that for me, please?";
/// An interruption that is heard later than this after its onset was missed.
const NOTICED_WITHIN: Duration = Duration::from_millis(1_500);
/// Length of a sound over the agent, and when in the call it begins.
const OVER_MS: i64 = 10_000;
const OVER_FROM_MS: i64 = 1_000;
/// Level of the set's recordings that are no speech of a caller, in dBFS.
const BACKGROUND_DBFS: f32 = -30.0;

#[derive(Debug, Clone, Copy, PartialEq)]
pub enum Bar {
    AtLeast(f64),
    AtMost(f64),
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Unit {
    Percent,
    Ms,
    Times,
}

/// One line of the table.
#[derive(Debug, Clone)]
pub struct Row {
    pub what: String,
    pub scenes: usize,
    pub figure: f64,
    pub unit: Unit,
    pub bar: Bar,
}

impl Row {
    fn share(what: String, outcomes: &[bool], least: f64) -> Self {
        let reached = outcomes.iter().filter(|outcome| **outcome).count();
        let figure = reached as f64 * 100.0 / outcomes.len().max(1) as f64;
        Self { what, scenes: outcomes.len(), figure, unit: Unit::Percent, bar: Bar::AtLeast(least) }
    }

    /// The `percent`-th percentile of times; what never came is later than everything.
    fn percentile(what: String, times: &[Option<Duration>], percent: usize, most: f64) -> Self {
        let mut ms: Vec<f64> = times.iter().map(|at| at.map_or(f64::INFINITY, |at| at.as_secs_f64() * 1e3)).collect();
        ms.sort_by(f64::total_cmp);
        let rank = (ms.len() * percent).div_ceil(100).max(1);
        let figure = ms.get(rank - 1).copied().unwrap_or(f64::INFINITY);
        Self { what, scenes: ms.len(), figure, unit: Unit::Ms, bar: Bar::AtMost(most) }
    }

    /// A bar that has no scenes is not reached.
    pub fn reached(&self) -> bool {
        let within = match self.bar {
            Bar::AtLeast(least) => self.figure >= least,
            Bar::AtMost(most) => self.figure <= most,
        };
        within && self.scenes > 0
    }

    pub fn shown(&self) -> String {
        show(self.figure, self.unit)
    }

    pub fn shown_bar(&self) -> String {
        match self.bar {
            Bar::AtLeast(least) => format!("≥ {}", show(least, self.unit)),
            Bar::AtMost(most) => format!("≤ {}", show(most, self.unit)),
        }
    }
}

fn show(figure: f64, unit: Unit) -> String {
    match unit {
        _ if figure.is_infinite() => "never".into(),
        Unit::Percent => format!("{figure:.0} %"),
        Unit::Ms => format!("{figure:.0} ms"),
        Unit::Times => format!("{figure:.0}"),
    }
}

/// One half of the set, and a kind of agent.
pub struct People<'a> {
    pub set: &'a [Recording],
    pub half: Half,
    pub kind: Kind,
    /// Every `step`-th scene about words and sentences is played: 1 plays all of them.
    pub step: usize,
    pub start: Instant,
}

impl<'a> People<'a> {
    pub fn rows(&self) -> Vec<Row> {
        let mut rows = Vec::from(self.short_answers());
        rows.extend(self.spelled());
        rows.extend(self.cut(Cut::Phrase, [95.0, 85.0, 70.0], false));
        rows.extend(self.cut(Cut::Pause, [90.0, 40.0, 20.0], false));
        if self.kind == Kind::Pipeline {
            rows.extend(self.cut(Cut::Pause, [90.0, 40.0, 20.0], true));
        }
        rows.extend(self.complete_sentences());
        rows.extend(Line::HARD.into_iter().flat_map(|line| self.hard_line(line)));
        rows.extend(self.agent_over_background());
        rows.extend(self.sentences_over_background());
        rows.extend(self.background_alone());
        rows.extend(self.interruptions());
        rows.extend(self.noises());
        rows
    }

    fn pick(&self, which: impl Fn(&Recording) -> bool) -> Vec<&'a Recording> {
        self.set.iter().filter(|one| one.half == self.half && which(one)).step_by(self.step).collect()
    }

    /// All of one use, whatever the step.
    fn every(&self, used_as: Use) -> Vec<&'a Recording> {
        self.set.iter().filter(|one| one.half == self.half && one.used_as == used_as).collect()
    }

    fn whole_sentences(&self) -> Vec<&'a Recording> {
        self.pick(|one| {
            let long = (1_000..5_000).contains(&one.sound.ms());
            matches!(one.used_as, Use::Turn | Use::Prose) && one.cut == Cut::Whole && long
        })
    }

    /// Two sentences of another voice than the caller's: the agent's greeting and its answer.
    fn agent(&self, number: usize, caller: &str) -> [&'a Sound; 2] {
        let of_agent = |one: &&Recording| {
            let short = (1_500..3_000).contains(&one.sound.ms());
            one.used_as == Use::Turn && one.cut == Cut::Whole && short && one.speaker != caller
        };
        let all: Vec<&Recording> = self.set.iter().filter(of_agent).collect();
        [number * 2, number * 2 + 1].map(|number| &all[number % all.len()].sound)
    }

    /// What an agent says that does not stop: some sentences of one voice without the pauses between and in them.
    fn monologue(&self, caller: &str) -> Sound {
        let sentences = self.set.iter().filter(|one| one.used_as == Use::Turn && one.cut == Cut::Whole);
        let voice = sentences.clone().map(|one| &one.speaker).find(|speaker| *speaker != caller);
        let mut samples = Vec::new();
        for one in sentences.filter(|one| Some(&one.speaker) == voice) {
            samples.extend(one.sound.without_pauses());
        }
        samples.truncate(8 * (OVER_FROM_MS + OVER_MS + 4_000) as usize);
        Sound { samples, text: String::new() }
    }

    fn play(&self, agent: [&Sound; 2], said: &[(When, &Sound)], more: More) -> Conversation {
        let said = said.to_vec();
        let More { background, line, full_stops, question, lasts_ms } = more;
        let lasts = Duration::from_millis(lasts_ms);
        play(&Script { kind: self.kind, agent, question, said, background, line, full_stops, lasts }, self.start)
    }

    // ---- Callers who answer, spell, pause ----

    fn short_answers(&self) -> [Row; 2] {
        let words = self.pick(|one| one.used_as == Use::Word && one.sound.ms() <= SHORT_MS_MAX);
        let sentences = self.whole_sentences();
        let answered = |moments: &[i64]| {
            let mut outcomes = Vec::new();
            for (number, word) in words.iter().enumerate() {
                for (moment, &ms) in moments.iter().enumerate() {
                    let [greeting, answer] = self.agent(number + moment, &word.speaker);
                    // Into the greeting and into a later question by turns.
                    let first = (When::AgentsEnd(0, 600), &sentences[number % sentences.len()].sound);
                    let later = (number + moment) % 2 == 1;
                    let said = match later {
                        true => vec![first, (When::AgentsEnd(1, ms), &word.sound)],
                        false => vec![(When::AgentsEnd(0, ms), &word.sound)],
                    };
                    let call = self.play([greeting, answer], &said, More::default());
                    let question_ends = call.said.last().map(|said| said.end.max(said.start + early(ms)));
                    let at = call.answer_to(said.len() - 1);
                    outcomes.push(at.zip(question_ends).is_some_and(|(at, end)| at <= end + ANSWERED_WITHIN));
                }
            }
            outcomes
        };
        let what = |from: i64, to: i64| format!("short answers {from:+} … {to:+} ms from the question's end: answered");
        [
            Row::share(what(EARLY[0], EARLY[1]), &answered(&EARLY), 100.0),
            Row::share(what(PROMPT[0], PROMPT[6]), &answered(&PROMPT), 100.0),
        ]
    }

    fn spelled(&self) -> Vec<Row> {
        let mut all = self.set.iter().filter(|one| one.half == self.half).collect::<Vec<_>>();
        all.retain(|one| matches!(one.used_as, Use::Letter | Use::Digit));
        all.sort_by_key(|one| (&one.speaker, one.used_as == Use::Letter));
        let same_voice = all.chunk_by(|one, next| one.speaker == next.speaker);
        let sequences: Vec<&[&Recording]> =
            same_voice.flat_map(|voice| voice.chunks_exact(SPELLED)).step_by(self.step).collect();
        let row = |pause: i64| {
            let whole = |(number, sequence): (usize, &&[&Recording])| {
                let when = |index| if index == 0 { When::AgentsEnd(0, 400) } else { When::Pause(pause) };
                let said: Vec<_> = sequence.iter().enumerate().map(|(index, one)| (when(index), &one.sound)).collect();
                let more = More { question: ASKS_TO_SPELL, ..More::default() };
                let call = self.play(self.agent(number, &sequence[0].speaker), &said, more);
                is_one_turn(&call)
            };
            let outcomes: Vec<bool> = sequences.iter().enumerate().map(whole).collect();
            let what =
                format!("six letters or digits that were asked for, {pause} ms between: in one turn, agent silent");
            Row::share(what, &outcomes, 95.0)
        };
        [500, 800, 1_200].map(row).into()
    }

    fn cut(&self, cut: Cut, bars: [f64; 3], full_stops: bool) -> Vec<Row> {
        let short =
            |one: &Recording| one.sound.ms() <= 6_000 && one.rest.as_ref().is_some_and(|rest| rest.ms() <= 6_000);
        let sentences = self.pick(|one| one.used_as == Use::Turn && one.cut == cut && short(one));
        let row = |(pause, bar): (i64, f64)| {
            let goes_well = |(number, one): (usize, &&'a Recording)| {
                let rest = one.rest.as_ref().unwrap_or(&one.sound);
                let said = [(When::AgentsEnd(0, 600), &one.sound), (When::Pause(pause), rest)];
                let more = More { full_stops, ..More::default() };
                is_one_turn(&self.play(self.agent(number, &one.speaker), &said, more))
            };
            let outcomes: Vec<bool> = sentences.iter().enumerate().map(goes_well).collect();
            let place = match (cut, full_stops) {
                (Cut::Pause, false) => "at a real pause",
                (Cut::Pause, true) => "at a real pause, full stop written",
                _ => "behind a function word",
            };
            Row::share(format!("sentence cut {place}, {pause} ms: not cut off"), &outcomes, bar)
        };
        [500, 700, 900].into_iter().zip(bars).map(row).collect()
    }

    fn complete_sentences(&self) -> [Row; 2] {
        let gap = |(number, one): (usize, &&'a Recording)| {
            let call =
                self.play(self.agent(number, &one.speaker), &[(When::AgentsEnd(0, 600), &one.sound)], More::default());
            call.gap(0)
        };
        let gaps: Vec<_> = self.whole_sentences().iter().enumerate().map(gap).collect();
        let what = "gap after a complete sentence";
        [(50, 600.0), (95, 900.0)].map(|(at, most)| Row::percentile(format!("{what}, p{at}"), &gaps, at, most))
    }

    /// A sentence and a short answer on a line that is not as it should be.
    fn hard_line(&self, line: Line) -> [Row; 3] {
        let play = |(number, one): (usize, &&'a Recording), ms: i64| {
            let more = More { line, ..More::default() };
            self.play(self.agent(number, &one.speaker), &[(When::AgentsEnd(0, ms), &one.sound)], more).gap(0)
        };
        let sentences: Vec<_> = self.whole_sentences().iter().enumerate().map(|one| play(one, 600)).collect();
        let words = self.pick(|one| one.used_as == Use::Word && one.sound.ms() <= SHORT_MS_MAX);
        let in_time = |gap: Option<Duration>| gap.is_some_and(|gap| gap <= ANSWERED_WITHIN);
        let words: Vec<bool> = words.iter().enumerate().map(|one| in_time(play(one, 200))).collect();
        let answered: Vec<bool> = sentences.iter().map(|gap| in_time(*gap)).collect();
        let on = line.name();
        [
            Row::share(format!("sentences on {on}: answered"), &answered, 100.0),
            Row::percentile(format!("sentences on {on}: gap, p95"), &sentences, 95, 900.0),
            Row::share(format!("short answers on {on}: answered"), &words, 100.0),
        ]
    }

    // ---- What is behind a caller ----

    fn agent_over_background(&self) -> Vec<Row> {
        let kinds = [
            (Use::Television, -40.0, 95.0),
            (Use::Babble, -40.0, 95.0),
            (Use::Television, -30.0, 80.0),
            (Use::Babble, -30.0, 80.0),
            (Use::Music, -30.0, 95.0),
        ];
        let row = |(moment, (used_as, dbfs, least)): (Moment, (Use, f32, f64))| {
            let sounds = self.every(used_as);
            let shares: Vec<f64> = sounds
                .iter()
                .flat_map(|one| [0, 5, 10, 15, 20, 25].map(|second| self.heard_over(one, second, dbfs, moment)))
                .collect();
            let figure = shares.iter().sum::<f64>() * 100.0 / shares.len().max(1) as f64;
            let (name, moment) = (name(used_as), moment.name());
            let what = format!("agent heard over 10 s of {name} at {dbfs:.0} dBFS, {moment}");
            Row { what, scenes: shares.len(), figure, unit: Unit::Percent, bar: Bar::AtLeast(least) }
        };
        Moment::ALL.into_iter().flat_map(|moment| kinds.map(|kind| (moment, kind))).map(row).collect()
    }

    /// The share of a monologue that is heard while this is on the caller's line: of an answer to the caller, or of the greeting.
    fn heard_over(&self, one: &Recording, second: usize, dbfs: f32, moment: Moment) -> f64 {
        let monologue = self.monologue(&one.speaker);
        let sentences = self.whole_sentences();
        let sentence = sentences[second % sentences.len()];
        let is_known = moment == Moment::CallerKnown;
        let agent = if is_known { [self.agent(0, &sentence.speaker)[0], &monologue] } else { [&monologue; 2] };
        let said = [(When::AgentsEnd(0, 600), &sentence.sound)];
        let said = if is_known { &said[..] } else { &[] };
        let into = Duration::from_millis(OVER_FROM_MS as u64);
        let from = match moment {
            Moment::CallerKnown => self.answer_begins(agent, said) + into,
            Moment::InGreeting => into,
            Moment::CallBegins => Duration::ZERO,
        };
        let until = from + Duration::from_millis(OVER_MS as u64);
        let background = Background {
            sound: &one.sound,
            skipped: second * 8_000,
            gain_db: dbfs - BACKGROUND_DBFS,
            from: from.as_millis() as i64,
            until: until.as_millis() as i64,
        };
        let lasts_ms = until.as_millis() as u64;
        let more = More { background: Some(background), lasts_ms, ..More::default() };
        let call = self.play(agent, said, more);
        // What follows on an interruption is another answer.
        let given_up = call.interrupts.iter().find(|at| (from..until).contains(*at)).copied().unwrap_or(until);
        let heard = call.audible.iter().filter(|at| (from..given_up).contains(*at)).count();
        (heard as f64 * 20.0 / OVER_MS as f64).min(1.0)
    }

    /// When the agent begins to answer, on a quiet line.
    fn answer_begins(&self, agent: [&Sound; 2], said: &[(When, &Sound)]) -> Duration {
        let call = self.play(agent, said, More::default());
        let end = call.said.last().map_or(Duration::ZERO, |last| last.end);
        call.audible.into_iter().find(|at| *at >= end).expect("a sentence on a quiet line is answered")
    }

    fn sentences_over_background(&self) -> Vec<Row> {
        const EACH_MS: i64 = 9_000;
        let sentences = self.whole_sentences();
        let row = |(used_as, gain_db, from, how): (Use, f32, i64, &str)| {
            let (mut answered, mut gaps) = (Vec::new(), Vec::new());
            for (number, one) in self.every(used_as).iter().enumerate() {
                let five = sentences.iter().cycle().skip(number * 5).take(5);
                let said: Vec<_> = (1..).zip(five).map(|(at, one)| (When::At(at * EACH_MS), &one.sound)).collect();
                let background = Background { sound: &one.sound, skipped: 0, gain_db, from, until: i64::MAX };
                let more = More { background: Some(background), lasts_ms: 6_000, ..More::default() };
                let call = self.play(self.agent(number, ""), &said, more);
                for clip in 0..said.len() {
                    let gap = call.gap(clip).filter(|gap| *gap <= Duration::from_secs(5));
                    answered.push(gap.is_some());
                    gaps.push(gap);
                }
            }
            let what = format!("sentences with {} {how}", name(used_as));
            [
                Row::share(format!("{what}: answered"), &answered, 100.0),
                Row::percentile(format!("{what}: gap, p95"), &gaps, 95, 2_000.0),
            ]
        };
        let all = [Use::Babble, Use::Television, Use::Music];
        let from_the_start = all.map(|used_as| (used_as, 0.0, 0, "10 dB below"));
        let turned_on =
            all.map(|used_as| (used_as, -10.0, 2 * EACH_MS + 500, "20 dB below, turned on as the second is said"));
        from_the_start.into_iter().chain(turned_on).flat_map(row).collect()
    }

    fn background_alone(&self) -> Vec<Row> {
        let row = |used_as: Use| {
            let longest = |one: &&Recording| {
                let background =
                    Background { sound: &one.sound, skipped: 0, gain_db: 0.0, from: 3_000, until: i64::MAX };
                let more = More { background: Some(background), lasts_ms: 60_000, ..More::default() };
                let call = self.play(self.agent(0, &one.speaker), &[], more);
                Some(call.turns.iter().map(|turn| turn.end - turn.start).max().unwrap_or_default())
            };
            let turns: Vec<_> = self.every(used_as).iter().map(longest).collect();
            let what = format!("longest turn in 60 s of {} alone", name(used_as));
            Row::percentile(what, &turns, 100, 8_000.0)
        };
        [Use::Babble, Use::Television, Use::Music].into_iter().map(row).collect()
    }

    fn interruptions(&self) -> [Row; 3] {
        let (mut noticed, mut silent) = (Vec::new(), Vec::new());
        for one in self.whole_sentences() {
            let monologue = self.monologue(&one.speaker);
            let more = More { lasts_ms: 500, ..More::default() };
            let call = self.play([&monologue, &monologue], &[(When::At(2_500), &one.sound)], more);
            let onset = call.said.first().map(|said| said.start).unwrap_or_default();
            let at = call.interrupts.iter().find(|at| (onset..onset + NOTICED_WITHIN).contains(*at)).copied();
            noticed.push(at.is_some());
            let last = call.audible.iter().rfind(|heard| at.is_some_and(|at| **heard < at));
            silent.extend(last.map(|last| Some((*last + Duration::from_millis(20)).saturating_sub(onset))));
        }
        [
            Row::share("interruptions: noticed".into(), &noticed, 100.0),
            Row::percentile("interruptions: onset → agent silent, p50".into(), &silent, 50, 90.0),
            Row::percentile("interruptions: onset → agent silent, p95".into(), &silent, 95, 150.0),
        ]
    }

    /// There are no recordings of these.
    fn noises(&self) -> Vec<Row> {
        let made = self.set.iter().filter(|one| one.used_as == Use::Noise && !one.id.starts_with('d'));
        let row = |one: &Recording| {
            let gains = [-40.0, -30.0, -20.0_f32].map(|dbfs| dbfs - BACKGROUND_DBFS);
            let stops = gains.iter().filter(|gain_db| {
                let background = Background {
                    sound: &one.sound,
                    skipped: 0,
                    gain_db: **gain_db,
                    from: OVER_FROM_MS,
                    until: OVER_FROM_MS + OVER_MS,
                };
                let lasts_ms = (OVER_FROM_MS + OVER_MS) as u64;
                let more = More { background: Some(background), lasts_ms, ..More::default() };
                let monologue = self.monologue("");
                !self.play([&monologue, &monologue], &[], more).interrupts.is_empty()
            });
            let figure = stops.count() as f64;
            let what = format!("SYNTHETIC {} at -40, -30, -20 dBFS: false stops", one.id);
            Row { what, scenes: gains.len(), figure, unit: Unit::Times, bar: Bar::AtMost(0.0) }
        };
        made.map(row).collect()
    }
}

/// When a sound in the background begins.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Moment {
    CallerKnown,
    InGreeting,
    CallBegins,
}

impl Moment {
    const ALL: [Self; 3] = [Self::CallerKnown, Self::InGreeting, Self::CallBegins];

    const fn name(self) -> &'static str {
        match self {
            Self::CallerKnown => "after the caller has spoken",
            Self::InGreeting => "before the caller has spoken",
            Self::CallBegins => "from the first moment of the call",
        }
    }
}

/// What a scene has besides what is said.
struct More<'a> {
    background: Option<Background<'a>>,
    line: Line,
    full_stops: bool,
    question: &'static str,
    lasts_ms: u64,
}

impl Default for More<'_> {
    fn default() -> Self {
        Self { background: None, line: Line::Good, full_stops: false, question: "", lasts_ms: 3_500 }
    }
}

/// All that was said is in one request to the model, and the agent was silent meanwhile.
fn is_one_turn(call: &Conversation) -> bool {
    let (Some(first), Some(last)) = (call.said.first(), call.said.last()) else { return false };
    let whole = call.asked.iter().any(|asked| asked.clips.len() == call.said.len());
    whole && !call.agent_speaks(first.start..last.end)
}

/// How long a question goes on behind the begin of an answer to it.
fn early(ms: i64) -> Duration {
    Duration::from_millis(u64::try_from(-ms).unwrap_or_default())
}

const fn name(used_as: Use) -> &'static str {
    match used_as {
        Use::Television => "a television",
        Use::Babble => "five voices",
        Use::Music => "hold music",
        _ => "sound",
    }
}
