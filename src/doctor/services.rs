//! What else is asked over the network: MCP servers, the mail server, the addresses that are written in the configuration.

use super::Finding;
use crate::{
    config::{Config, McpServer, ProviderConfig},
    mcp::{Fleet, McpCounters},
    outbound::mail,
    remote::http,
};
use futures_util::future::join_all;
use prometheus::Registry;
use std::{collections::BTreeMap, sync::Arc, time::Duration};
use tokio::{net::TcpStream, runtime::Handle, time::timeout};
use url::Url;

/// A service that is there answers a plain request within this.
const ANSWER_MAX: Duration = Duration::from_secs(8);
/// Looking up names included, which mail servers do.
const MAIL_MAX: Duration = Duration::from_secs(20);

pub(super) async fn examine(config: &Config) -> Vec<Finding> {
    let (servers, mail, addresses) = tokio::join!(mcp(config), mail(config), addresses(config));
    servers.into_iter().chain(mail).chain(addresses).collect()
}

async fn mcp(config: &Config) -> Vec<Finding> {
    let wanted: Vec<&McpServer> =
        config.mcp.servers.values().filter(|server| config.mcp.enabled && server.enabled).collect();
    if wanted.is_empty() {
        return Vec::new();
    }
    let fleet = Fleet::on(Handle::current(), Arc::new(McpCounters::new(&Registry::new())));
    let tested = join_all(wanted.iter().map(|server| fleet.test(server))).await;
    fleet.stop().await;
    let told = wanted.iter().zip(tested).filter_map(|(server, report)| Some((&server.id, report?.result)));
    told.map(|(id, result)| match result {
        Err(why) => {
            let remedy = "start its command by hand as this user, or see docs/mcp.md";
            Finding::problem("mcp", format!("mcp.servers.{id}: {why}"), remedy)
        }
        Ok(tools) => {
            let unusable = tools.iter().filter(|tool| tool.spec.is_err()).count();
            let tools_are = if tools.len() == 1 { "tool" } else { "tools" };
            let says = format!("mcp.servers.{id} starts and has {} {tools_are}", tools.len());
            match unusable {
                0 => Finding::ok("mcp", says),
                _ => {
                    let says = format!("{says}, {unusable} of them unusable");
                    Finding::warning("mcp", says, "/mcp/status of a running engine tells which, and why")
                }
            }
        }
    })
    .collect()
}

async fn mail(config: &Config) -> Option<Finding> {
    let mail = config.mail.as_ref()?;
    let place = format!("{}:{}", mail.server, mail.port);
    let tried = timeout(MAIL_MAX, mail::reach(mail)).await;
    Some(match tried.unwrap_or(Err("it does not answer in time")) {
        Ok(()) => {
            Finding::ok("mail", format!("the mail server {place} takes us as mail.username says; no mail was sent"))
        }
        Err(why) => {
            let remedy = "compare mail.server, mail.port, mail.tls, mail.username and mail.password with what the server's own page says";
            Finding::problem("mail", format!("the mail server {place}: {why}"), remedy)
        }
    })
}

/// Addresses of services, by the setting that names them.
async fn addresses(config: &Config) -> Vec<Finding> {
    let mut written = BTreeMap::new();
    let services = &config.services;
    let sections: [(&str, &BTreeMap<String, ProviderConfig>); 3] =
        [("stt", &services.stt), ("llm", &services.llm), ("voices", &services.voices)];
    for (section, entries) in sections {
        for (name, entry) in entries {
            let options = entry.options.as_object().into_iter().flatten();
            for (key, value) in options.filter(|(key, _)| ["base_url", "url", "address"].contains(&key.as_str())) {
                let setting = format!("{section}.{name}.{}.{key}", entry.kind);
                written.extend(value.as_str().map(|address| (setting, address.to_owned())));
            }
        }
    }
    for (name, context) in &config.contexts {
        let gate = context.policy.remote_gate.as_ref();
        written.extend(gate.map(|gate| (format!("contexts.{name}: the remote gate"), gate.url.clone())));
    }
    join_all(written.iter().map(|(setting, address)| one(setting, address))).await
}

async fn one(setting: &str, address: &str) -> Finding {
    // Only host and port are shown: an address may hold more than is anybody's business.
    let (place, reached) = match Url::parse(&address.replacen("ws", "http", usize::from(address.starts_with("ws")))) {
        Ok(url) if url.has_host() => {
            let place = format!("{}:{}", url.host_str().unwrap_or_default(), url.port_or_known_default().unwrap_or(0));
            (place, timeout(ANSWER_MAX, answers(url)).await)
        }
        _ => (address.to_owned(), timeout(ANSWER_MAX, connects(address)).await),
    };
    match reached.unwrap_or_else(|_| Err(format!("no answer within {} s", ANSWER_MAX.as_secs()))) {
        Ok(()) => Finding::ok("service", format!("{setting}: {place} answers")),
        Err(why) => {
            let remedy = "is the service running, is its name known here, does this machine trust its certificate (update-ca-certificates)?";
            Finding::problem("service", format!("{setting}: {place} cannot be reached: {why}"), remedy)
        }
    }
}

/// Whatever is answered, somebody is there, and by the right certificate.
async fn answers(mut url: Url) -> Result<(), String> {
    url.set_path("/");
    url.set_query(None);
    let client = http::client().map_err(|_| "no HTTP client can be made".to_owned())?;
    client.get(url).send().await.map(drop).map_err(|error| http::fault(error).to_string())
}

async fn connects(address: &str) -> Result<(), String> {
    TcpStream::connect(address).await.map(drop).map_err(|error| error.to_string())
}
