//! The mail server and its mailboxes.

use super::{MAIL_TOOLS, Resolver, raw};
use crate::config::{
    MailConfig, MailTls,
    problem::{Path, Step},
    tree::Kind,
};
use lettre::{Address, message::Mailbox};
use std::net::IpAddr;

impl Resolver<'_> {
    pub(super) fn mail(&mut self, raw: raw::Mail) -> MailConfig {
        let path = Path::default().key("mail");
        let server = raw.server.unwrap_or_default();
        let tls = match raw.tls.as_deref() {
            Some("starttls") => MailTls::StartTls,
            Some("none") => MailTls::None,
            _ => MailTls::Implicit,
        };
        let here = server == "localhost" || server.parse::<IpAddr>().is_ok_and(|ip| ip.is_loopback());
        if tls == MailTls::None && !here && !self.report.mentions(&path.key("server")) {
            let hint = "write tls: starttls or tls: implicit; none is for a server on this machine";
            self.problem(&path.key("tls"), "would send mail in the clear", Some(hint.into()));
        }
        let usual = match tls {
            MailTls::Implicit => 465,
            MailTls::StartTls => 587,
            MailTls::None => 25,
        };
        let from = raw.from.unwrap_or_default();
        if from.parse::<Mailbox>().is_err() && !from.is_empty() {
            self.problem(&path.key("from"), "is no address", Some("expected NAME@DOMAIN or Name <NAME@DOMAIN>".into()));
        }
        let mailboxes = raw.mailboxes.unwrap_or_default();
        for (name, address) in &mailboxes {
            if address.parse::<Address>().is_err() {
                let place = path.key("mailboxes").key(name);
                self.problem(&place, "is no address", Some("expected NAME@DOMAIN".into()));
            }
        }
        let credentials = match (raw.username, raw.password) {
            (Some(username), Some(password)) => Some((username, password.into())),
            (None, None) => None,
            (username, _) => {
                let missing = if username.is_some() { "password" } else { "username" };
                let both = [missing, "username", "password"].iter().all(|key| !self.report.mentions(&path.key(key)));
                if both {
                    self.problem(&path.key(missing), "required, since the other half of the login is there", None);
                }
                None
            }
        };
        let port = raw.port.and_then(|port| port.try_into().ok()).unwrap_or(usual);
        let ca_file = raw.ca_file.map(|file| self.folder.join(file));
        if let Some(file) = &ca_file
            && let Err(error) = std::fs::metadata(file)
        {
            self.problem(&path.key("ca_file"), format!("cannot be read: {error}"), None);
        }
        MailConfig { server, port, tls, ca_file, credentials, from, mailboxes }
    }

    /// Which mailbox a context's messages go to.
    pub(super) fn mailbox(&mut self, written: Option<String>, tools: &[String], context: &Path) -> Option<String> {
        let path = Path::default().key("mail").key("mailboxes");
        let declared: Option<Vec<String>> = match self.root.at(&path).map(|node| &node.kind) {
            Some(Kind::Map(entries)) => Some(entries.iter().map(|entry| entry.key.clone()).collect()),
            None if self.root.child(&Step::Key("mail".into())).is_none() => Some(Vec::new()),
            _ => None,
        };
        let place = context.key("mailbox");
        match (written, declared.as_deref()) {
            (Some(name), Some(declared)) if !declared.contains(&name) => {
                let message = format!("unknown mailbox {}", self.shown(&place, &name));
                let known: Vec<&str> = declared.iter().map(String::as_str).collect();
                self.problem(&place, message, super::suggest(&name, &known));
                None
            }
            (Some(name), _) => Some(name),
            (None, Some([only])) => Some(only.clone()),
            (None, Some([_, ..])) if tools.iter().any(|tool| MAIL_TOOLS.contains(&&**tool)) => {
                let hint = "the tools of this context send mail, and there are several mailboxes";
                self.problem(&place, "required, but missing", Some(hint.into()));
                None
            }
            (None, _) => None,
        }
    }
}
