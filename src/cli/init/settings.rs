//! What Asterisk has to be told: its `http.conf` and `ari.conf`.

use super::{ARI_PASSWORD, Answers, Pbx, Secrets};
use anyhow::ensure;
use secrecy::ExposeSecret as _;
use url::{Host, Url};

/// Of the server without TLS, where ARI is reached with it.
const PLAIN_PORT: u16 = 8088;
/// Of the same where that one is taken.
const OTHER_PORT: u16 = 8089;

/// Both files, ready to be copied; `secrets`, where the password itself is to be written.
pub fn settings(answers: &Answers, secrets: Option<&Secrets>) -> anyhow::Result<String> {
    let ways = match answers.pbx {
        Pbx::Asterisk => "",
        Pbx::Freepbx => {
            "; FreePBX writes these files itself: Settings → Advanced Settings → Asterisk REST Interface enables ARI, and Settings \
             → Asterisk\n; REST Interface Users makes the user (not read-only). What is below says what they have to come to.\n\n"
        }
    };
    let password = match secrets.and_then(|secrets| secrets.get(ARI_PASSWORD)) {
        Some(password) => in_asterisk(password.expose_secret())?,
        None => {
            format!("…             ; the one that offhook has in {ARI_PASSWORD}; each semicolon of it is written \\;")
        }
    };
    Ok(format!(
        "{ways}; In /etc/asterisk/http.conf:\n\n[general]\nenabled = yes\n{}sessionlimit = 1000        ; each request \
         and socket counts; the default of 100 is too few for 100 calls\n\n; In /etc/asterisk/ari.conf:\n\n[general]\nenabled = \
         yes\n\n[{}]\ntype = user\npassword = {password}\n\n; Then: asterisk -rx \
         'module reload http'; asterisk -rx 'module reload res_ari.so'\n",
        server(&answers.ari_url),
        answers.ari_user
    ))
}

/// Where Asterisk's server listens, so that it is found at this address.
fn server(ari_url: &str) -> String {
    // An address that is none makes no configuration either, and is told there.
    let url = Url::parse(ari_url).ok();
    let port = url.as_ref().and_then(Url::port_or_known_default).unwrap_or(PLAIN_PORT);
    let host = url.as_ref().and_then(Url::host);
    let (here, all) = match host {
        Some(Host::Ipv6(_)) => ("::1", "::"),
        _ => ("127.0.0.1", "0.0.0.0"),
    };
    let is_here = host.as_ref().is_some_and(is_loopback);
    let bind = if is_here { here } else { all };
    let path = url.as_ref().map(|url| url.path().trim_matches('/')).filter(|path| !path.is_empty());
    let prefix = path.map(|path| format!("prefix = /{path}\n")).unwrap_or_default();
    if url.as_ref().is_some_and(|url| url.scheme() == "https") {
        let told = match is_here {
            true => "",
            false => "; It listens on all addresses: let a firewall pass this machine alone.\n",
        };
        let plain = if port == PLAIN_PORT { OTHER_PORT } else { PLAIN_PORT };
        let name = host.map(|host| host.to_string()).unwrap_or_default();
        let bind = if bind.contains(':') { format!("[{bind}]") } else { bind.to_owned() };
        return format!(
            "bindaddr = 127.0.0.1       ; without TLS for this machine alone\nbindport = {plain}\n{told}tlsenable = \
             yes\ntlsbindaddr = {bind}:{port}\n; A certificate for {name}, which docs/guides/tls.md makes, and its key:\n\
             tlscertfile = /etc/asterisk/keys/asterisk.pem\ntlsprivatekey = /etc/asterisk/keys/asterisk.key\n{prefix}"
        );
    }
    let told = match is_here {
        true => "",
        false => {
            "; It listens on all addresses: let a firewall pass this machine alone, or use TLS (docs/guides/tls.md).\n"
        }
    };
    format!("{told}bindaddr = {bind}\nbindport = {port}\n{prefix}")
}

fn is_loopback(host: &Host<&str>) -> bool {
    match host {
        Host::Domain(name) => *name == "localhost",
        Host::Ipv4(address) => address.is_loopback(),
        Host::Ipv6(address) => address.is_loopback(),
    }
}

/// A value as Asterisk's configuration files read it back.
fn in_asterisk(value: &str) -> anyhow::Result<String> {
    ensure!(
        value.trim() == value && !value.contains(char::is_control),
        "{ARI_PASSWORD} begins or ends with a blank, or has a control character: Asterisk's files cannot hold that; take another one"
    );
    // It would begin a comment.
    Ok(value.replace(';', r"\;"))
}
