//! The files of an installation, made from answers.

use super::{ARI_PASSWORD, Answers, Carrier, Kind, Pbx, Secrets, settings::settings};
use anyhow::{Context as _, ensure};
use offhook::{
    call::Backchannels,
    sentences::{Language, Sentence},
};
use secrecy::ExposeSecret as _;
use std::{
    fs,
    io::Write as _,
    net::IpAddr,
    os::unix::fs::OpenOptionsExt as _,
    path::{Path, PathBuf},
};

const CONFIG: &str = "offhook.yaml";
const DIALPLAN: &str = "extensions_offhook.conf";
const SETTINGS: &str = "asterisk_settings.txt";
const SECRETS: &str = "offhook.env";
/// As many calls at once as a configuration without `limits.calls` takes.
const CALLS: usize = 200;
/// What the written dialplan shares with the examples.
const PLAIN: &str = include_str!("../../../dialplan/extensions_offhook.conf");
const FREEPBX: &str = include_str!("../../../dialplan/extensions_offhook_freepbx.conf");

const OPENAI: &str = include_str!("templates/openai_realtime.yaml");
const GEMINI: &str = include_str!("templates/gemini_live.yaml");
const DEEPGRAM: &str = include_str!("templates/deepgram_agent.yaml");
const ELEVENLABS: &str = include_str!("templates/elevenlabs_agent.yaml");
const PIPELINE: &str = include_str!("templates/pipeline.yaml");
const ATTENDANT: &str = include_str!("templates/attendant.yaml");
const FRAME: &str = include_str!("templates/offhook.yaml");

/// What is to be written, each file with its text.
pub struct Files {
    folder: PathBuf,
    files: Vec<(&'static str, String)>,
    /// In them, those that hold secrets.
    secret: &'static [&'static str],
}

impl Files {
    pub fn new(folder: &Path, answers: &Answers, secrets: Option<&Secrets>) -> anyhow::Result<Self> {
        let settings = settings(answers, secrets)?;
        let mut files = vec![(CONFIG, config(answers)), (DIALPLAN, dialplan(answers)), (SETTINGS, settings)];
        let secret: &[&str] = if secrets.is_some() { &[SECRETS, SETTINGS] } else { &[] };
        if let Some(secrets) = secrets {
            files.push((SECRETS, environment(secrets)?));
        }
        Ok(Self { folder: folder.to_owned(), files, secret })
    }

    pub fn config_name(&self) -> String {
        self.folder.join(CONFIG).display().to_string()
    }

    pub fn yaml(&self) -> &str {
        &self.files[0].1
    }

    /// All that is there already is told at once, before anything is written.
    pub fn in_the_way(&self, force: bool) -> anyhow::Result<()> {
        let there = self.files.iter().map(|(name, _)| self.folder.join(name)).filter(|path| path.exists());
        let there: Vec<String> = there.map(|path| path.display().to_string()).collect();
        ensure!(
            force || there.is_empty(),
            "{} would be overwritten; nothing was written: name another --output, or write --force",
            there.join(", ")
        );
        Ok(())
    }

    pub fn write(&self, force: bool) -> anyhow::Result<()> {
        fs::create_dir_all(&self.folder).with_context(|| self.folder.display().to_string())?;
        for (name, text) in &self.files {
            let path = self.folder.join(name);
            // Made anew, so that a secret never gets into a file that others may read, or through a link.
            if force && path.exists() {
                fs::remove_file(&path).with_context(|| path.display().to_string())?;
            }
            let mode = if self.secret.contains(name) { 0o600 } else { 0o644 };
            let file = fs::OpenOptions::new().write(true).create_new(true).mode(mode).open(&path);
            let written = file.and_then(|mut file| file.write_all(text.as_bytes()));
            written.with_context(|| path.display().to_string())?;
        }
        Ok(())
    }

