//! A call on a time axis: who spoke when and how loud, tools, interruptions, and what else happened.

use super::{figures, plot::places, text};
use crate::records::{Event, Record};
use maud::{Markup, html};
use std::{collections::BTreeMap, fmt::Write as _};

/// A time from–to, in milliseconds, and what it was.
struct Stretch {
    from: u64,
    to: u64,
    style: &'static str,
    title: String,
}

struct Lane {
    name: &'static str,
    stretches: Vec<Stretch>,
    /// Moments, by the names of their styles.
    marks: Vec<(u64, &'static str, String)>,
}

/// Of a lane without sound, in pixels; the style sheet knows both.
const LANE_HEIGHT: u64 = 30;
/// Of the caller's and the agent's where their sound is drawn.
pub const SOUND_HEIGHT: u64 = 48;
/// Lanes with sound: the caller's and the agent's.
pub const SOUNDS: usize = 2;
/// Below and above a bar.
const MARGIN: u64 = 7;
/// More than that are narrower than anybody can point at: they are drawn as one shape, and their times not told one by one.
const SINGLE_MAX: usize = 200;
/// Of the axis, in percent: what is shorter is seen nevertheless.
const WIDTH_MIN: f64 = 0.15;
/// Between two times below the axis, the first that leaves at most so many.
const STEPS_S: [u64; 10] = [1, 2, 5, 10, 30, 60, 120, 300, 600, 1_800];
const TICKS_MAX: u64 = 10;
/// Of the axis, in percent: a time from here on would not end on it.
const LABELLED_MAX: f64 = 93.0;

/// How long the axis is, in milliseconds.
pub fn length(record: &Record) -> u64 {
    let last = record.entries.iter().map(|entry| entry.at_ms).max().unwrap_or(0);
    last.max((record.seconds * 1_000.0) as u64).max(1)
}

/// With the sound of both sides behind the first two lanes: a picture of the whole axis, which is loaded apart.
pub fn draw(record: &Record, sound: Option<&str>) -> Markup {
    let length = length(record);
    let lanes = lanes(record, length);
    let heights: Vec<u64> = (0..lanes.len())
        .map(|lane| if sound.is_some() && lane < SOUNDS { SOUND_HEIGHT } else { LANE_HEIGHT })
        .collect();
    let height: u64 = heights.iter().sum();
    let tops = heights.iter().scan(0, |top, height| Some(std::mem::replace(top, *top + height)));
    // A long call is wider than a phone.
    let wide = length > 90_000;
    html! {
        figure.axis.card.heard[sound.is_some()] #timeline data-length=(length) aria-label=(text::TIMELINE) {
            div.names aria-hidden="true" { @for lane in &lanes { span { (lane.name) } } }
            div.scroll tabindex="0" role="group" aria-label=(text::TIMELINE) {
                div.plane.wide[wide] {
                    @if let Some(address) = sound { img.sound src=(address) alt=(text::DRAWN) decoding="async"; }
                    svg role="img" aria-label=(told(&lanes)) width="100%" height=(height + 22) {
                        (ticks(length, height))
                        @for ((lane, top), height) in lanes.iter().zip(tops).zip(&heights) { (lane.draw(top, *height, length)) }
                        line.playhead #playhead x1="-9" x2="-9" y1="0" y2=(height) {}
                    }
                }
            }
            (legend(&lanes))
        }
    }
}

fn lanes(record: &Record, length: u64) -> Vec<Lane> {
    let lane = |name| Lane { name, stretches: Vec::new(), marks: Vec::new() };
    let (mut caller, mut agent, mut tools, mut events) =
        (lane(text::CALLER), lane(text::AGENT), lane(text::TOOLS), lane(text::EVENTS));
    let (mut caller_from, mut agent_from) = (None, None);
    for entry in &record.entries {
        let at = entry.at_ms.min(length);
        match &entry.event {
            Event::CallerSpeaks => caller_from = caller_from.or(Some(at)),
            Event::CallerFinished => caller.speech(caller_from.take(), at, "caller"),
            Event::AgentSpeaks => agent_from = agent_from.or(Some(at)),
            Event::AgentFinished => agent.speech(agent_from.take(), at, "agent"),
            Event::BargeIn { .. } => {
                agent.speech(agent_from.take(), at, "agent");
                caller.marks.push((at, "barge-in", text::BARGE_IN.into()));
            }
            Event::FalseAlarm { why } => {
                caller.marks.push((at, "false-alarm", format!("{}: {why}", text::FALSE_ALARM)))
            }
            Event::Tool { audit } => {
                let took = audit.get("duration").and_then(serde_json::Value::as_u64).unwrap_or(0);
                let failed = audit.get("errorType").is_some_and(|error| !error.is_null());
                let title = text::event(&entry.event).map_or_else(String::new, |(_, words)| words);
                let style = if failed { "tool failed" } else { "tool" };
                tools.stretches.push(Stretch { from: at.saturating_sub(took), to: at, style, title });
            }
            Event::Said { .. } => {}
            other => {
                if let Some((kind, words)) = text::event(other) {
                    events.marks.push((at, if kind == "trouble" { "trouble" } else { "plain" }, words));
                }
            }
        }
    }
    caller.speech(caller_from, length, "caller");
    agent.speech(agent_from, length, "agent");
    vec![caller, agent, tools, events]
}

