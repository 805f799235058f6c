//! The configuration as it is written. Each doc comment here is read by operators: it becomes the
//! key's description in the JSON Schema and in the reference.
//!
//! Everything is optional, so that what is left after a mistake was cut out can still be read.
//! What is really required says so to the schema (`schemars(required)`).

use super::{
    defaults,
    raw_mcp::Mcp,
    raw_policy::{Policy, ToolsRules},
    raw_price::Price,
    raw_records::Records,
    raw_speech::{Fillers, Menu, Recovery, Sentences, Words, own},
    raw_tenant::Tenant,
    raw_turns::Turns,
    raw_vam::Vam,
    values,
};
use crate::{
    call::CallRules,
    sentences::{Language, Sentence},
};
use schemars::JsonSchema;
use serde::Deserialize;
use serde_json::{Value, json};
use std::collections::BTreeMap;

/// Names of contexts, providers and destinations: they stand in metrics, logs and dialplans.
const NAME_PATTERN: &str = "^[A-Za-z0-9_-]{1,64}$";

#[derive(Debug, Default, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(super) struct Raw {
    /// The Asterisk that offhook attaches to. Without this section offhook does not use ARI: calls
    /// then come by `AudioSocket()` from the dialplan only, with neither RTP nor transfer.
    pub asterisk: Option<Asterisk>,
    /// How audio travels between Asterisk and offhook.
    pub media: Option<Media>,
    /// The pages: calls, health, metrics and reload.
    pub http: Option<Http>,
    /// Limits of the engine as a whole.
    pub limits: Option<Limits>,
    /// The context that takes calls whose `AI_CONTEXT` is missing or unknown. Without it such calls
    /// go back to the dialplan.
    #[schemars(length(min = 1))]
    pub default_context: Option<String>,
    /// AI providers by a name of your choice. Each entry has exactly one key, the kind of provider,
    /// with its options below it.
    #[schemars(required, extend("propertyNames" = names(), "minProperties" = 1))]
    pub providers: Option<BTreeMap<String, BTreeMap<String, Value>>>,
    /// Who writes down what callers say, for pipelines, by a name of your choice. Each entry has exactly one key, the
    /// kind of listener, with its options below it.
    #[schemars(extend("propertyNames" = names()))]
    pub stt: Option<BTreeMap<String, BTreeMap<String, Value>>>,
    /// Who answers in pipelines, by a name of your choice. Each entry has exactly one key, the kind of model, with its
    /// options below it.
    #[schemars(extend("propertyNames" = names()))]
    pub llm: Option<BTreeMap<String, BTreeMap<String, Value>>>,
    /// Who speaks in pipelines, and what the engine says itself, by a name of your choice. Each entry has exactly one key,
    /// the kind of voice, with its options below it.
    #[schemars(extend("propertyNames" = names()))]
    pub voices: Option<BTreeMap<String, BTreeMap<String, Value>>>,
    /// Where `transfer` may send a caller, by the name the model uses.
    #[schemars(extend("propertyNames" = names()))]
    pub destinations: Option<BTreeMap<String, Destination>>,
    /// How the tool calls of all contexts are held. A context's own `policy` goes before it, key by
    /// key.
    pub policy: Option<Policy>,
    /// What you say of single tools by their name, whoever made them: built-in, declarative, MCP.
    pub tools: Option<ToolsRules>,
    /// Whose declarative tools there are. With one entry every context has its tools; with more, a
    /// context says which.
    #[schemars(extend("propertyNames" = names()))]
    pub tenants: Option<BTreeMap<String, Tenant>>,
    /// Mailboxes of Asterisk that `leave_voicemail` may send a caller to.
    pub voicemail: Option<Voicemail>,
    /// Extensions whose state `check_extension_status` may tell.
    pub extensions: Option<Extensions>,
    /// Mail, for messages that callers leave and for transcripts. Without this section none is sent.
    pub mail: Option<Mail>,
    /// Records of ended calls: what was said, which tools ran, what it cost and why each ended. Without this section
    /// nothing of a call outlives the engine.
    pub records: Option<Records>,
    /// Who has the turn, in contexts that do not say it themselves.
    pub turns: Option<Turns>,
    /// MCP servers, whose tools contexts can list.
    pub mcp: Option<Mcp>,
    /// VAM/1.0 by gRPC: action servers that register their tools, conversations of clients. Without this section nothing is served there.
    pub vam: Option<Vam>,
    /// What providers cost, so that calls are told with their cost. A key is a name of `providers`, or
    /// `KIND/MODEL` for all entries with this model; the name goes first. offhook knows no price by itself.
    pub prices: Option<BTreeMap<String, Price>>,
    /// The agents, by the name that `AI_CONTEXT` or `Stasis(offhook,NAME)` chooses.
    #[schemars(required, extend("propertyNames" = names(), "minProperties" = 1))]
    pub contexts: Option<BTreeMap<String, Context>>,
}