    pub fn next_steps(&self, answers: &Answers) -> String {
        let at = |name: &str| shell(&self.folder.join(name).display().to_string());
        let named: Vec<String> = self.files.iter().map(|(name, _)| at(name)).collect();
        let variables = [Some(ARI_PASSWORD), answers.provider.key()].into_iter().flatten();
        let unset = |variable: &&str| std::env::var_os(variable).is_none_or(|value| value.is_empty());
        let exports: Vec<String> = variables.filter(unset).map(|variable| format!("{variable}='…'")).collect();
        let known = match (self.secret.contains(&SECRETS), exports.as_slice()) {
            (true, _) => format!("set -a; . {}; set +a", at(SECRETS)),
            (false, []) => "# the secrets are in the environment already".to_owned(),
            (false, exports) => format!("export {}", exports.join(" ")),
        };
        let dialplan = match answers.pbx {
            Pbx::Asterisk => format!(
                "cp {} /etc/asterisk/ && echo '#include \"{DIALPLAN}\"' >> /etc/asterisk/extensions.conf\n     \
                 write `include => offhook` into your callers' context there, and `OFFHOOK_HUMAN = PJSIP/…` into [globals]: who \
                 takes calls that offhook does not\n     asterisk -rx 'dialplan reload'",
                at(DIALPLAN)
            ),
            Pbx::Freepbx => format!(
                "cat {} >> /etc/asterisk/extensions_custom.conf               # and OFFHOOK_HUMAN_PLACE in globals_custom.conf\n     \
                 fwconsole reload",
                at(DIALPLAN)
            ),
        };
        format!(
            "\nWritten: {}\n\nNext, on the machine of Asterisk:\n  1. do what {} says\n  2. {dialplan}\nand here:\n  3. {known}\n  \
             4. offhook doctor --config {config}\n  5. offhook run --config {config}\nThen dial {}, and \
             see the call on http://{}/ while it lasts, and in its History afterwards (the first start prints the \
             password of `admin`, once).\n",
            named.join(", "),
            at(SETTINGS),
            answers.extension,
            answers.http,
            config = at(CONFIG),
        )
    }
}

/// As a shell reads it back.
fn shell(text: &str) -> String {
    let plain = |c: char| c.is_ascii_alphanumeric() || "/._-+".contains(c);
    if !text.is_empty() && text.chars().all(plain) { text.into() } else { format!("'{}'", text.replace('\'', r"'\''")) }
}

pub fn is_name(text: &str) -> Result<(), String> {
    let plain = |c: char| c.is_ascii_alphanumeric() || c == '_' || c == '-';
    let good = (1..=40).contains(&text.len()) && text.chars().all(plain);
    good.then_some(()).ok_or_else(|| "up to 40 letters, digits, _ and -".into())
}

pub fn is_extension(text: &str) -> Result<(), String> {
    let plain = |c: char| c.is_ascii_alphanumeric() || "*#+".contains(c);
    let good = (1..=20).contains(&text.len()) && text.chars().all(plain);
    good.then_some(()).ok_or_else(|| "up to 20 digits or letters".into())
}

pub fn is_user(text: &str) -> Result<(), String> {
    let plain = |c: char| c.is_ascii_alphanumeric() || "_-.".contains(c);
    let good = (1..=40).contains(&text.len()) && text.chars().all(plain);
    good.then_some(()).ok_or_else(|| "up to 40 letters, digits, _, - and .".into())
}

/// Default of the agent's first sentence.
pub fn greeting(provider: Kind, language: &str) -> &'static str {
    match (provider, Language::of(language)) {
        (Kind::Attendant, _) => {
            "Hello, this is the front desk. Say opening hours, talk to a person, or goodbye. Or press a key."
        }
        (_, Some(Language::English) | None) => "Hello, this is the front desk. How can I help?",
        (_, Some(language)) => Sentence::Hello.text(language),
    }
}

/// A text of the user's in YAML: nothing in it is a variable. Quotes only where they are needed.
fn quoted(text: &str) -> String {
    const WORDS: [&str; 9] = ["true", "false", "null", "yes", "no", "on", "off", "y", "n"];
    let plain = |c: char| c.is_ascii_alphanumeric() || "-_./:".contains(c);
    let begins = text.starts_with(|c: char| c.is_ascii_alphanumeric()) && !text.ends_with(':');
    let word = !WORDS.contains(&text.to_ascii_lowercase().as_str())
        && text.contains(|c: char| !"0123456789abcdefxo._:-".contains(c));
    let address = text.matches('.').count() == 3;
    if begins && text.chars().all(plain) && (word || address) {
        return text.to_owned();
    }
    serde_json::Value::from(text.replace("${", "$${")).to_string()
}

/// Calls that RTP's ports have room for, an even one each, and not more than what is usual.
fn calls(rtp_ports: &str) -> usize {
    let ports = rtp_ports.split_once('-').and_then(|(first, last)| Some((first.parse().ok()?, last.parse().ok()?)));
    let (first, last): (u16, u16) = ports.unwrap_or((0, u16::MAX));
    (first..=last).filter(|port| port % 2 == 0).take(CALLS).count().max(1)
}

