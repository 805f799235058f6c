//! A channel's way through the dialplan, step by step.

use super::{
    apps::{self, Then},
    channel::{Channel, cause},
    dialplan::Place,
    expression::{self, Values},
    state::{By, State, Switch},
};
use serde_json::json;
use std::time::Duration;
use tokio::time::{Instant, sleep_until};

/// Runs the dialplan from the channel's place until it ends.
pub async fn run(switch: Switch, id: String) {
    let Some(ended) = switch.with(|state| state.channels.get(&id).map(|channel| channel.ended.clone())) else { return };
    loop {
        let Some((application, arguments)) = switch.with(|state| state.next_step(&id)) else {
            return switch.with(|state| state.hang_up(&id, cause::NORMAL, By::Dialplan));
        };
        let done = tokio::select! {
            biased;
            () = ended.cancelled() => return,
            done = apps::run(&switch, &id, &application, &arguments) => done,
        };
        switch.with(|state| match done {
            Then::HangUp(cause) => state.hang_up(&id, cause, By::Dialplan),
            Then::Next => {
                if let Some(channel) = state.channels.get_mut(&id) {
                    channel.place.priority += 1;
                }
            }
            Then::Jump(to) => {
                if let Some(channel) = state.channels.get_mut(&id) {
                    channel.place = to;
                }
            }
        });
        if ended.is_cancelled() {
            return;
        }
    }
}

impl State {
    /// Application and arguments, filled in. `None`: there is no such step.
    fn next_step(&mut self, id: &str) -> Option<(String, String)> {
        let channel = self.channels.get(id)?;
        let (place, name) = (channel.place.clone(), channel.name.clone());
        let step = self.dialplan.find(&place)?.clone();
        let arguments = self.filled_in(id, &step.arguments);
        let Place { context, extension, priority } = place;
        self.logs(
            "VERBOSE",
            &format!(
                "Executing [{extension}@{context}:{priority}] {}(\"{name}\", \"{arguments}\") in new stack",
                step.application
            ),
        );
        self.channels.get_mut(id)?.running = (step.application.clone(), arguments.clone());
        Some((step.application, arguments))
    }

    pub fn filled_in(&self, id: &str, text: &str) -> String {
        expression::substitute(text, &Seen { state: self, id })
    }

    /// The value of a variable or function, seen from a channel.
    pub fn value(&self, id: &str, name: &str) -> Result<Option<String>, Unreadable> {
        let seen = Seen { state: self, id };
        match name.split_once('(') {
            Some((function, arguments)) => {
                let arguments = arguments.strip_suffix(')').ok_or(Unreadable)?;
                seen.function(function, arguments).map(Some).ok_or(Unreadable)
            }
            None => Ok(seen.variable(name)),
        }
    }

    /// `Set()`, and the request of ARI.
    pub fn assign(&mut self, id: &str, name: &str, value: &str) {
        let (function, argument) = name.split_once('(').unwrap_or((name, ""));
        let argument = argument.trim_end_matches(')');
        match function {
            "GLOBAL" => drop(self.globals.insert(argument.to_owned(), value.to_owned())),
            "CALLERID" => {
                if let Some(channel) = self.channels.get_mut(id) {
                    match argument {
                        "name" => channel.caller.name = value.to_owned(),
                        "num" | "number" => channel.caller.number = value.to_owned(),
                        "pres" => channel.caller.withheld = !value.starts_with("allowed"),
                        _ => self.lacks.push(format!("Set(CALLERID({argument})=…)")),
                    }
                }
            }
            "TIMEOUT" if argument == "absolute" => self.set_timeout(id, value.parse().unwrap_or(0.0)),
            _ if name.contains('(') => self.lacks.push(format!("Set({function}(…)=…)")),
            _ => {
                if let Some(channel) = self.channels.get_mut(id) {
                    channel.set(name, value);
                }
                self.tell_of(id, "ChannelVarset", json!({ "variable": name, "value": value }));
            }
        }
    }
}