pub(super) fn names() -> Value {
    json!({ "pattern": NAME_PATTERN })
}

#[derive(Debug, Default, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(super) struct Asterisk {
    /// Where Asterisk's HTTP server answers, with the `prefix` of `http.conf` if it has one; `/ari`
    /// is added. With `https://` the certificate is verified.
    #[schemars(extend("default" = defaults::ASTERISK_URL, "title" = "an address such as http://127.0.0.1:8088"))]
    pub url: Option<String>,
    /// The user of `ari.conf`.
    #[schemars(length(min = 1), extend("default" = defaults::ASTERISK_USERNAME))]
    pub username: Option<String>,
    /// The user's password. Write a variable, not the password itself.
    #[schemars(required, length(min = 1))]
    pub password: Option<String>,
    /// The name of the application in `Stasis(NAME)`.
    #[schemars(regex(pattern = NAME_PATTERN))]
    #[schemars(extend("default" = defaults::ASTERISK_APP, "title" = "a name of letters, digits, _ and -"))]
    pub app: Option<String>,
    /// Treatment of the name and number of a caller who withholds them: `hide` keeps them from the agent, its tools, the
    /// pages, mail and records; `keep` does not. Telephones that `transfer` rings are never shown them.
    #[schemars(extend("default" = "hide", "enum" = ["hide", "keep"]))]
    pub withheld_numbers: Option<String>,
}

#[derive(Debug, Default, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(super) struct Media {
    /// Transport and format for contexts and calls that name none. `AI_AUDIO` overrides it per call. A WebSocket goes to
    /// Asterisk's HTTP server, at `asterisk.url`: there is nothing else to set.
    #[schemars(extend("default" = defaults::AUDIO))]
    pub default: Option<AudioText>,
    /// What a caller hears while a destination's telephones ring: `etsi`, 425 Hz once in five seconds,
    /// or `us`, 440 and 480 Hz once in six.
    #[schemars(extend("default" = defaults::RING_TONE, "enum" = values::RING_TONES))]
    pub ring_tone: Option<String>,
    /// A WAV file, 16-bit mono, that a caller hears again and again instead of `ring_tone`; relative to this
    /// file's folder.
    pub ring_music: Option<String>,
    /// The AudioSocket server, which Asterisk connects to.
    pub audiosocket: Option<AudioSocket>,
    /// RTP by Asterisk's external media. It needs ARI.
    pub rtp: Option<Rtp>,
}

#[derive(Debug, Default, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(super) struct AudioSocket {
    /// Where offhook listens. Anyone who can connect here can call.
    #[schemars(extend("default" = defaults::AUDIOSOCKET_BIND, "title" = "IP:PORT"))]
    pub bind: Option<String>,
    /// What Asterisk is told to connect to, if that differs from `bind` (containers, NAT).
    #[schemars(extend("title" = "HOST:PORT"))]
    pub advertise: Option<String>,
}

#[derive(Debug, Default, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(super) struct Rtp {
    /// The address of the RTP sockets.
    #[schemars(extend("default" = defaults::RTP_BIND, "title" = "IP address"))]
    pub bind: Option<String>,
    /// The address that Asterisk is told to send to, if that differs from `bind`.
    #[schemars(extend("title" = "host or IP address"))]
    pub advertise: Option<String>,
    /// The ports of the RTP sockets. Each call takes an even one, so a range of 1000 carries 500
    /// calls.
    #[schemars(regex(pattern = "^[0-9]{1,5}-[0-9]{1,5}$"))]
    #[schemars(extend("default" = defaults::RTP_PORTS, "title" = "a range of ports such as 21000-21999"))]
    pub ports: Option<String>,
}

