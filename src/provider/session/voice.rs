//! The agent's speech on its way to the leg's format.

use crate::{
    audio::{Converter, Format},
    call::{AgentEvent, ItemId, ResponseId},
};
use bytes::Bytes;
use std::collections::VecDeque;

/// Items before the one that is being spoken whose late audio is still known as theirs. One is cut off at a time, and its
/// audio comes within a second; more would be a vendor that mixes everything.
const EARLIER_MAX: usize = 4;

/// Converts item by item, so that no answer begins with the end of another, nor is broken by what still comes of one.
pub(super) struct Voice {
    from: Format,
    to: Format,
    item: Option<Item>,
    earlier: VecDeque<Item>,
}

struct Item {
    response: ResponseId,
    id: ItemId,
    converter: Converter,
}

impl Voice {
    pub(super) fn new(from: Format, to: Format) -> Self {
        Self { from, to, item: None, earlier: VecDeque::new() }
    }

    /// Appends `audio` as the leg wants it; without bytes it ends the item.
    pub(super) fn push(&mut self, response: ResponseId, id: ItemId, audio: Bytes, events: &mut VecDeque<AgentEvent>) {
        if audio.is_empty() {
            return self.end(events);
        }
        if self.from == self.to {
            events.push_back(AgentEvent::Audio { response, item: id, audio });
            return;
        }
        let is = |item: &Item| item.id == id && item.response == response;
        let earlier = self.earlier.iter().position(is);
        match (&mut self.item, earlier) {
            (Some(item), _) if is(item) => item.push(&audio, events),
            (Some(_), Some(at)) => self.earlier[at].push(&audio, events),
            _ => {
                self.end(events);
                let converter = Converter::new(self.from, self.to);
                self.item.insert(Item { response, id, converter }).push(&audio, events);
            }
        }
    }

    /// Brings out what the converter still holds.
    pub(super) fn end(&mut self, events: &mut VecDeque<AgentEvent>) {
        let Some(mut item) = self.item.take() else { return };
        let mut converted = Vec::new();
        item.converter.flush(&mut converted);
        item.emit(converted, events);
        item.converter = Converter::new(self.from, self.to);
        self.earlier.retain(|earlier| earlier.id != item.id || earlier.response != item.response);
        if self.earlier.len() == EARLIER_MAX {
            self.earlier.pop_front();
        }
        self.earlier.push_back(item);
    }
}

impl Item {
    fn push(&mut self, audio: &[u8], events: &mut VecDeque<AgentEvent>) {
        let mut converted = Vec::with_capacity(audio.len());
        self.converter.push(audio, &mut converted);
        self.emit(converted, events);
    }

    fn emit(&self, converted: Vec<u8>, events: &mut VecDeque<AgentEvent>) {
        if !converted.is_empty() {
            let (response, item) = (self.response.clone(), self.id.clone());
            events.push_back(AgentEvent::Audio { response, item, audio: converted.into() });
        }
    }
}
