//! What a context says itself, as it is written. As in [`raw`](super::raw), operators read the comments.

use super::{defaults, raw::DurationText, values};
use crate::{
    call::CallRules,
    sentences::{Language, Sentence},
};
use schemars::JsonSchema;
use serde::Deserialize;
use serde_json::{Value, json};
use std::{borrow::Cow, collections::BTreeMap};

/// A minute of speech; whoever has more to say to a caller should not say it by telephone.
const CHARS_MAX: usize = 1_000;

#[derive(Debug, Default, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(super) struct Fillers {
    /// Where silence would be unexplained.
    #[schemars(extend("default" = own(Sentence::Moment)))]
    pub moment: Option<Words>,
    /// Where the wait goes on, every few seconds.
    #[schemars(extend("default" = own(Sentence::Patience)))]
    pub patience: Option<Words>,
}

/// Default in a context that names no language.
pub(super) const fn own(sentence: Sentence) -> &'static str {
    sentence.text(Language::English)
}

#[derive(Debug, Default, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(super) struct Sentences {
    /// Said before a call ends that has lasted as long as `limits.call` lets it.
    #[schemars(length(min = 1, max = CHARS_MAX), extend("default" = own(Sentence::CallTooLong)))]
    pub call_too_long: Option<String>,
    /// Said to a caller who comes back from hold.
    #[schemars(length(min = 1, max = CHARS_MAX), extend("default" = own(Sentence::AfterHold)))]
    pub after_hold: Option<String>,
    /// Said where the model of a pipeline has nothing to say.
    #[schemars(length(min = 1, max = CHARS_MAX), extend("default" = own(Sentence::NotAnswered)))]
    pub not_answered: Option<String>,
    /// Said when the destination of a transfer does not answer.
    #[schemars(length(min = 1, max = CHARS_MAX), extend("default" = own(Sentence::TransferNoAnswer)))]
    pub transfer_no_answer: Option<String>,
    /// Said when the destination of a transfer is busy.
    #[schemars(length(min = 1, max = CHARS_MAX), extend("default" = own(Sentence::TransferBusy)))]
    pub transfer_busy: Option<String>,
    /// Said when the destination of a transfer declines the call.
    #[schemars(length(min = 1, max = CHARS_MAX), extend("default" = own(Sentence::TransferRefused)))]
    pub transfer_refused: Option<String>,
    /// Said when the destination of a transfer does not exist or cannot be reached.
    #[schemars(length(min = 1, max = CHARS_MAX), extend("default" = own(Sentence::TransferUnreachable)))]
    pub transfer_unreachable: Option<String>,
    /// Said before the question whether a tool may run, where that is made of its name and its arguments: `tools.NAME.confirm` is a
    /// question in words of your own.
    #[schemars(length(min = 1, max = CHARS_MAX), extend("default" = own(Sentence::ShallI)))]
    pub shall_i: Option<String>,
    /// Said by an attendant that hands the caller on, where its entry says nothing.
    #[schemars(length(min = 1, max = CHARS_MAX), extend("default" = own(Sentence::Connecting)))]
    pub connecting: Option<String>,
    /// Said by an attendant that ends the call, where its entry says nothing.
    #[schemars(length(min = 1, max = CHARS_MAX), extend("default" = own(Sentence::Goodbye)))]
    pub goodbye: Option<String>,
    /// Said by an attendant that has taken a message or the like, where its entry says nothing.
    #[schemars(length(min = 1, max = CHARS_MAX), extend("default" = own(Sentence::Done)))]
    pub done: Option<String>,
    /// Said by an attendant when the PIN that a caller has typed is theirs, where its entry says nothing.
    #[schemars(length(min = 1, max = CHARS_MAX), extend("default" = own(Sentence::PinRight)))]
    pub pin_right: Option<String>,
    /// Said by an attendant when the PIN that a caller has typed is another, where its entry says nothing.
    #[schemars(length(min = 1, max = CHARS_MAX), extend("default" = own(Sentence::PinWrong)))]
    pub pin_wrong: Option<String>,
    /// Said by an attendant that has collected digits, where its entry says nothing.
    #[schemars(length(min = 1, max = CHARS_MAX), extend("default" = own(Sentence::DigitsTaken)))]
    pub digits_taken: Option<String>,
    /// Said by an attendant of an extension that is free, where its entry says nothing.
    #[schemars(length(min = 1, max = CHARS_MAX), extend("default" = own(Sentence::ExtensionFree)))]
    pub extension_free: Option<String>,
    /// Said by an attendant of an extension that is on another call or ringing, where its entry says nothing.
    #[schemars(length(min = 1, max = CHARS_MAX), extend("default" = own(Sentence::ExtensionBusy)))]
    pub extension_busy: Option<String>,
    /// Said by an attendant of an extension that is not available, where its entry says nothing.
    #[schemars(length(min = 1, max = CHARS_MAX), extend("default" = own(Sentence::ExtensionUnreachable)))]
    pub extension_unreachable: Option<String>,
    /// Said before a caller types a PIN.
    #[schemars(length(min = 1, max = CHARS_MAX), extend("default" = own(Sentence::EnterPin)))]
    pub enter_pin: Option<String>,
    /// Said after a request for digits that end with the hash key.
    #[schemars(length(min = 1, max = CHARS_MAX), extend("default" = own(Sentence::EndWithHash)))]
    pub end_with_hash: Option<String>,
    /// Said after a request for digits that end with the star key.
    #[schemars(length(min = 1, max = CHARS_MAX), extend("default" = own(Sentence::EndWithStar)))]
    pub end_with_star: Option<String>,
}