impl Lane {
    fn speech(&mut self, from: Option<u64>, to: u64, style: &'static str) {
        if let Some(from) = from {
            self.stretches.push(Stretch { from, to, style, title: self.name.into() });
        }
    }

    /// Its stretches as one shape of each style. A call of an hour has hundreds, and a browser would show the page the later
    /// for each of them.
    fn shapes(&self, top: u64, height: u64, length: u64) -> Markup {
        let mut shapes = BTreeMap::<&str, String>::new();
        for stretch in &self.stretches {
            let (x, width) = stretch.place(length);
            let shape = shapes.entry(stretch.style).or_default();
            // To a text, that cannot fail.
            let _ = write!(shape, "M{x} 0h{width}v1h-{width}z");
        }
        html! {
            svg y=(top + MARGIN) width="100%" height=(height - 2 * MARGIN) viewBox="0 0 100 1" preserveAspectRatio="none" {
                @for (style, shape) in &shapes { path class=(style) d=(shape) {} }
            }
        }
    }

    fn draw(&self, top: u64, height: u64, length: u64) -> Markup {
        let middle = top + height / 2;
        html! {
            line.grid x1="0" x2="100%" y1=(top + height) y2=(top + height) {}
            @if self.stretches.len() > SINGLE_MAX { (self.shapes(top, height, length)) } @else {
                @for stretch in &self.stretches {
                    @let Stretch { from, to, style, title } = stretch;
                    @let (x, width) = stretch.place(length);
                    rect class=(style) x={ (x) "%" } width={ (width) "%" } y=(top + MARGIN) height=(height - 2 * MARGIN) rx="3" {
                        title { (title) ", " (figures::offset(*from)) "–" (figures::offset(*to)) }
                    }
                }
            }
            @for (at, style, title) in &self.marks {
                circle.mark.(*style) cx={ (percent(*at, length)) "%" } cy=(middle) r="5" {
                    title { (title) " " (figures::offset(*at)) }
                }
            }
        }
    }
}

impl Stretch {
    /// Where it begins and how wide it is, in percent of the axis.
    fn place(&self, length: u64) -> (f64, f64) {
        (percent(self.from, length), percent(self.to.saturating_sub(self.from), length).max(WIDTH_MIN))
    }
}

fn percent(part: u64, whole: u64) -> f64 {
    places(part as f64 * 100.0 / whole as f64)
}

fn ticks(length: u64, height: u64) -> Markup {
    let seconds = length / 1_000;
    let step = STEPS_S.into_iter().find(|step| seconds / step <= TICKS_MAX).unwrap_or(3_600);
    html! {
        @for at in (0..=seconds).step_by(step as usize) {
            @let x = percent(at * 1_000, length);
            line.grid x1={ (x) "%" } x2={ (x) "%" } y1="0" y2=(height) {}
            // The last one would be cut off: it stands before its line, and not at all on a phone, where the others are too near.
            text.tick.last[x >= LABELLED_MAX] x={ (x) "%" } y=(height + 16) { (figures::duration(at as f64)) }
        }
    }
}

/// What the picture shows, for those who cannot see it.
fn told(lanes: &[Lane]) -> String {
    let lane = |lane: &Lane| format!("{}: {}", lane.name, lane.stretches.len() + lane.marks.len());
    lanes.iter().map(lane).collect::<Vec<_>>().join(", ")
}

fn legend(lanes: &[Lane]) -> Markup {
    let has = |style: &str| lanes.iter().flat_map(|lane| &lane.marks).any(|(_, known, _)| *known == style);
    let kinds = [("barge-in", text::BARGE_IN), ("false-alarm", text::FALSE_ALARM), ("trouble", text::TROUBLE)];
    html! {
        ul.legend { @for (style, name) in kinds.into_iter().filter(|(style, _)| has(style)) {
            li { span.key.round.(style) aria-hidden="true" {} (name) }
        } }
    }
}
