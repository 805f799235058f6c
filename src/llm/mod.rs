//! Text to text: the model of a pipeline, which answers a conversation piece by piece.
//!
//! A [`Model`] is one file and one row in [`MODELS`]. It keeps nothing between two answers: the whole conversation is
//! in every [`Ask`].

pub mod attendant;
pub mod openai_chat;

#[cfg(any(test, fuzzing))]
pub use openai_chat::answer::fuzz;

use crate::{
    call::Usage,
    remote::{Fault, kinds::Kind, wards::Oddity},
    sentences::Sentences,
    tool::{ToolCall, schemas::Dialect},
};
use futures_util::future::BoxFuture;
use serde_json::Value;
use std::{sync::Arc, time::Duration};
use tokio::sync::mpsc;

/// A service that answers conversations; one configured model serves all calls.
pub trait Model: Send + Sync {
    /// The name in [`MODELS`], which is also the metric label.
    fn kind(&self) -> &'static str;
    /// How it wants its tools written.
    fn dialect(&self) -> Dialect;
    /// Answers keys that nobody asked for.
    fn takes_keys(&self) -> bool {
        false
    }
    /// Follows [`Order::SumUp`].
    fn summarises(&self) -> bool {
        true
    }
    /// How often it is asked again when it fails in passing.
    fn retries(&self) -> u32 {
        0
    }
    /// How long it is waited for, for the first word of an answer and for each one after it. One on this machine answers at
    /// once.
    fn word_max(&self) -> Duration {
        Duration::ZERO
    }
    /// Streams one answer into `pieces`, which it waits for when they are not taken. Dropping it aborts the request.
    ///
    /// # Errors
    /// A stream that ends in the middle is a fault, and no call of it is told; text may have been.
    fn answer(&self, ask: Ask, pieces: mpsc::Sender<Piece>) -> BoxFuture<'static, Result<Finish, Fault>>;
}

/// What a model is to answer.
#[derive(Debug, Clone)]
pub struct Ask {
    /// In the order in which it was said. A result may come at any place after its call, or not at all.
    pub messages: Vec<Message>,
    /// The answer is to be this, whatever was said; the last message asks for it in words.
    pub order: Option<Order>,
    /// In the model's dialect.
    pub tools: Arc<[Value]>,
    /// Whether it may call a tool now. One that may not is shown them all the same: its earlier calls refer to them.
    pub may_call: bool,
    /// One for all asks of a call, for vendors that keep the beginning of a conversation in a cache.
    pub cache_key: String,
    /// Sentences of the context, for models that compose none.
    pub sentences: Arc<Sentences>,
}

/// An answer that is no answer to the conversation.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Order {
    Greet,
    /// Words of this meaning.
    Say(String),
    /// The last message in short. A model that cannot answers nothing.
    SumUp,
}

#[derive(Debug, Clone, PartialEq)]
pub enum Message {
    System(String),
    Caller(String),
    /// What the agent said, as far as it was heard, and what it called.
    Agent {
        text: String,
        calls: Vec<ToolCall>,
    },
    Result {
        call_id: String,
        output: String,
    },
}

/// A part of an answer.
#[derive(Debug, Clone, PartialEq)]
pub enum Piece {
    /// What comes next; a few letters or many sentences.
    Text(String),
    /// Whole, the arguments as the model wrote them: they may be no JSON. Its id is unique among all calls.
    Call(ToolCall),
    /// Of the whole answer; once, where the vendor tells.
    Usage(Usage),
    /// A message of the service was odd, and cost the answer nothing.
    Oddity(Oddity),
}

/// How an answer ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Finish {
    /// It is whole, whether with calls or without.
    Stop,
    /// It was cut at the limit of its length; no call of it is told.
    Length,
    /// It was cut by the vendor's filter; no call of it is told.
    Filtered,
}

/// One row of [`MODELS`].
type ModelKind = Kind<dyn Model>;

/// Every kind of model there is.
pub const MODELS: &[ModelKind] = &[attendant::KIND, openai_chat::KIND];