impl State {
    /// `Set(TIMEOUT(absolute)=…)`; none: no limit.
    fn set_timeout(&mut self, id: &str, seconds: f64) {
        let at = (seconds > 0.0).then(|| Instant::now() + Duration::from_secs_f64(seconds));
        let Some(channel) = self.channels.get_mut(id) else { return };
        channel.times_out = at;
        let (Some(at), switch, id) = (at, self.switch(), id.to_owned()) else { return };
        self.spawn(async move {
            sleep_until(at).await;
            switch.with(|state| {
                if state.channels.get(&id).is_some_and(|channel| channel.times_out == Some(at)) {
                    state.time_is_over(&id);
                }
            });
        });
    }

    /// Goes on at the extension `T` of its context, or ends. Nobody has asked to hang it up, and no event says that somebody did.
    fn time_is_over(&mut self, id: &str) {
        let Some(channel) = self.channels.get_mut(id) else { return };
        channel.times_out = None;
        let then = Place { extension: "T".to_owned(), priority: 1, ..channel.place.clone() };
        if channel.stasis.is_some() && self.dialplan.find(&then).is_some() {
            self.leave_stasis(id, Some(then));
        } else {
            self.hang_up(id, cause::NORMAL, By::Dialplan);
        }
    }
}

/// No such function, or it tells nothing of this channel.
#[derive(Debug)]
pub struct Unreadable;

/// What the text of a step of this channel sees.
struct Seen<'a> {
    state: &'a State,
    id: &'a str,
}

impl Seen<'_> {
    fn channel(&self) -> Option<&Channel> {
        self.state.channels.get(self.id)
    }
}

impl Values for Seen<'_> {
    fn variable(&self, name: &str) -> Option<String> {
        let channel = self.channel();
        let set = channel.and_then(|channel| channel.variables.get(name)).or_else(|| self.state.globals.get(name));
        set.cloned().or_else(|| {
            let channel = channel?;
            match name {
                "EXTEN" => Some(channel.place.extension.clone()),
                "CONTEXT" => Some(channel.place.context.clone()),
                "PRIORITY" => Some(channel.place.priority.to_string()),
                "CHANNEL" => Some(channel.name.clone()),
                "UNIQUEID" => Some(channel.id.clone()),
                "EPOCH" => Some(self.state.now().as_secs().to_string()),
                _ => None,
            }
        })
    }

    fn function(&self, name: &str, arguments: &str) -> Option<String> {
        let flag = |holds: bool| Some(u8::from(holds).to_string());
        match (name, arguments) {
            ("CALLERID", "name") => Some(self.channel()?.caller.name.clone()),
            ("CALLERID", "num" | "number") => Some(self.channel()?.caller.number.clone()),
            ("CALLERID", "pres") => {
                let withheld = self.channel()?.caller.withheld;
                Some(if withheld { "prohib_passed_screen" } else { "allowed_not_screened" }.to_owned())
            }
            ("CHANNEL", "audionativeformat") => Some(format!("({})", self.channel()?.codec.name())),
            ("CHANNEL", "audioreadformat") => Some(self.channel()?.read_codec.name().to_owned()),
            ("CHANNEL", "rtp,hold") => {
                let channel = self.channel()?;
                channel.is_phone().then(|| flag(channel.held))?
            }
            ("CHANNEL", "name") => Some(self.channel()?.name.clone()),
            ("CHANNEL", "state") => Some(self.channel()?.state.name().to_owned()),
            ("CHANNEL", "language") => Some("en".to_owned()),
            ("TIMEOUT", "absolute") => Some(match self.channel()?.times_out {
                Some(at) => format!("{:.3}", at.saturating_duration_since(Instant::now()).as_secs_f64()),
                None => "0".to_owned(),
            }),
            ("UUID", "") => Some(uuid::Uuid::new_v4().to_string()),
            ("GLOBAL", name) => Some(self.state.globals.get(name).cloned().unwrap_or_default()),
            ("LEN", text) => Some(text.chars().count().to_string()),
            ("IF", text) => {
                let (condition, branches) = text.split_once('?')?;
                let (yes, no) = branches.split_once(':').unwrap_or((branches, ""));
                Some(if expression::is_true(condition) { yes } else { no }.to_owned())
            }
            ("DIALPLAN_EXISTS", place) => {
                let mut parts = place.split(',');
                let (context, extension) = (parts.next()?, parts.next().unwrap_or("s"));
                let priority = parts.next().and_then(|priority| priority.parse().ok()).unwrap_or(1);
                flag(self.state.dialplan.exists(context, extension, priority))
            }
            _ => None,
        }
    }
}