#[derive(Debug, Default, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(super) struct Menu {
    /// What the caller hears: which key leads where.
    #[schemars(required)]
    pub say: Option<Words>,
    /// Where each key (`0` to `9`, `*`, `#`, in quotes) leads: `transfer: NAME`, one of `destinations`;
    /// `voicemail: NAME`, one of `voicemail.mailboxes`; `dialplan`; or `hang_up`.
    #[schemars(required, extend("propertyNames" = keys(), "minProperties" = 1))]
    pub keys: Option<BTreeMap<String, MenuStep>>,
    /// How often the menu is heard before `on_failure.then` decides.
    #[schemars(range(min = 1, max = 5), extend("default" = defaults::MENU_ROUNDS))]
    pub rounds: Option<u64>,
    /// How long a key is waited for, each time after the menu was heard.
    #[schemars(extend("default" = defaults::MENU_WAIT))]
    pub wait: Option<DurationText>,
}

fn keys() -> Value {
    json!({ "pattern": "^[0-9*#]$", "title": "one key of a telephone: 0 to 9, * or #, in quotes" })
}

#[derive(Debug, Default, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(super) struct Recovery {
    /// Sessions that may be begun to replace lost ones until an answer comes to its end, or two minutes pass without a loss.
    #[schemars(range(max = 20), extend("default" = CallRules::default().recovery.attempts))]
    pub attempts: Option<u64>,
    /// From the loss until another agent has the call; after that `on_failure` holds.
    #[schemars(extend("default" = values::duration_text(CallRules::default().recovery.within)))]
    pub within: Option<DurationText>,
}

/// Text, or a recording of it. Any value, since parts may have been cut out.
#[derive(Debug, Deserialize)]
#[serde(transparent)]
pub(super) struct Words(pub Value);

impl JsonSchema for Words {
    fn inline_schema() -> bool {
        true
    }

    fn schema_name() -> Cow<'static, str> {
        "Words".into()
    }

    fn json_schema(_: &mut schemars::SchemaGenerator) -> schemars::Schema {
        let text = json!({ "type": "string", "minLength": 1, "maxLength": CHARS_MAX });
        schemars::json_schema!({
            "title": "text, or file: WAV and text: its words",
            "anyOf": [
                text,
                {
                    "type": "object",
                    "properties": { "file": { "type": "string", "minLength": 1 }, "text": text },
                    "required": ["file", "text"],
                    "additionalProperties": false,
                },
            ],
        })
    }
}

/// `hang_up`, `dialplan`, `{transfer: NAME}` or `{voicemail: NAME}`; any value, since the name may have been cut out.
#[derive(Debug, Deserialize)]
#[serde(transparent)]
pub(super) struct MenuStep(pub Value);

impl JsonSchema for MenuStep {
    fn inline_schema() -> bool {
        true
    }

    fn schema_name() -> Cow<'static, str> {
        "MenuStep".into()
    }

    fn json_schema(_: &mut schemars::SchemaGenerator) -> schemars::Schema {
        let to = |way: &str| {
            json!({
                "type": "object",
                "properties": { way: { "type": "string" } },
                "required": [way],
                "additionalProperties": false,
            })
        };
        schemars::json_schema!({
            "title": "hang_up, dialplan, transfer: NAME or voicemail: NAME",
            "anyOf": [{ "type": "string", "enum": ["hang_up", "dialplan"] }, to("transfer"), to("voicemail")],
        })
    }
}