#[derive(Debug, Default, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(super) struct Http {
    /// Where the page and the API answer. Write a loopback or private address: `/metrics` and the health checks ask for no
    /// password, and nothing is encrypted.
    #[schemars(extend("default" = defaults::HTTP_BIND, "title" = "IP:PORT"))]
    pub bind: Option<String>,
    /// A bearer token with which programs may do what an admin may, beside those of `offhook token`; at least 16 characters.
    /// Write a variable, not the token itself. Without it, without `public_url` and without tokens of `offhook token`, programs on
    /// this machine get `/calls`, `/reload`, `/mcp/status` and `/mcp/test` without one.
    #[schemars(length(min = 16))]
    pub admin_token: Option<String>,
    /// The file of who may log in and of the tokens of programs, starting from this file's folder. It is made at the first start,
    /// and changed by `offhook account` and `offhook token`; it holds no password and no token, only hashes.
    #[schemars(length(min = 1), extend("default" = defaults::HTTP_ACCOUNTS))]
    pub accounts: Option<String>,
    /// Where browsers find the page if that is not `bind`, such as `https://voice.example.com`: behind a server that adds TLS.
    /// Without a path. With `https://`, cookies are never sent unencrypted.
    #[schemars(extend("title" = "an address such as https://voice.example.com"))]
    pub public_url: Option<String>,
}

#[derive(Debug, Default, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(super) struct Limits {
    /// Calls at once. The next one goes back to the dialplan with `OFFHOOK_STATUS=FULL`.
    #[schemars(range(min = 1, max = 10_000), extend("default" = defaults::CALLS))]
    pub calls: Option<u64>,
    /// How long a stopping engine waits for the calls that are running.
    #[schemars(extend("default" = defaults::DRAIN))]
    pub drain: Option<DurationText>,
}

#[derive(Debug, Default, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(super) struct Destination {
    /// What the model reads about it: who is there, and when to send a caller.
    #[schemars(required, length(min = 1))]
    pub description: Option<String>,
    /// The context in the dialplan. The caller is handed over to the dialplan for good; the other
    /// way is `dial`.
    #[schemars(regex(pattern = "^[A-Za-z0-9_.-]{1,79}$"))]
    #[schemars(extend("title" = "a name of the dialplan: letters, digits, _ . -"))]
    pub context: Option<String>,
    /// The extension in the dialplan, in quotes if it is a number.
    #[schemars(regex(pattern = "^[A-Za-z0-9_.+*#-]{1,79}$"))]
    #[schemars(extend("title" = "an extension: letters, digits, _ . + * # -"))]
    pub extension: Option<String>,
    /// The priority in the dialplan.
    #[schemars(range(min = 1, max = 10_000), extend("default" = defaults::PRIORITY))]
    pub priority: Option<u64>,
    /// Endpoints to ring instead, all at once, such as `PJSIP/100`, or `Local/700@queues` for an
    /// extension or a queue of the dialplan. The first that answers is connected with the caller; when
    /// none does, the caller is with the agent again.
    #[schemars(length(min = 1, max = 16))]
    pub dial: Option<Vec<Option<Endpoint>>>,
    /// How long they ring.
    #[schemars(extend("default" = defaults::RING))]
    pub ring: Option<DurationText>,
}

#[derive(Debug, Default, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(super) struct Voicemail {
    /// The context in the dialplan that takes messages; `dialplan/` has it.
    #[schemars(regex(pattern = "^[A-Za-z0-9_.-]{1,79}$"))]
    #[schemars(extend("default" = defaults::VOICEMAIL_CONTEXT, "title" = "a name of the dialplan: letters, digits, _ . -"))]
    pub context: Option<String>,
    /// The mailboxes by the name the model uses.
    #[schemars(required, extend("propertyNames" = names(), "minProperties" = 1))]
    pub mailboxes: Option<BTreeMap<String, Mailbox>>,
}

