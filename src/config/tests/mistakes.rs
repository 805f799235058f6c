//! Every kind of mistake, and that none hides another.

use super::*;
use proptest::prelude::*;

#[test]
fn many_mistakes_at_once_are_all_told() {
    let told = problems(
        r#"
asterisk:
  password: ${ARI_PASSWROD}
  user: anna
limits:
  calls: many
default_context: recption
providers:
  front: { scripted: }
contexts:
  reception:
    prompt: Be kind.
    provider: frnt
    tools: [hangup_call, trasfer]
"#,
    );
    insta::assert_snapshot!(told, @r#"
    test.yaml:3: asterisk.password: the environment variable ARI_PASSWROD is not set; set it
    test.yaml:4: asterisk.user: unknown key; did you mean "username"?
    test.yaml:6: limits.calls: expected a whole number, found text
    test.yaml:7: default_context: unknown context "recption"; did you mean "reception"?
    test.yaml:13: contexts.reception.provider: unknown provider "frnt"; did you mean "front"?
    test.yaml:14: contexts.reception.tools[1]: unknown tool "trasfer"; did you mean "transfer"?
    "#);
}

/// As a section of which everything is commented out.
#[test]
fn a_misspelt_key_without_a_value_is_told() {
    let told = problems(
        "recrods:\nlimits: { calls: null, drian: ~ }\nproviders:\n  front: { scripted: }\ncontexts:\n  reception: { prompt: x, \
         provider: front, recordin: , tools: null, limits: }\n",
    );
    insta::assert_snapshot!(told, @r#"
    test.yaml:1: recrods: unknown key; did you mean "records"?
    test.yaml:2: limits.drian: unknown key; did you mean "drain"?
    test.yaml:6: contexts.reception.recordin: unknown key; did you mean "recording"?
    "#);
}

/// A name of digits is no place in a list.
#[test]
fn what_is_wrong_below_a_name_of_digits_is_told() {
    let told = problems_with("  \"007\": { prompt: 5, provider: front }\n");
    assert!(told.starts_with("test.yaml:7: contexts.007.prompt: expected text, found a number"), "{told}");
}

/// Each case with what is said about it, for a snapshot to be read by a person.
pub(super) fn told(cases: &[&str], about: fn(&str) -> String) -> String {
    cases.iter().map(|case| format!("{}\n=> {}\n\n", case.trim_end(), about(case))).collect()
}

#[test]
fn wrong_types_say_what_was_expected_and_what_was_found() {
    let cases = [
        "    tools: transfer\n",
        "    tools:\n      -\n",
        "    audiosocket_id: 00010001\n",
        "    limits: { call: 5 }\n",
        "    limits: [5m]\n",
        "    no_input: { prompts: 1.5 }\n",
        "    on_failure: { then: 5 }\n",
        "    on_failure: { then: [] }\n",
        "    on_failure: { then: { transfer: 200 } }\n",
        "default_context: 5\n",
        "asterisk: { password: 1234 }\n",
        "limits: { calls: yes }\n",
        "media: { audiosocket: { bind: 9092 } }\n",
        "limits: { calls: \"${EMPTY}\" }\n",
        "limits: { calls: \"${SECRET_WORD}\" }\n",
        "media: { rtp: { ports: 20000 } }\n",
        "destinations: { sales: { description: x, context: y, extension: 200 } }\n",
    ];
    insta::assert_snapshot!(told(&cases, problems_with));
}

#[test]
fn wrong_values_say_what_would_be_right() {
    let cases = [
        "    prompt: again\n",
        "    audio: rtp/slin\n",
        "    audio: audiosocket/slim\n",
        "    audio: ${SECRET_WORD}\n",
        "    audiosocket_id: 0ff4\n",
        "    audiosocket_id: 0ff40001\n  two: { prompt: x, provider: front, audiosocket_id: 0FF40001 }\n",
        "    limits: { call: 5 min, tool: 0s, farewell: 30h, agent_ready: 99999999999999999999999s }\n",
        "    no_input: { prompts: 11, say: '' }\n",
        "    no_input: { prompts: -1 }\n",
        "    on_failure: { then: hangup }\n",
        "    on_failure: { apology: nowhere.wav }\n",
        "  two: { prompt: '  ', provider: front }\n",
        "asterisk: { url: 'ws://x', password: x, app: 'a b' }\n",
        "asterisk: { url: 'http://user:word@x', password: x }\n",
        "asterisk: { url: \"${SECRET_WORD}\", password: x }\n",
        "asterisk: { password: \"${EMPTY}\" }\n",
        "http: { bind: localhost }\n",
        "http: { bind: \"${SECRET_WORD}\" }\n",
        "media: { audiosocket: { bind: 0.0.0.0:9092 } }\n",
        "media: { audiosocket: { advertise: 'x' }, rtp: { bind: '::', ports: 1-2 } }\n",
        "media: { rtp: { bind: eth0, advertise: 'a b' } }\n",
        "media: { rtp: { ports: 20100-20000 } }\n",
        "media: { rtp: { ports: 20000-20100 } }\n",
        "limits: { calls: 0 }\n",
        "destinations: { sales: { description: x, context: 'a,b', extension: '2 0', priority: 0 } }\n",
    ];
    insta::assert_snapshot!(told(&cases, problems_with));
}

#[test]
fn names_that_do_not_exist_are_told_with_those_that_do() {
    let cases = [
        "greeting: x\n",
        "    greting: x\n",
        "    tools: [hangup]\n",
        "    tools: [hangup_call, hangup_call]\n",
        "    tools: [transfer]\n",
        "    on_failure: { then: { transfer: sales } }\n",
        "    on_failure: { then: { tranfser: sales } }\n",
        "default_context: dask\n",
        "default_context: ''\n",
        "default_context: ${SECRET_WORD}\n",
        "  two:\n",
        "  'front desk': { prompt: x, provider: frnt, color: red }\n",
        "asterisk: { pasword: x }\n",
        "    tools: [transfer]\ndestinations: { sales: }\n",
    ];
    insta::assert_snapshot!(told(&cases, problems_with));
}

/// With the kinds of the program itself: each case spoils one line of a pipeline that is right.
#[test]
fn names_and_kinds_of_a_pipeline_that_do_not_exist_are_told() {
    const RIGHT: &str = "\
stt: { nova: { wyoming_transcribe: { address: '127.0.0.1:1' } } }
llm: { house: { openai_chat: { base_url: 'http://127.0.0.1:2/v1', model: m } } }
voices: { piper: { wyoming_speech: { address: '127.0.0.1:3' } } }
providers:
  front:
    pipeline:
      stt: nova
      llm: [house]
      tts: [piper]
contexts: { desk: { prompt: Be kind., provider: front } }
";
    let with = |right: &str, wrong: &str| {
        let text = RIGHT.replace(right, wrong);
        load_str("test.yaml", &text, &env, shipped::shipped()).map_or_else(|told| told.to_string(), |_| "none".into())
    };
    assert_eq!(with("", ""), "none");
    let cases = [
        ("stt: nova", "stt: nvoa"),
        ("llm: [house]", "llm: [house, huose]"),
        ("tts: [piper]", "tts: [piper, pipr]"),
        ("tts: [piper]", "tts: [piper, piper]"),
        ("tts: [piper]", "tts: []"),
        ("wyoming_transcribe:", "wyoming_transcrbe:"),
        ("openai_chat:", "opnai_chat:"),
        ("wyoming_speech:", "wyoming_spech:"),
    ];
    insta::assert_snapshot!(cases.map(|(right, wrong)| format!("{wrong}\n=> {}\n", with(right, wrong))).join("\n"));
}

/// With the section `asterisk`, which these need.
#[test]
fn destinations_mailboxes_and_mail_that_cannot_work_are_told() {
    let cases = [
        "destinations: { sales: { description: x } }\n",
        "destinations: { sales: { description: x, context: y } }\n",
        "destinations: { sales: { description: x, dial: [PJSIP/100], context: y, extension: z, priority: 2 } }\n",
        "destinations: { sales: { description: x, context: y, extension: z, ring: 5s } }\n",
        "destinations: { sales: { description: x, dial: [], ring: 10m } }\n",
        "destinations: { sales: { description: x, dial: ['PJSIP/1&PJSIP/2', '100'], ring: 0s } }\n",
        "media: { ring_tone: french }\n",
        "    tools: [leave_voicemail, check_extension_status, take_message]\n",
        "voicemail: { mailboxes: { office: { description: x, mailbox: '100' } } }\n",
        "extensions: { allow: ['2YY', '[12'] }\n",
        "mail: { server: mail.example.com, tls: none, from: me, mailboxes: { office: nobody } }\n",
        "mail: { server: \"${SECRET_WORD}\", username: u, from: a@b.example, mailboxes: { o: a@b.example }, ca_file: no.pem }\n",
        "    tools: [take_message]\nmail: { server: s, from: a@b.example, mailboxes: { o: a@b.example, p: c@b.example } }\n",
        "    mailbox: offce\nmail: { server: s, from: a@b.example, mailboxes: { office: a@b.example } }\n",
    ];
    let with = |lines: &str| problems_with(&format!("{lines}asterisk: {{ password: x }}\n"));
    insta::assert_snapshot!(told(&cases, with));
}

/// D answer 26: what is masked is gathered when a run begins, so only what is there by then can be secret.
#[test]
fn only_user_and_tenant_hold_secrets() {
    let told =
        problems_with("tenants: { acme: { tools: t, secrets: [user.pin, tenant.settings.key, workflow.card] } }\n");
    assert!(told.contains("tenants.acme.secrets[2]: a secret is in user or tenant, not in workflow"), "{told}");
    assert!(told.contains("policy.secret_args") && told.lines().count() == 1, "{told}");
}

#[test]
fn rules_for_a_tool_that_is_not_there_are_told() {
    let told = problems_with("tools: { transfr: { requires_confirmation: true }, transfer: { timeout: 2s } }\n");
    assert!(told.contains("tools.transfr: there is no tool of this name; did you mean \"transfer\"?"), "{told}");
    assert_eq!(told.lines().count(), 1, "{told}");
}

/// D5: a run knows how long the call waits for it, so that `on_failure` runs before it is dropped.
#[test]
fn tools_have_the_time_that_their_call_has() {
    let config = loaded(&format!("{SMALL}    limits: {{ tool: 4s }}\n"));
    assert_eq!(config.contexts["desk"].policy.rules.tool_time_max, Some(Duration::from_secs(4)));
    let config = loaded(SMALL);
    let context = &config.contexts["desk"];
    assert_eq!(context.policy.rules.tool_time_max, Some(context.rules.tool_max));
}

#[test]
fn what_telephones_and_mail_need_is_read_as_it_is_written() {
    let text = format!(
        "{SMALL}    tools: [transfer, leave_voicemail, check_extension_status, take_message]\n\
         asterisk: {{ password: x }}\nmedia: {{ ring_tone: us }}\n\
         destinations: {{ sales: {{ description: x, dial: [PJSIP/100, Local/700@queues] }} }}\n\
         voicemail: {{ mailboxes: {{ office: {{ description: x, mailbox: 100@default }} }} }}\n\
         extensions: {{ allow: ['2XX'] }}\n\
         mail: {{ server: localhost, tls: none, from: a@b.example, mailboxes: {{ o: a@b.example }} }}\n"
    );
    let config = loaded(&text);
    let Way::Dial(group) = &config.destinations["sales"].way else { panic!("endpoints are dialled") };
    assert_eq!((group.endpoints.len(), group.limit), (2, Duration::from_secs(25)));
    assert_eq!(config.contexts["desk"].rules.ring_tone, RingTone::Us);
    assert_eq!(config.contexts["desk"].mailbox.as_deref(), Some("o"), "the only one");
    assert_eq!(config.mail.map(|mail| mail.port), Some(25));
    assert_eq!(config.voicemail.place.context, "offhook-voicemail");
    assert_eq!(config.extensions.device, "PJSIP/{extension}");
}

#[test]
fn what_is_no_yaml_is_told_with_its_line() {
    let cases = [
        "    greeting: *nothing\n",
        "    greeting: !include x\n",
        "    greeting: ${\n",
        "    greeting: ${NOPE} ${1X}\n",
        "    ? [a]\n    : b\n",
        "    greeting: { a: ${PORT} }\n",
        "\tgreeting: x\n",
        "    greeting: 'open\n",
        "---\na: b\n",
        "limits: &a { calls: *a }\n",
    ];
    insta::assert_snapshot!(told(&cases, problems_with));
}

#[test]
fn a_provider_with_mistakes_does_not_spoil_the_contexts_that_use_it() {
    let cases = [
        "front:",
        "front: scripted",
        "front: { type: scripted }",
        "front: { scripted: {}, openai_realtime: {} }",
        "front: { scripted: { voice: x } }",
        "front: { openai_realtim: {} }",
        "front: { openai_realtime: }",
        "front: { openai_realtime: { api_key: \"${NOPE}\", model: gpt-1, temperature: 3, turn: smart } }",
        "front: { openai_realtime: { apikey: x, temperature: hot, turn: 5 } }",
        "front: { openai_realtime: { api_key: x, model: gpt-1, turn: server } }",
        // Words of a provider that repeat a secret.
        "front: { openai_realtime: { api_key: \"${SECRET_WORD}\", model: tell } }",
    ];
    let with =
        |case: &str| problems(&format!("providers:\n  {case}\ncontexts:\n  desk: {{ prompt: x, provider: front }}\n"));
    insta::assert_snapshot!(told(&cases, with));
}

#[test]
fn a_file_without_the_essentials_says_what_is_missing() {
    let cases = [
        "",
        "# nothing\n",
        "text",
        "- a\n- b\n",
        "providers: {}\ncontexts: {}\n",
        "providers: [front]\ncontexts:\n  desk: { prompt: x, provider: front }\n",
        "contexts:\n  desk: { prompt: x, provider: front }\n",
        "providers: { front: { scripted: } }\ncontexts: { desk: {} }\ndefault_context: desk\n",
        "providers: { front: { scripted: } }\ndefault_context: desk\n",
    ];
    insta::assert_snapshot!(told(&cases, problems));
}

#[test]
fn an_alias_bomb_is_refused_before_it_goes_off() {
    let mut text = String::from("a0: &a0 [x, x, x, x, x, x, x, x, x]\n");
    for level in 1..12 {
        let alias = format!("*a{}", level - 1);
        text += &format!("a{level}: &a{level} [{}]\n", [alias.as_str(); 9].join(", "));
    }
    let told = problems(&text);
    assert!(told.starts_with("test.yaml:6: more than 200000 values, aliases counted each time"), "{told}");
}

#[test]
fn deep_nesting_is_refused() {
    let told = problems(&format!("a: {}{}", "[".repeat(500), "]".repeat(500)));
    assert!(told.starts_with("test.yaml:1: "), "{told}");
    let chain: String = (1..60).map(|n| format!("a{n}: &a{n} [*a{}]\n", n - 1)).collect();
    let told = problems(&format!("a0: &a0 x\n{chain}"));
    assert!(told.contains("nested more than 40 levels deep"), "{told}");
}

#[test]
fn sections_that_do_not_fit_each_other_are_told() {
    let cases = [
        "media: { default: rtp/ulaw }\n",
        "    audio: rtp/alaw\n",
        "    tools: [hangup_call, transfer]\ndestinations: { sales: { description: x, context: y, extension: z } }\n",
        "    on_failure: { then: { transfer: sales } }\ndestinations: { sales: { description: x, context: y, extension: z } }\n",
        // The section is there, only wrong.
        "    audio: rtp/alaw\nasterisk: { password: \"${NOPE}\" }\n",
        "http: { bind: \"127.0.0.1:9092\" }\n",
        "media: { audiosocket: { bind: 0.0.0.0:15000, advertise: a:15000 } }\n",
        "http: { bind: 127.0.0.2:9092 }\n",
        "http: { bind: 127.0.0.1:0 }\nmedia: { audiosocket: { bind: 127.0.0.1:0 } }\n",
    ];
    insta::assert_snapshot!(told(&cases, problems_with));
}

/// The first model may be down when the list is needed.
#[test]
fn a_list_may_only_call_what_the_contexts_of_its_pipelines_list() {
    let with = |tools: &str| {
        let text = format!(
            "stt: {{ ears: {{ wyoming_transcribe: {{ address: \"127.0.0.1:1\" }} }} }}\n\
             llm:\n  house: {{ openai_chat: {{ model: m }} }}\n  \
             list: {{ attendant: {{ entries: [{{ key: \"1\", call: hangup_call }}] }} }}\n\
             voices: {{ piper: {{ wyoming_speech: {{ address: \"127.0.0.1:2\" }} }} }}\n\
             providers: {{ front: {{ pipeline: {{ stt: ears, llm: [house, list], tts: piper }} }} }}\n\
             contexts:\n  desk: {{ prompt: x, provider: front, tools: {tools} }}\n"
        );
        load_str("test.yaml", &text, &env, shipped::shipped()).map_or_else(|found| found.to_string(), |_| "none".into())
    };
    assert_eq!(with("[hangup_call]"), "none");
    assert_eq!(
        with("[]"),
        "test.yaml:8: contexts.desk.tools: llm.list calls \"hangup_call\", which this context does not list; \
         add it: tools: [hangup_call]"
    );
}

#[test]
fn a_script_may_only_call_what_its_contexts_list() {
    let with = |tools: &str, script: &str| {
        let text = format!(
            "providers: {{ front: {{ scripted: {{ script: [{script}] }} }} }}\ncontexts:\n  desk: {{ prompt: x, provider: \
             front, tools: {tools} }}\n"
        );
        load_str("test.yaml", &text, &env, shipped::shipped()).map_or_else(|found| found.to_string(), |_| "none".into())
    };
    assert_eq!(with("[hangup_call]", "{ hang_up: Bye }"), "none");
    assert_eq!(
        with("[]", "{ say: hi }, { hang_up: Bye }"),
        "test.yaml:3: contexts.desk.tools: providers.front calls \"hangup_call\", which this context does not list; \
         add it: tools: [hangup_call]"
    );
    assert!(with("[hangup_call]", "{ call: { tool: transfer } }").ends_with("add it: tools: [hangup_call, transfer]"));
}

#[test]
fn a_placeholder_that_is_nearly_one_is_warned_of_and_stays() {
    let warnings = |prompt: &str| {
        let text = SMALL.replace("Be kind.", &format!("'{prompt}'"));
        let warnings = loaded(&text).warnings;
        warnings.iter().map(|warning| warning.to_string()).collect::<Vec<_>>()
    };
    assert_eq!(
        warnings("Hi {caller_nmae}, {caller_name} { Caller_Name }"),
        [
            "test.yaml:5: contexts.desk.prompt: {caller_nmae} is not a placeholder and stays as it is written; did you mean \
             {caller_name}?",
            "test.yaml:5: contexts.desk.prompt: { Caller_Name } is not a placeholder and stays as it is written; did you mean \
             {caller_name}?",
        ]
    );
    for slip in ["Channel.AMDSTATUS", "channel.CALLERID(num)"] {
        let told = warnings(&format!("Hi {{{slip}}}"));
        assert!(
            told[0].contains(&format!("{{{slip}}} is not a placeholder")) && told[0].ends_with("{channel.NAME}?"),
            "{told:?}"
        );
    }
    for prompt in
        ["{channel.AMDSTATUS}", "{city} {\"a\": {\"b\": 1}}", "{", "{}", "{caller_name", "{ü}", "Hi {lead_id}"]
    {
        assert_eq!(warnings(prompt), [""; 0], "{prompt}");
    }
}

#[test]
fn a_prompt_names_no_secret_and_no_hundred_channel_variables() {
    let problems = |prompt: &str| {
        let others =
            "provider: front\n    policy: { identify: { pin_variable: PIN } }\n  other:\n    prompt: x\n    greeting:";
        problems(&SMALL.replace("Be kind.", &format!("x\n    {others} '{prompt}'")))
    };
    assert_eq!(problems("Hi {channel.ACCOUNT}"), "none");
    for secret in ["PIN", "AI_USER", "AI_AUTHORIZATION"] {
        let told = problems(&format!("Hi {{channel.ACCOUNT}}, {{channel.{secret}}}"));
        assert!(told.contains(&format!("contexts.other.greeting: {{channel.{secret}}} is for tools")), "{told}");
    }
    let many: String = (0..33).map(|number| format!("{{channel.V{number}}}")).collect();
    let many = problems(&many);
    assert!(many.contains("33 channel variables; 32 at most"), "{many}");
}

/// The providers of the program have the shapes that schemas make hard to explain.
#[test]
fn mistakes_in_a_providers_own_shapes_are_told_as_well() {
    let cases = [
        "scripted: { script: [{ say: hi }, listen, repeat] }",
        "scripted: { script: [{ say: hi }, { listen: }, repeat] }",
        "scripted: { script: [{ say: hi }, { lisen: }, repeat] }",
        "scripted: { script: [{ say: hi, listen: {} }, { say: hi, tone: 5, lisen: {} }, repeat] }",
        "scripted: { script: [{ say: hi }, { listen: { timeout: 5 } }, repaet] }",
        "scripted: { script: [{ say: 5 }, { pause: long }, { tone: { hertz: 9000 } }, 7, { say: a, pause: 1s }] }",
        "scripted: { script: [], pace: 50, on_interrupt: nxt, voice: tone }",
        "scripted: { script: [repeat], pace: fast }",
        "scripted: { script: say }",
        "openai_realtime: { api_key: x, transcription: null, turn_detection: { type: semantic_vad, eagerness: hi } }",
        "openai_realtime: { api_key: x, turn_detection: { type: semantic } }",
        "openai_realtime: { api_key: x, turn_detection: { type: server_vad, eagerness: low } }",
        "openai_realtime: { api_key: x, turn_detection: { type: semantic_vad, threshold: 0.5, eagernes: low } }",
        "openai_realtime: { api_key: x, turn_detection: { type: server_vad, treshold: 0.5, idle_timeout_ms: 1 } }",
        "openai_realtime: { api_key: x, turn_detection: server_vad, speed: fast, noise_reduction: near }",
        "openai_realtime: { api_key: x, base_url: \"${SECRET_WORD}\" }",
        "openai_realtime: { api_key: \"${EMPTY}\" }",
    ];
    let with = |case: &str| {
        let text = format!("providers:\n  front:\n    {case}\ncontexts:\n  desk: {{ prompt: x, provider: front }}\n");
        load_str("test.yaml", &text, &env, shipped::shipped()).map_or_else(|found| found.to_string(), |_| "none".into())
    };
    insta::assert_snapshot!(told(&cases, with));
}

/// A configuration with a place for each of these mistakes, and how each place is written right.
const PLACES: &[(&str, &str, &str)] = &[
    ("ASTERISK", "url: http://x", "url: x"),
    ("PASSWORD", "password: x", "password: ${NOPE}"),
    ("MEDIA", "default: rtp/ulaw", "default: rtp/slin"),
    ("ADVERTISE", "advertise: a:1", "advertise: a"),
    ("PORTS", "ports: 21000-21001", "ports: 10-20"),
    ("HTTP", "bind: 127.0.0.1:1", "bind: 1"),
    ("CALLS", "calls: 1", "calls: one"),
    ("DRAIN", "drain: 1s", "drain: 1"),
    ("DEFAULT", "default_context: desk", "default_context: dusk"),
    ("KEY", "api_key: x", "apikey: x"),
    ("MODEL", "model: x", "model: gpt-1"),
    ("DESTINATION", "extension: '1'", "extension: 1"),
    ("NAME", "desk2: { prompt: x, provider: front }", "desk 2: { prompt: x, provider: front }"),
    ("PROMPT", "prompt: x", "promt: x"),
    ("PROVIDER", "provider: front", "provider: frnt"),
    ("TOOL", "tools: [transfer]", "tools: [trasfer]"),
    ("ID", "audiosocket_id: 0ff40001", "audiosocket_id: 00010001"),
    ("THEN", "then: { transfer: sales }", "then: { transfer: 5 }"),
    ("APOLOGY", "apology: ''", "apology: nowhere.wav"),
];

const FORM: &str = "\
asterisk: { ASTERISK, PASSWORD }
media: { MEDIA, audiosocket: { ADVERTISE }, rtp: { PORTS } }
http: { HTTP }
limits: { CALLS, DRAIN }
DEFAULT
providers: { front: { openai_realtime: { KEY, MODEL } } }
destinations: { sales: { description: x, context: y, DESTINATION } }
contexts:
  NAME
  desk: { PROMPT, PROVIDER, TOOL, ID, on_failure: { THEN, APOLOGY } }
";

proptest! {
    #[test]
    fn no_mistake_hides_another_or_is_told_twice(wrong in prop::collection::vec(any::<bool>(), PLACES.len())) {
        let mut text = FORM.to_owned();
        for ((place, right, mistake), wrong) in PLACES.iter().zip(&wrong) {
            let written = if *wrong { mistake } else { right }.replace("${NOPE}", "\"${NOPE}\"");
            text = text.replacen(place, &written, 1);
        }
        let found = load_str("test.yaml", &text, &env, &catalog()).map_or_else(|found| found.count(), |_| 0);
        prop_assert_eq!(found, wrong.iter().filter(|wrong| **wrong).count(), "{}\n{}", text, problems(&text));
    }
}

/// Pieces that bring random text close to a configuration.
fn piece() -> impl Strategy<Value = String> {
    let words = [
        "providers",
        "contexts",
        "front",
        "desk",
        "scripted",
        "openai_realtime",
        "api_key",
        "prompt",
        "provider",
        "tools",
        "asterisk",
        "password",
        "media",
        "rtp",
        "ports",
        "limits",
        "calls",
        "on_failure",
        "then",
        "transfer",
        "sales",
        "${SECRET_WORD}",
        "\"${SECRET_WORD}\"",
        "${NOPE:-x}",
        "${",
        "$${",
        "5",
        "1e999",
        "-0",
        "0x",
        "~",
        ": ",
        ":\n  ",
        ":\n    ",
        "\n",
        "\n- ",
        "{",
        "}",
        "[",
        "]",
        ", ",
        "&a ",
        "*a",
        "!!str ",
        "|\n",
        "'",
        "\"",
        "#",
        "---\n",
        "? ",
        "\t",
    ];
    prop_oneof![8 => proptest::sample::select(words.to_vec()).prop_map(str::to_owned), 1 => ".{0,4}"]
}

proptest! {
    #[test]
    fn random_text_never_panics_and_never_tells_a_secret(text in prop::collection::vec(piece(), 0..60)) {
        holds(&text.concat());
    }

    #[test]
    fn a_damaged_file_never_panics_and_never_tells_a_secret(at in 0.0..1.0f64, cut in 0usize..40, put in piece()) {
        let text = format!("{SMALL}asterisk:\n  password: ${{SECRET_WORD}}\n  app: ${{SECRET_WORD}}\nhttp:\n  bind: ${{SECRET_WORD}}\n");
        let from = (text.len() as f64 * at) as usize;
        let to = (from + cut).min(text.len());
        holds(&[&text[..from], &put, &text[to..]].concat());
    }

    #[test]
    fn any_text_never_panics(text in any::<String>()) {
        holds(&text);
    }
}

fn holds(text: &str) {
    if let Err(found) = load_str("test.yaml", text, &env, &catalog()) {
        assert!(found.count() > 0);
        // To YAML a carriage return ends a line by itself.
        let lines = 1 + text.matches(['\n', '\r']).count();
        assert!(found.iter().all(|problem| problem.line <= lines), "{found}");
        assert!(!found.to_string().contains("swordfish"), "{found}");
    }
}

#[test]
fn fallbacks_that_are_not_there_or_stand_for_themselves_are_told() {
    let with = |fallbacks: &str| problems(&format!("{SMALL}    fallbacks: {fallbacks}\n"));
    assert_eq!(
        with("[frnt]"),
        "test.yaml:7: contexts.desk.fallbacks[0]: unknown provider \"frnt\"; did you mean \"front\"?"
    );
    assert_eq!(with("[front]"), "test.yaml:7: contexts.desk.fallbacks[0]: \"front\" is in this context already");
    let two = SMALL.replace("providers:\n", "providers:\n  other: { scripted: }\n");
    let config = loaded(&format!("{two}    fallbacks: [other]\n"));
    assert_eq!(config.contexts["desk"].providers().collect::<Vec<_>>(), ["front", "other"]);
}
