//! Who may start a response now. The server allows one at a time and starts some by itself.

use std::{mem, sync::Arc};

/// A response that the engine wants.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Request {
    /// Go on with the conversation: an answer to tool results, or to what the agent was told.
    Reply,
    /// Say something particular.
    Say { instructions: String },
}

/// What became of a request that the server refused.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Refused {
    /// A response of the server's own came first; the request waits for its end.
    Waits,
    /// It was given up.
    GivenUp,
    /// The refusal was about something else.
    NotOurs,
}

#[derive(Debug, Default)]
enum State {
    #[default]
    Free,
    /// We asked, and the server has announced no response yet; the next end of any frees the floor.
    Asked,
    Active(Arc<str>),
}

/// Invariant: at most one request of each kind waits, and at most one of both is on its way.
#[derive(Debug, Default)]
pub(super) struct Floor {
    state: State,
    /// The instructions of what is to be said first.
    say: Option<String>,
    /// A reply waits. What is to be said stands for none: nothing else may be said or done in it.
    reply: bool,
    /// Kept until the server has finished a response, in case it refuses ours for one of its own.
    asked: Option<(String, Request)>,
    asked_so_far: u64,
    /// The response that is asked for or under way was cancelled already.
    cancelled: bool,
}

/// A response that is to be cancelled.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Cancel {
    Active(Arc<str>),
    /// It was asked for and has no id yet. The server reads in order, so it will be the active one.
    Asked,
}

impl Floor {
    /// A newer wish to say something replaces an older one that still waits. One reply stands for
    /// all: every response sees the whole conversation.
    pub(super) fn want(&mut self, request: Request) {
        match request {
            Request::Reply => self.reply = true,
            Request::Say { instructions } => self.say = Some(instructions),
        }
    }

    fn take(&mut self) -> Option<Request> {
        if let Some(instructions) = self.say.take() {
            return Some(Request::Say { instructions });
        }
        mem::take(&mut self.reply).then_some(Request::Reply)
    }

    /// The request to send now, with the event id to send it under.
    pub(super) fn next(&mut self) -> Option<(String, Request)> {
        if !matches!(self.state, State::Free) {
            return None;
        }
        let request = self.take()?;
        self.asked_so_far += 1;
        let asked = (format!("offhook_{}", self.asked_so_far), request);
        self.asked = Some(asked.clone());
        self.state = State::Asked;
        self.cancelled = false;
        Some(asked)
    }

    pub(super) fn started(&mut self, response: Arc<str>) {
        self.state = State::Active(response);
    }

    /// A response ended. One that was never announced counts as the one we asked for: such ends
    /// have been seen around interruptions.
    pub(super) fn done(&mut self, response: &str) {
        match &self.state {
            State::Active(active) if &**active != response => {}
            State::Free => {}
            State::Active(_) | State::Asked => {
                self.state = State::Free;
                self.asked = None;
                self.cancelled = false;
            }
        }
    }

    pub(super) fn refused(&mut self, event_id: Option<&str>, already_active: bool) -> Refused {
        let about_ours = match (&self.asked, event_id) {
            (Some((ours, _)), Some(theirs)) => ours == theirs,
            (Some(_), None) => already_active,
            (None, _) => false,
        };
        let Some((_, request)) = about_ours.then(|| self.asked.take()).flatten() else {
            return Refused::NotOurs;
        };
        if !already_active {
            if matches!(self.state, State::Asked) {
                self.state = State::Free;
            }
            return Refused::GivenUp;
        }
        // A wish to say something that came meanwhile is newer.
        if request == Request::Reply || self.say.is_none() {
            self.want(request);
        }
        Refused::Waits
    }

    pub(super) fn is_active(&self, response: &str) -> bool {
        matches!(&self.state, State::Active(active) if &**active == response)
    }

    /// Cancels what is asked for or under way, once.
    pub(super) fn cancel(&mut self) -> Option<Cancel> {
        let cancel = match &self.state {
            State::Free => return None,
            State::Asked => Cancel::Asked,
            State::Active(response) => Cancel::Active(response.clone()),
        };
        (!mem::replace(&mut self.cancelled, true)).then_some(cancel)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn say(words: &str) -> Request {
        Request::Say { instructions: words.into() }
    }

    #[test]
    fn a_request_waits_for_the_end_of_the_response_that_is_under_way() {
        let mut floor = Floor::default();
        floor.started("r1".into());
        floor.want(Request::Reply);
        assert_eq!(floor.next(), None);
        floor.done("r0");
        assert_eq!(floor.next(), None, "another response ended");
        floor.done("r1");
        assert_eq!(floor.next().map(|(_, request)| request), Some(Request::Reply));
        assert_eq!(floor.next(), None, "one at a time");
    }

    #[test]
    fn a_request_that_crossed_with_the_servers_own_response_is_sent_again_after_it() {
        let mut floor = Floor::default();
        floor.want(say("hello"));
        let (event_id, _) = floor.next().unwrap();
        floor.started("the server's own".into());
        assert_eq!(floor.refused(Some(&event_id), true), Refused::Waits);
        assert_eq!(floor.next(), None);
        floor.done("the server's own");
        assert_eq!(floor.next().map(|(_, request)| request), Some(say("hello")));
    }

    #[test]
    fn a_refusal_before_the_other_response_was_announced_waits_for_that_response_all_the_same() {
        let mut floor = Floor::default();
        floor.want(Request::Reply);
        let (event_id, _) = floor.next().unwrap();
        assert_eq!(floor.refused(Some(&event_id), true), Refused::Waits);
        assert_eq!(floor.next(), None);
        floor.started("r1".into());
        floor.done("r1");
        assert_eq!(floor.next().map(|(_, request)| request), Some(Request::Reply));
    }

    #[test]
    fn the_newest_wish_to_say_something_wins_and_a_reply_comes_after_it() {
        let mut floor = Floor::default();
        for request in [Request::Reply, say("old"), say("new"), Request::Reply] {
            floor.want(request);
        }
        for expected in [Some(say("new")), Some(Request::Reply), None] {
            assert_eq!(floor.next().map(|(_, request)| request), expected);
            floor.started("r".into());
            floor.done("r");
        }
    }

    #[test]
    fn what_was_forestalled_is_not_said_when_something_newer_is_to_be_said() {
        let mut floor = Floor::default();
        floor.want(say("old"));
        let (event_id, _) = floor.next().unwrap();
        floor.want(say("new"));
        assert_eq!(floor.refused(Some(&event_id), true), Refused::Waits);
        floor.started("r".into());
        floor.done("r");
        assert_eq!(floor.next().map(|(_, request)| request), Some(say("new")));
    }

    #[test]
    fn an_end_without_a_beginning_frees_the_floor() {
        let mut floor = Floor::default();
        floor.want(Request::Reply);
        assert!(floor.next().is_some());
        floor.done("never announced");
        floor.want(say("next"));
        assert!(floor.next().is_some());
    }
}