#[derive(Debug, Default, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(super) struct Mailbox {
    /// What the model reads about it: whose mailbox it is.
    #[schemars(required, length(min = 1))]
    pub description: Option<String>,
    /// The mailbox in `voicemail.conf`, with its context: `100@default`.
    #[schemars(required, regex(pattern = "^[A-Za-z0-9_.-]{1,64}@[A-Za-z0-9_.-]{1,64}$"))]
    #[schemars(extend("title" = "MAILBOX@CONTEXT"))]
    pub mailbox: Option<String>,
}

#[derive(Debug, Default, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(super) struct Mail {
    /// The name of the SMTP server; its certificate has to be for this name.
    #[schemars(required, length(min = 1))]
    pub server: Option<String>,
    /// Its port: 465 with `tls: implicit`, 587 with `starttls`, 25 with `none`, unless told otherwise.
    #[schemars(range(min = 1, max = 65_535))]
    pub port: Option<u64>,
    /// `implicit`: TLS from the first byte; `starttls`: TLS before anything is said; `none`: only for a
    /// server on this machine.
    #[schemars(extend("default" = "implicit", "enum" = ["implicit", "starttls", "none"]))]
    pub tls: Option<String>,
    /// A PEM file of authorities to trust besides the system's; relative to this file's folder.
    #[schemars(length(min = 1))]
    pub ca_file: Option<String>,
    /// For a server that wants a login.
    #[schemars(length(min = 1))]
    pub username: Option<String>,
    /// Its password. Write a variable, not the password itself.
    #[schemars(length(min = 1))]
    pub password: Option<String>,
    /// Who the mail is from: an address, or `Name <address>`.
    #[schemars(required, length(min = 1))]
    pub from: Option<String>,
    /// Addresses by a name. Mail goes to these and to no others, whatever a model asks.
    #[schemars(required, extend("propertyNames" = names(), "minProperties" = 1))]
    pub mailboxes: Option<BTreeMap<String, String>>,
}

#[derive(Debug, Default, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(super) struct Extensions {
    /// Which extensions may be asked about, as patterns of the dialplan without the `_`: digits, `X`
    /// (0-9), `Z` (1-9), `N` (2-9), `[15-7]`. Nothing else is looked up, whatever the model asks.
    #[schemars(required, length(min = 1, max = 100))]
    pub allow: Option<Vec<Option<ExtensionPattern>>>,
    /// The device behind an extension.
    #[schemars(regex(pattern = "^[A-Za-z0-9]{1,32}[/:][A-Za-z0-9_.@{}-]{1,100}$"))]
    #[schemars(extend("default" = defaults::EXTENSION_DEVICE, "title" = "a device such as PJSIP/{extension}"))]
    pub device: Option<String>,
    /// Devices that tell that an extension wants not to be called, such as `Custom:DND{extension}` of FreePBX: while one of them is
    /// in use, the extension is not available, whatever its telephone says.
    #[schemars(length(max = 10))]
    pub do_not_disturb: Option<Vec<Option<Device>>>,
}

/// `Custom:DND{extension}`.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(transparent)]
#[schemars(inline, extend("pattern" = "^[A-Za-z0-9]{1,32}[/:][A-Za-z0-9_.@{}-]{1,100}$", "title" = "a device such as Custom:DND{extension}"))]
pub(super) struct Device(pub String);

/// `PJSIP/100`.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(transparent)]
#[schemars(inline, extend("pattern" = "^[A-Za-z0-9]{1,32}/[A-Za-z0-9_.+*#:@/;=-]{1,200}$", "title" = "an endpoint such as PJSIP/100"))]
pub(super) struct Endpoint(pub String);

/// `2XX`.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(transparent)]
#[schemars(inline, extend("pattern" = "^([0-9XZN*#]|\\[[0-9-]+\\]){1,20}$", "title" = "a pattern such as 2XX, in quotes if it is a number"))]
pub(super) struct ExtensionPattern(pub String);

