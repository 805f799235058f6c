//! Destinations, mailboxes and extensions.

use super::{Resolver, raw};
use crate::config::{
    Destination, ExtensionsConfig, Mailbox, Place, RingGroup, VoicemailConfig, Way, defaults, problem::Path, values,
};
use std::time::Duration;

/// A telephone that rings for less is not answered.
const RING_MIN: Duration = Duration::from_secs(1);
/// Nobody listens to ringing for longer.
const RING_MAX: Duration = Duration::from_secs(5 * 60);

impl Resolver<'_> {
    pub(super) fn destination(&mut self, raw: raw::Destination, path: &Path) -> Destination {
        let description = raw.description.unwrap_or_default();
        let place = [("context", raw.context.is_some()), ("extension", raw.extension.is_some())];
        let Some(dial) = raw.dial else {
            for (key, _) in place.into_iter().filter(|(_, written)| !written) {
                let hint = "a destination is a context and an extension of the dialplan, or endpoints to dial";
                // A key with a mistake of its own was cut out.
                if [key, "dial"].iter().all(|key| !self.report.mentions(&path.key(key))) {
                    self.problem(&path.key(key), "required, but missing", Some(hint.into()));
                }
            }
            if raw.ring.is_some() && !self.report.mentions(&path.key("dial")) {
                self.problem(&path.key("ring"), "rings nothing: there is no dial", None);
            }
            let way = Way::Dialplan(Place {
                context: raw.context.unwrap_or_default(),
                extension: raw.extension.unwrap_or_default(),
                priority: raw.priority.unwrap_or(defaults::PRIORITY).try_into().unwrap_or(u32::MAX),
            });
            return Destination { description, way };
        };
        for (key, _) in place.into_iter().chain([("priority", raw.priority.is_some())]).filter(|(_, written)| *written)
        {
            let message = "a destination has a place in the dialplan or endpoints to dial, not both";
            self.problem(&path.key(key), message, None);
        }
        let usual = values::duration(defaults::RING).unwrap_or(RING_MIN);
        let ring_path = path.key("ring");
        let mut limit = self.duration(raw.ring, usual, Duration::ZERO, &ring_path);
        if !(RING_MIN..=RING_MAX).contains(&limit) {
            self.problem(&ring_path, "has to be between a second and five minutes", None);
            limit = usual;
        }
        let endpoints = dial.into_iter().flatten().map(|endpoint| endpoint.0).collect();
        Destination { description, way: Way::Dial(RingGroup { endpoints, limit }) }
    }
}

pub(super) fn voicemail(raw: raw::Voicemail) -> VoicemailConfig {
    let mailbox = |raw: raw::Mailbox| Mailbox {
        description: raw.description.unwrap_or_default(),
        mailbox: raw.mailbox.unwrap_or_default(),
    };
    VoicemailConfig {
        place: Place {
            context: raw.context.unwrap_or_else(|| defaults::VOICEMAIL_CONTEXT.into()),
            extension: "s".into(),
            priority: 1,
        },
        mailboxes: raw.mailboxes.unwrap_or_default().into_iter().map(|(name, raw)| (name, mailbox(raw))).collect(),
    }
}

pub(super) fn extensions(raw: raw::Extensions) -> ExtensionsConfig {
    ExtensionsConfig {
        allow: raw.allow.unwrap_or_default().into_iter().flatten().map(|pattern| pattern.0).collect(),
        device: raw.device.unwrap_or_else(|| defaults::EXTENSION_DEVICE.into()),
        do_not_disturb: raw.do_not_disturb.unwrap_or_default().into_iter().flatten().map(|device| device.0).collect(),
    }
}