pub(super) fn config(answers: &Answers) -> String {
    let (format, rate) = match answers.transport {
        Carrier::Audiosocket => ("audiosocket/slin", "16-bit samples over one TCP port"),
        Carrier::Rtp => ("rtp/ulaw", "u-law over a UDP port for each call"),
        Carrier::Websocket => ("websocket/slin16", "wideband samples over a WebSocket to Asterisk's own HTTP server"),
    };
    let host = |address: IpAddr| match address {
        IpAddr::V4(address) => address.to_string(),
        IpAddr::V6(address) => format!("[{address}]"),
    };
    let port = answers.audiosocket_port;
    let advertised = |more: String| match &answers.advertise {
        Some(address) => {
            format!("\n    # How Asterisk reaches it.\n    advertise: {}", quoted(&format!("{address}{more}")))
        }
        None => String::new(),
    };
    let agent_id = answers.agent_id.as_deref().unwrap_or_default();
    let base_url =
        answers.base_url.as_ref().map(|url| format!("\n      base_url: {}", quoted(url))).unwrap_or_default();
    let services = match answers.provider {
        Kind::OpenaiRealtime => OPENAI,
        Kind::GeminiLive => GEMINI,
        Kind::DeepgramAgent => DEEPGRAM,
        Kind::ElevenlabsAgent => ELEVENLABS,
        Kind::Pipeline => PIPELINE,
        Kind::Attendant => ATTENDANT,
    };
    let transfer = match answers.pbx {
        Pbx::Asterisk => "offhook-transfer",
        Pbx::Freepbx => "offhook-freepbx-transfer",
    };
    let language = quoted(&answers.language);
    let speaks = match Language::of(&answers.language) {
        Some(Language::English) => String::new(),
        Some(language) => format!("\n      Speak {}.", language.name()),
        None => format!("\n      Speak the language {}.", answers.language),
    };
    let code = answers.language.split('-').next().unwrap_or_default().to_ascii_lowercase();
    let code = Language::of(&answers.language).map_or(code, |language| language.code().to_owned());
    // Words that do not interrupt are known of some languages alone, and where offhook finds the turns.
    let turns = match answers.provider {
        Kind::Attendant | Kind::Pipeline if Backchannels::LANGUAGES.contains(&&*code) => {
            format!("\n    turns: {{ languages: [{}] }}", quoted(&code))
        }
        _ => String::new(),
    };
    let filled = [
        ("@SERVICES@", services.trim_end()),
        ("@BASE_URL@", &base_url),
        ("@IN_LANGUAGE@", &in_language(answers.provider, &code)),
        ("@AGENT_ID@", &quoted(agent_id)),
        ("@URL@", &quoted(&answers.ari_url)),
        ("@USER@", &quoted(&answers.ari_user)),
        ("@AUDIO@", format),
        ("@ABOUT_AUDIO@", rate),
        ("@SOCKET_BIND@", &quoted(&format!("{}:{port}", host(answers.bind)))),
        ("@SOCKET_ADVERTISE@", &advertised(format!(":{port}"))),
        ("@RTP_BIND@", &quoted(&answers.bind.to_string())),
        ("@RTP_ADVERTISE@", &advertised(String::new())),
        ("@RTP_PORTS@", &quoted(&answers.rtp_ports)),
        ("@CALLS@", &calls(&answers.rtp_ports).to_string()),
        ("@HTTP@", &quoted(&answers.http.to_string())),
        ("@CONTEXT@", &quoted(&answers.context)),
        ("@TRANSFER@", transfer),
        ("@TURNS@", &turns),
        ("@SPEAKS@", &speaks),
        ("@LANGUAGE@", &language),
        ("@CODE@", &quoted(&code)),
        // Last, as it is the one text in which everything may stand.
        ("@GREETING@", &quoted(&answers.greeting)),
    ];
    filled.iter().fold(FRAME.to_owned(), |text, (name, value)| text.replace(name, value))
}