#[derive(Debug, Default, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(super) struct Context {
    /// Who the agent is and what it should do. `{placeholders}` are filled per call.
    #[schemars(required)]
    pub prompt: Option<String>,
    /// What the agent says first, with `{placeholders}`. Without it the model chooses its own words.
    /// `AI_GREETING` overrides it per call, in which `{channel.NAME}` is empty: the dialplan writes `${NAME}`.
    pub greeting: Option<String>,
    /// Who says the greeting: `agent`, in its own voice, or `clip`, the context's `voice`, word for word
    /// and as soon as the call is answered. Without this key it is `clip` where `voice` is written, and
    /// `agent` elsewhere.
    #[schemars(extend("enum" = ["agent", "clip"]))]
    pub greeting_by: Option<String>,
    /// What everybody hears first and to its end, before any greeting: that the call is recorded, say.
    pub notice: Option<Words>,
    /// Keep the sound of calls in the folder of `records`: the caller on the left, what the caller hears on the right. Nothing
    /// of the caller is kept before `notice` was heard, nor what is typed for tools alone.
    #[schemars(extend("default" = false))]
    pub recording: Option<bool>,
    /// The entry of `voices` that speaks what the engine says itself: notice, greeting, fillers, tools'
    /// announcements, apology and menu. Without it espeak-ng speaks what is written, in the context's language.
    pub voice: Option<String>,
    /// Language of what offhook says itself, as a tag of BCP 47 such as `de`. offhook has its sentences in en, de, es, fr, it, pt,
    /// nl, hi, ar and no; for another language write each of them, and `offhook check` names their keys. The agent is
    /// told it for its first words; which language it speaks after them, `prompt` tells it.
    #[schemars(length(min = 2, max = 35), extend("default" = Language::English.code()))]
    pub language: Option<String>,
    /// Sentences that offhook has the agent say, in your own words.
    pub sentences: Option<Sentences>,
    /// What callers hear while they wait.
    pub fillers: Option<Fillers>,
    /// The entry of `providers` that speaks. `AI_PROVIDER` overrides it per call.
    #[schemars(required)]
    pub provider: Option<String>,
    /// Entries of `providers` that carry the call on when the first one fails, in this order.
    #[schemars(length(max = 8), extend("default" = json!([])))]
    pub fallbacks: Option<Vec<Option<String>>>,
    /// The tools of this agent by name. Nothing else is shown to the model, and nothing else runs.
    #[schemars(extend("default" = json!([])))]
    pub tools: Option<Vec<Option<String>>>,
    /// The entry of `tenants` whose tools it may list.
    pub tenant: Option<String>,
    /// How its tool calls are held, where that differs from the section `policy`.
    pub policy: Option<Policy>,
    /// Transport and format of this context's calls, instead of `media.default`.
    pub audio: Option<AudioText>,
    /// The first eight hex digits of the UUIDs by which `AudioSocket()` in the dialplan chooses this
    /// context: `0ff40001` for `0ff40001-…`. In quotes if there are only digits.
    #[schemars(regex(pattern = "^[0-9a-fA-F]{8}$"), extend("title" = "eight hex digits such as 0ff40001"))]
    pub audiosocket_id: Option<String>,
    /// Limits of each call.
    pub limits: Option<CallLimits>,
    /// Who has the turn: what interrupts the agent, and what ends the caller's turn.
    pub turns: Option<Turns>,
    /// What happens when the caller says nothing.
    pub no_input: Option<NoInput>,
    /// What happens when the agent is lost.
    pub on_failure: Option<Failure>,
    /// The entry of `mail.mailboxes` that gets what callers leave; needed when there are several.
    #[schemars(length(min = 1))]
    pub mailbox: Option<String>,
}

