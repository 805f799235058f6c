//! The demo's lines: who said what from when to when, in the order in which it began.

use offhook::call::{Note, Speaker};
use std::{collections::VecDeque, time::Duration};

/// Prints each line as soon as all of it and all before it is known: an agent's words often arrive
/// after they were heard.
#[derive(Default)]
pub struct Transcript {
    waiting: VecDeque<Line>,
}

struct Line {
    who: &'static str,
    from: Option<Duration>,
    to: Option<Duration>,
    text: Option<String>,
}

impl Line {
    fn is_of_agent(&self) -> bool {
        self.who == AGENT
    }

    fn is_whole(&self) -> bool {
        self.to.is_some() && self.text.is_some()
    }

    fn print(&self) {
        let seconds = |at: Duration| format!("{:.2}", at.as_secs_f32());
        let when = match (self.from.or(self.to), self.to) {
            (Some(from), Some(to)) if from != to => format!("{}–{}", seconds(from), seconds(to)),
            (Some(at), _) => seconds(at),
            (None, _) => String::new(),
        };
        println!("{when:>13} s  {:6}  {}", self.who, self.text.as_deref().unwrap_or("(no words)"));
    }
}

const AGENT: &str = "agent";

impl Transcript {
    /// The caller says this, which takes so long.
    pub fn caller(&mut self, at: Duration, takes: Duration, text: &str) {
        self.add("caller", at, at + takes, text);
    }

    /// Something that happens at once.
    pub fn event(&mut self, at: Duration, text: &str) {
        self.add("", at, at, text);
    }

    pub fn note(&mut self, at: Duration, note: Note) {
        match note {
            Note::AgentSpeaks => match self.agent_line(|line| line.from.is_none()) {
                Some(line) => line.from = Some(at),
                None => self.waiting.push_back(Line { who: AGENT, from: Some(at), to: None, text: None }),
            },
            Note::AgentFinished => self.agent_stopped(at),
            Note::BargeIn { heard } => {
                self.agent_stopped(at);
                let text = format!("… interrupted after {:.1} s; the agent is quiet", heard.as_secs_f32());
                self.event(at, &text);
            }
            Note::Said { speaker: Speaker::Agent, text } => {
                let text = text.reveal().clone();
                if let Some(line) = self.agent_line(|line| line.text.is_none()) {
                    line.text = Some(text);
                    return self.print_whole();
                }
                // An answer that follows another without a pause is heard as one.
                match self.agent_line(|line| line.from.is_some() && line.to.is_none()) {
                    Some(Line { text: Some(before), .. }) => {
                        before.push(' ');
                        before.push_str(&text);
                    }
                    _ => self.waiting.push_back(Line { who: AGENT, from: None, to: None, text: Some(text) }),
                }
            }
            Note::ToolAnswered { tool: Some(tool), error } => {
                self.add(AGENT, at, at, &format!("[{tool}: {}]", error.map_or("done", |error| error.label())));
            }
            _ => {}
        }
        self.print_whole();
    }

    /// Prints what is left, whole or not.
    pub fn finish(&mut self) {
        self.waiting.drain(..).for_each(|line| line.print());
    }

    fn add(&mut self, who: &'static str, from: Duration, to: Duration, text: &str) {
        self.waiting.push_back(Line { who, from: Some(from), to: Some(to), text: Some(text.to_owned()) });
        self.print_whole();
    }

    fn agent_line(&mut self, lacks: fn(&Line) -> bool) -> Option<&mut Line> {
        self.waiting.iter_mut().find(|line| line.is_of_agent() && lacks(line))
    }

    fn agent_stopped(&mut self, at: Duration) {
        if let Some(line) = self.agent_line(|line| line.from.is_some() && line.to.is_none()) {
            line.to = Some(at);
        }
    }

    fn print_whole(&mut self) {
        let whole = self.waiting.iter().take_while(|line| line.is_whole()).count();
        self.waiting.drain(..whole).for_each(|line| line.print());
    }
}