/// Options by which a provider hears and speaks the language of this code. Where they have to be allowed at the vendor, they are
/// commented out.
fn in_language(provider: Kind, code: &str) -> String {
    let (hears, english) = (quoted(code), code == Language::English.code());
    let speaks = match code {
        "de" => "aura-2-aurelia-de",
        "es" => "aura-2-celeste-es",
        "fr" => "aura-2-agathe-fr",
        "it" => "aura-2-cinzia-it",
        "nl" => "aura-2-beatrix-nl",
        _ => "aura-2-thalia-en",
    };
    let listen = format!("listen: {{ version: v1, language: {hears} }}");
    let speak = format!("speak: {{ type: deepgram, model: {speaks} }}");
    match provider {
        Kind::DeepgramAgent if english => {
            format!("\n      # listen: {{ version: v1, language: de }}\n      # {speak}")
        }
        Kind::DeepgramAgent if speaks.ends_with(&format!("-{code}")) => format!("\n      {listen}\n      {speak}"),
        Kind::DeepgramAgent => format!(
            "\n      {listen}\n      # The vendor has no voice for it: name one of another vendor, as docs/configuration.md tells.\n      \
             # {speak}"
        ),
        Kind::OpenaiRealtime if !english => format!("\n      transcription: {{ language: {hears} }}"),
        Kind::ElevenlabsAgent if !english => format!("\n      # language: {hears}"),
        _ => String::new(),
    }
}

/// One context of an example with the comment above it.
fn section(example: &str, name: &str) -> String {
    let header = format!("[{name}]");
    let mut parts = example.split("\n\n").skip_while(|part| part.lines().all(|line| line != header));
    let first = parts.next().unwrap_or_default();
    let rest = parts.take_while(|part| part.lines().all(|line| !line.starts_with('[')));
    std::iter::once(first).chain(rest).map(|part| format!("\n{}\n", part.trim_end())).collect()
}

fn dialplan(answers: &Answers) -> String {
    let Answers { context, extension, .. } = answers;
    match answers.pbx {
        Pbx::Asterisk => {
            let shared = ["offhook-after", "offhook-human", "offhook-transfer", "offhook-voicemail"];
            let shared: String = shared.iter().map(|name| section(PLAIN, name)).collect();
            format!(
                "; offhook in a plain Asterisk, as `offhook init` has written it.\n;\n; Use: put this file beside extensions.conf, \
                 at the end of that one write\n;\n;   #include \"{DIALPLAN}\"\n;\n; and let your callers' context say `include => \
                 offhook` (or Goto(offhook,{extension},1) for a DID). In the [globals] of\n; extensions.conf set who takes a call \
                 that offhook does not, anything that Dial() takes:\n;\n;   OFFHOOK_HUMAN = PJSIP/reception\n;\n; What more a \
                 dialplan can say and be told is explained in dialplan/extensions_offhook.conf of the project.\n\n[offhook]\nexten \
                 => {extension},1,Stasis(offhook,{context})\n same => n,Goto(offhook-after,s,1)\n{shared}"
            )
        }
        Pbx::Freepbx => {
            let shared = ["offhook-freepbx-after", "offhook-freepbx-transfer", "offhook-freepbx-voicemail"];
            let shared: String = shared.iter().map(|name| section(FREEPBX, name)).collect();
            format!(
                "; offhook in FreePBX, as `offhook init` has written it.\n;\n; Use: append this file to \
                 /etc/asterisk/extensions_custom.conf (Admin → Config Edit), and set in globals_custom.conf\n; who takes a call that \
                 offhook does not, as context,extension,priority:\n;\n;   OFFHOOK_HUMAN_PLACE = ext-queues,400,1\n;\n; Then \
                 `fwconsole reload`. Extensions dial {extension}; for inbound routes: Admin → Custom Destinations, target\n; \
                 `offhook-{context},s,1`, Return: No.\n\n[from-internal-custom]\nexten => {extension},1,Goto(offhook-{context},s,1)\n\n\
                 [offhook-{context}]\nexten => s,1,Stasis(offhook,{context})\n same => n,Goto(offhook-freepbx-after,s,1)\n{shared}"
            )
        }
    }
}

/// Read alike by a shell and by systemd's EnvironmentFile.
fn environment(secrets: &Secrets) -> anyhow::Result<String> {
    let mut text = String::from(
        "# Secrets of offhook.yaml. `set -a; . offhook.env; set +a`, or EnvironmentFile= of a systemd unit.\n",
    );
    for (variable, secret) in secrets {
        let secret = secret.expose_secret();
        ensure!(!secret.contains(char::is_control), "{variable} has a line break or another control character");
        let escaped: String =
            secret.chars().flat_map(|c| "\\\"$`".contains(c).then_some('\\').into_iter().chain([c])).collect();
        text += &format!("{variable}=\"{escaped}\"\n");
    }
    Ok(text)
}
