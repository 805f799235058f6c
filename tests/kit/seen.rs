//! What engines asked a real Asterisk for and were told by it, and where calls went in the dialplan of the project, summed over a run:
//! `run_tests.py` fails a run whose scenes leave out a request, an event or a context.

use std::{
    env,
    fs::{self, File},
    io::{Read as _, Write as _},
    net::{Ipv4Addr, TcpStream},
    time::Duration,
};

/// Names the file that the counters of each engine are added to.
const FILE: &str = "OFFHOOK_SEEN";
/// The counters that are noted.
const NOTED: [&str; 2] = ["offhook_ari_requests_total{", "offhook_ari_events_total{"];
/// The dialplan of the project.
const DIALPLAN: [&str; 2] = ["dialplan/extensions_offhook.conf", "dialplan/extensions_offhook_freepbx.conf"];
/// Contexts of it that are included in that of the lab's phones, whose name Asterisk logs instead.
const INCLUDED: [&str; 2] = ["offhook", "from-internal-custom"];
/// An engine that is stopping answers no more.
const ANSWER_WITHIN: Duration = Duration::from_secs(2);

/// Notes the counters on this page of metrics, where that is asked for.
pub fn note(metrics: &str) {
    let lines = metrics.lines().filter(|line| NOTED.iter().any(|name| line.starts_with(name)));
    add(&lines.flat_map(|line| [line, "\n"]).collect::<String>());
}

/// Notes how many steps of each context of the dialplan this log of Asterisk's tells of.
pub fn note_of_dialplan(log: &str) {
    if env::var_os(FILE).is_none() {
        return;
    }
    let text =
        DIALPLAN.map(|path| fs::read_to_string(crate::project().join(path)).expect("the project's dialplan")).concat();
    let contexts = text.lines().filter_map(|line| line.strip_prefix('[')?.split_once(']')).map(|(name, _)| name);
    let contexts = contexts.filter(|name| !INCLUDED.contains(name));
    let steps = |context: &str| log.lines().filter(|line| line.contains(&format!("@{context}:"))).count();
    add(&contexts.map(|name| format!("dialplan{{context=\"{name}\"}} {}\n", steps(name))).collect::<String>());
}

fn add(text: &str) {
    let Some(file) = env::var_os(FILE) else { return };
    let mut file = File::options().create(true).append(true).open(file).expect("a file that can be written");
    // With one call, as other scenes write there too.
    file.write_all(text.as_bytes()).expect("room for it");
}

/// Notes the counters of an engine that is about to be killed. Blocks, as it is for `Drop`.
pub fn note_of_engine(http: u16, token: Option<&str>) {
    if env::var_os(FILE).is_none() {
        return;
    }
    let asked = || -> std::io::Result<String> {
        let mut socket = TcpStream::connect((Ipv4Addr::LOCALHOST, http))?;
        socket.set_read_timeout(Some(ANSWER_WITHIN))?;
        let token = token.map_or_else(String::new, |token| format!("Authorization: Bearer {token}\r\n"));
        write!(socket, "GET /metrics HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n{token}\r\n")?;
        let mut answer = String::new();
        socket.read_to_string(&mut answer)?;
        Ok(answer)
    };
    // Scenes kill engines, too.
    note(&asked().unwrap_or_default());
}
