//! Applications of the dialplan. One that is not here is logged as Asterisk logs it, and ends the call.

use super::{
    audiosocket::{self, Finish},
    channel::{Ear, Sent, cause},
    dial,
    dialplan::Place,
    expression::is_true,
    frame::Codec,
    state::Switch,
    tones::Tone,
    voicemail,
};
use std::{future::pending, time::Duration};
use tokio::{
    net::TcpStream,
    sync::{mpsc, oneshot},
    time::{sleep, timeout},
};
use uuid::Uuid;

/// What comes after a step.
#[derive(Debug, Clone, PartialEq)]
pub enum Then {
    Next,
    Jump(Place),
    HangUp(u32),
}

/// Both sides of `AudioSocket()` may be silent for so long.
const NO_ACTIVITY: Duration = Duration::from_secs(2);

pub async fn run(switch: &Switch, id: &str, application: &str, arguments: &str) -> Then {
    let list: Vec<&str> = arguments.split(',').map(str::trim).collect();
    let argument = |at: usize| list.get(at).copied().unwrap_or_default();
    match &*application.to_ascii_lowercase() {
        "answer" => switch.with(|state| state.answer(id)),
        "hangup" => {
            return Then::HangUp(argument(0).parse().unwrap_or_else(|_| switch.with(|state| state.cause_of(id))));
        }
        "noop" | "verbose" => switch.with(|state| {
            let text = arguments.split_once(',').map_or(arguments, |(_, text)| text).to_owned();
            state.logs("VERBOSE", &text);
        }),
        "set" => {
            let (name, value) = arguments.split_once('=').expect("Set(NAME=VALUE)");
            switch.with(|state| state.assign(id, name.trim(), value));
        }
        "goto" => return go_to(switch, id, arguments),
        "gotoif" => {
            let (condition, labels) = arguments.split_once('?').expect("GotoIf(CONDITION?LABEL)");
            let (yes, no) = labels.split_once(':').unwrap_or((labels, ""));
            let label = if is_true(condition) { yes } else { no };
            if !label.is_empty() {
                return go_to(switch, id, label);
            }
        }
        "wait" => sleep(seconds(argument(0))).await,
        "ringing" => switch.with(|state| state.ring(id)),
        "playtones" => switch.with(|state| state.play(id, Tone::named(arguments))),
        "stopplaytones" => switch.with(|state| state.stop_tone(id)),
        "busy" => return refuse(switch, id, cause::BUSY, "busy", argument(0)).await,
        "congestion" => return refuse(switch, id, cause::CONGESTION, "congestion", argument(0)).await,
        "echo" => {
            switch.with(|state| {
                let channel = state.channels.get_mut(id)?;
                channel.ear = Ear::Echo;
                Some(())
            });
            pending().await
        }
        "stasis" => return stasis(switch, id, &list).await,
        "read" => read(switch, id, &list).await,
        "dial" => {
            let (targets, limit, options) = (argument(0), argument(1), argument(2));
            let targets: Vec<&str> = targets.split('&').collect();
            return dial::dial(switch, id, &targets, limit.parse().ok(), options).await;
        }
        "queue" => return dial::queue(switch, id, argument(0), argument(1)).await,
        "audiosocket" => return audio_socket(switch, id, argument(0), argument(1)).await,
        "voicemail" => voicemail::run(switch, id, argument(0)).await,
        "tryexec" => return try_exec(switch, id, arguments).await,
        _ => {
            switch.with(|state| {
                state.logs("WARNING", &format!("No application '{application}' for extension"));
                state.lacks.push(format!("the application {application}"));
            });
            return Then::HangUp(cause::NORMAL);
        }
    }
    Then::Next
}

fn seconds(text: &str) -> Duration {
    Duration::from_secs_f64(text.parse().unwrap_or(0.0))
}

fn go_to(switch: &Switch, id: &str, target: &str) -> Then {
    let to = switch.with(|state| {
        let here = state.channels.get(id)?.place.clone();
        let to = state.dialplan.resolve(&here, target);
        if to.is_none() {
            state.logs("WARNING", &format!("Goto({target}): the dialplan has no such place"));
        }
        to
    });
    to.map_or(Then::HangUp(cause::NORMAL), Then::Jump)
}