#[derive(Debug, Default, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(super) struct CallLimits {
    /// The longest a call may last.
    #[schemars(extend("default" = values::duration_text(CallRules::default().call_max)))]
    pub call: Option<DurationText>,
    /// From the answer until the agent is ready; after that it counts as lost.
    #[schemars(extend("default" = values::duration_text(CallRules::default().agent_ready_max)))]
    pub agent_ready: Option<DurationText>,
    /// The longest a waiting caller hears nothing from the agent; after that it counts as lost. Where it is not written, 5s;
    /// with Deepgram the time in which its listener finds the end of a turn comes on top, and a pipeline has as long as its
    /// services may take one after the other.
    pub agent_silence: Option<DurationText>,
    /// The caller hears ringing until the agent has something to say, and at most so long.
    #[schemars(extend("default" = values::duration_text(CallRules::default().answer_max)))]
    pub answer: Option<DurationText>,
    /// Who waits for an answer hears something after so much silence, if only `fillers.moment`.
    #[schemars(extend("default" = values::duration_text(CallRules::default().quiet_max)))]
    pub quiet: Option<DurationText>,
    /// How hard it is tried to replace an agent that was lost.
    pub recovery: Option<Recovery>,
    /// The longest one tool call may run.
    #[schemars(extend("default" = values::duration_text(CallRules::default().tool_max)))]
    pub tool: Option<DurationText>,
    /// The longest a farewell may take before the call ends anyway.
    #[schemars(extend("default" = values::duration_text(CallRules::default().farewell_max)))]
    pub farewell: Option<DurationText>,
}

#[derive(Debug, Default, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(super) struct NoInput {
    /// How long the caller may say nothing.
    #[schemars(extend("default" = values::duration_text(CallRules::default().no_input_after)))]
    pub after: Option<DurationText>,
    /// How often the agent asks before it hangs up.
    #[schemars(range(max = 10), extend("default" = CallRules::default().no_input_prompts))]
    pub prompts: Option<u64>,
    /// Sentence that the agent says then. An attendant reads it out as it stands.
    #[schemars(length(min = 1), extend("default" = own(Sentence::AreYouThere)))]
    pub say: Option<String>,
    /// Sentence that the agent says before it hangs up.
    #[schemars(length(min = 1), extend("default" = own(Sentence::NotHeard)))]
    pub goodbye: Option<String>,
}

#[derive(Debug, Default, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(super) struct Failure {
    /// A WAV file, 16-bit mono, that the caller then hears; relative to this file's folder. Without it
    /// and `say` a built-in one is heard.
    pub apology: Option<String>,
    /// What the caller then hears, spoken by the context's `voice`; beside `apology`, the words of that
    /// recording.
    pub say: Option<Words>,
    /// Keys that the caller may then press, with no agent in it. It needs ARI.
    pub menu: Option<Menu>,
    /// And then: `hang_up`; `dialplan` (back to the dialplan with `OFFHOOK_STATUS=AGENTFAILED`); or
    /// `transfer: NAME`, one of `destinations`.
    #[schemars(extend("default" = "dialplan"))]
    pub then: Option<FailureStep>,
}

/// `hang_up`, `dialplan` or `{transfer: NAME}`; any value, since the name may have been cut out.
#[derive(Debug, Deserialize)]
#[serde(transparent)]
pub(super) struct FailureStep(pub Value);

impl JsonSchema for FailureStep {
    fn inline_schema() -> bool {
        true
    }

    fn schema_name() -> std::borrow::Cow<'static, str> {
        "FailureStep".into()
    }

    fn json_schema(_: &mut schemars::SchemaGenerator) -> schemars::Schema {
        schemars::json_schema!({
            "title": "hang_up, dialplan or transfer: NAME",
            "anyOf": [
                { "type": "string", "enum": ["hang_up", "dialplan"] },
                {
                    "type": "object",
                    "properties": { "transfer": { "type": "string" } },
                    "required": ["transfer"],
                    "additionalProperties": false,
                },
            ],
        })
    }
}

/// `500ms`, `12s`, `5m` or `1h`.
#[derive(Debug, Clone, Deserialize, JsonSchema)]
#[serde(transparent)]
#[schemars(inline, extend("pattern" = "^[0-9]+(ms|s|m|h)$", "title" = "a duration such as 500ms, 12s, 5m or 1h"))]
pub(super) struct DurationText(pub String);

/// `transport/format`.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(transparent)]
#[schemars(inline, extend("enum" = values::AUDIO_CHOICES))]
pub(super) struct AudioText(pub String);
