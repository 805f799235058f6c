//! What holds where the configuration says nothing, each with its reason. The course of a call
//! has its own: [`CallRules::default`](crate::call::CallRules).

/// Works on every Asterisk since 18 without further modules or open UDP ports, and loses nothing.
pub const AUDIO: &str = "audiosocket/slin";
/// The port of Asterisk's own AudioSocket examples is 9092. Loopback: whoever can connect can call.
pub const AUDIOSOCKET_BIND: &str = "127.0.0.1:9092";
/// Loopback, as for AudioSocket.
pub const RTP_BIND: &str = "127.0.0.1";
/// Below the ephemeral ports of Linux (32768–60999) and clear of Asterisk's own 10000–20000 of
/// `rtp.conf`.samples, so that both can run on one host.
pub const RTP_PORTS: &str = "21000-21999";
/// Loopback: the pages tell how busy the line is, and `/reload` changes it.
pub const HTTP_BIND: &str = "127.0.0.1:15000";
/// Beside the configuration, where who sets it up looks first.
pub const HTTP_ACCOUNTS: &str = "accounts.json";
/// Two cores carry more; a higher number should be a decision.
pub const CALLS: u64 = 200;
/// Most calls that are past their middle end by themselves in a minute, and service managers
/// wait 90 s by default before they kill.
pub const DRAIN: &str = "60s";
/// Asterisk's usual `http.conf` on the same host.
pub const ASTERISK_URL: &str = "http://127.0.0.1:8088";
pub const ASTERISK_USERNAME: &str = "offhook";
pub const ASTERISK_APP: &str = "offhook";
/// Most of the world rings so.
pub const RING_TONE: &str = "etsi";
/// Five rings in Europe; longer, and a caller who listens to ringing hangs up.
pub const RING: &str = "25s";
pub const VOICEMAIL_CONTEXT: &str = "offhook-voicemail";
/// Where most installations name an endpoint like its extension.
pub const EXTENSION_DEVICE: &str = "PJSIP/{extension}";
/// Who has not pressed a key after hearing the choices twice is no telephone's owner, or hears nothing.
pub const MENU_ROUNDS: u64 = 2;
/// To take the telephone from the ear and find the key.
pub const MENU_WAIT: &str = "5s";
/// Long enough to look into a complaint; who needs longer has a reason, and in many countries has to have one.
pub const RECORDS_KEEP_DAYS: u64 = 30;
/// The dialplan's first step of an extension.
pub const PRIORITY: u64 = 1;
/// Loopback: whoever can connect and has a token brings tools. The port is gRPC's in most examples.
pub const VAM_BIND: &str = "127.0.0.1:50051";
/// Beside the configuration, as the accounts.
pub const VAM_REGISTRATIONS: &str = "action-servers.json";
/// V9.
pub const VAM_ACTION_TIMEOUT: &str = "5s";
/// Each is a connection that is kept, or a process; a model is confused by the tools of far fewer.
pub const VAM_ACTION_SERVERS: u64 = 32;
/// What gRPC takes by itself.
pub const VAM_MESSAGE_BYTES: u64 = 4 << 20;
/// A client of a session has one of its own, and each costs a file descriptor that calls need too.
pub const VAM_CONNECTIONS: u64 = 256;
/// As many as calls.
pub const VAM_SESSIONS: u64 = CALLS;
/// Longer than `limits.call` of any context that says nothing.
pub const VAM_SESSION_TTL: &str = "1h";