async fn refuse(switch: &Switch, id: &str, cause: u32, tone: &str, limit: &str) -> Then {
    switch.with(|state| {
        if !state.refuse(id, cause) {
            state.play(id, Tone::named(tone));
        }
    });
    match limit.parse::<f64>() {
        Ok(limit) => sleep(Duration::from_secs_f64(limit)).await,
        Err(_) => pending().await,
    }
    Then::HangUp(cause)
}

async fn stasis(switch: &Switch, id: &str, arguments: &[&str]) -> Then {
    let (app, arguments) = arguments.split_first().expect("Stasis(APP)");
    let arguments: Vec<String> = arguments.iter().map(|argument| (*argument).to_owned()).collect();
    let (exit, left) = oneshot::channel();
    let entered = switch.with(|state| {
        state.assign(id, "STASISSTATUS", "");
        let entered = state.enter_stasis(id, app, &arguments, Some(exit));
        if !entered {
            state.logs("ERROR", &format!("Stasis app '{app}' not registered"));
            state.assign(id, "STASISSTATUS", "FAILED");
        }
        entered
    });
    if !entered {
        return Then::Next;
    }
    let to = left.await.unwrap_or_default();
    switch.with(|state| state.assign(id, "STASISSTATUS", "SUCCESS"));
    to.map_or(Then::Next, Then::Jump)
}

/// `Read(VARIABLE,prompt,digits,options,attempts,seconds)`.
async fn read(switch: &Switch, id: &str, arguments: &[&str]) {
    let argument = |at: usize| arguments.get(at).copied().unwrap_or_default();
    let most = argument(2).parse().unwrap_or(usize::MAX);
    let limit = if argument(5).is_empty() { Duration::from_secs(10) } else { seconds(argument(5)) };
    let mut keys = listen(switch, id);
    switch.with(|state| state.answer(id));
    let mut read = String::new();
    while read.len() < most {
        match timeout(limit, keys.recv()).await {
            Ok(Some(Sent::Digit('#'))) | Ok(None) | Err(_) => break,
            Ok(Some(Sent::Digit(key))) => read.push(key),
            Ok(Some(Sent::Audio(_))) => {}
        }
    }
    switch.with(|state| {
        if let Some(channel) = state.channels.get_mut(id) {
            channel.ear = Ear::Nobody;
        }
        state.assign(id, argument(0), &read);
    });
}

/// What comes from the far end of a channel, for an application.
pub fn listen(switch: &Switch, id: &str) -> mpsc::UnboundedReceiver<Sent> {
    let (sender, receiver) = mpsc::unbounded_channel();
    switch.with(|state| {
        if let Some(channel) = state.channels.get_mut(id) {
            channel.ear = Ear::Application(sender);
        }
    });
    receiver
}

async fn audio_socket(switch: &Switch, id: &str, uuid: &str, address: &str) -> Then {
    let Ok(uuid) = Uuid::parse_str(uuid) else {
        switch.with(|state| state.logs("ERROR", "Failed to parse UUID of AudioSocket()"));
        return Then::HangUp(cause::NORMAL);
    };
    let Ok(stream) = TcpStream::connect(address).await else {
        switch.with(|state| state.logs("WARNING", &format!("Connection failed to AudioSocket at {address}")));
        return Then::HangUp(cause::NORMAL);
    };
    let sent = listen(switch, id);
    switch.with(|state| {
        if let Some(channel) = state.channels.get_mut(id) {
            channel.read_codec = Codec::Linear(8_000);
        }
    });
    let heard = |frame| switch.with(|state| state.write(id, &frame));
    let carried = audiosocket::carry(stream, uuid, Codec::Linear(8_000), sent, Some(NO_ACTIVITY), heard).await;
    switch.with(|state| {
        if let Some(channel) = state.channels.get_mut(id) {
            channel.ear = Ear::Nobody;
            channel.read_codec = channel.codec;
        }
    });
    match carried {
        Finish::HungUp | Finish::Closed => Then::Next,
        Finish::Broken => Then::HangUp(cause::NORMAL),
    }
}

async fn try_exec(switch: &Switch, id: &str, arguments: &str) -> Then {
    let (application, inner) = arguments.split_once('(').expect("TryExec(APPLICATION(ARGUMENTS))");
    let inner = inner.strip_suffix(')').unwrap_or(inner);
    let done = Box::pin(run(switch, id, application.trim(), inner)).await;
    let (status, then) = match done {
        Then::HangUp(_) => ("FAILED", Then::Next),
        other => ("SUCCESS", other),
    };
    switch.with(|state| state.assign(id, "TRYSTATUS", status));
    then
}
