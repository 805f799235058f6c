//! The agent's speech on its way to the leg's format.

use crate::{
    audio::{Converter, Format},
    call::{AgentEvent, ItemId, ResponseId},
};
use bytes::Bytes;
use std::collections::VecDeque;

/// Converts item by item, so that no answer begins with the end of another.
pub(super) struct Voice {
    from: Format,
    to: Format,
    item: Option<Item>,
}

struct Item {
    response: ResponseId,
    id: ItemId,
    converter: Converter,
}

impl Voice {
    pub(super) fn new(from: Format, to: Format) -> Self {
        Self { from, to, item: None }
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
        if self.item.as_ref().is_some_and(|item| item.id != id || item.response != response) {
            self.end(events);
        }
        let (from, to) = (self.from, self.to);
        let item = self.item.get_or_insert_with(|| Item { response, id, converter: Converter::new(from, to) });
        let mut converted = Vec::with_capacity(audio.len());
        item.converter.push(&audio, &mut converted);
        item.emit(converted, events);
    }

    /// Brings out what the converter still holds.
    pub(super) fn end(&mut self, events: &mut VecDeque<AgentEvent>) {
        let Some(mut item) = self.item.take() else { return };
        let mut converted = Vec::new();
        item.converter.flush(&mut converted);
        item.emit(converted, events);
    }
}

impl Item {
    fn emit(&self, converted: Vec<u8>, events: &mut VecDeque<AgentEvent>) {
        if !converted.is_empty() {
            let (response, item) = (self.response.clone(), self.id.clone());
            events.push_back(AgentEvent::Audio { response, item, audio: converted.into() });
        }
    }
}
