//! The requests themselves, one function each.

use super::{AriClient, AriError, Fault, Operation, Request};
use crate::asterisk::media::Coding;
use crate::{
    audio::Format,
    facts::{CallId, Party},
};
use futures_util::future::join_all;
use jiff::Timestamp;
use reqwest::Method;
use serde::{Deserialize, de::DeserializeOwned};
use serde_json::{Value, json};
use std::{
    collections::{BTreeMap, BTreeSet},
    net::{IpAddr, SocketAddr},
    time::Duration,
};
use uuid::Uuid;

/// Variable of a WebSocket media channel: what a connection to it is asked for by.
const WEBSOCKET_CONNECTION: &str = "MEDIA_WEBSOCKET_CONNECTION_ID";
/// Variables of an RTP media channel: where Asterisk listens.
const RTP_ADDRESS: &str = "UNICASTRTP_LOCAL_ADDRESS";
const RTP_PORT: &str = "UNICASTRTP_LOCAL_PORT";

/// Channel function that says whether a caller's number may be shown; no event of ARI tells it.
pub const PRESENTATION: &str = "CALLERID(pres)";

/// How Asterisk shall carry a media channel's audio to us.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum MediaWire {
    /// Asterisk connects to `host` (`name:port`) and names itself by `id`.
    AudioSocket { host: String, id: Uuid },
    /// Asterisk sends packets to `host` (`address:port`).
    Rtp { host: String },
    /// Asterisk waits for a connection at [`MediaChannel::connection`].
    WebSocket(Coding),
}

/// A media channel Asterisk has made.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct MediaChannel {
    pub id: String,
    /// Where Asterisk expects our packets (`UNICASTRTP_LOCAL_ADDRESS` and `_PORT`); RTP only.
    pub rtp_peer: Option<SocketAddr>,
    /// What a WebSocket to this channel is asked for by (`MEDIA_WEBSOCKET_CONNECTION_ID`).
    pub connection: Option<String>,
}

impl MediaChannel {
    fn of(id: String, told: &BTreeMap<String, Value>) -> Self {
        let connection = told.get(WEBSOCKET_CONNECTION).and_then(Value::as_str).map(str::to_owned);
        Self { id, rtp_peer: rtp_peer(told), connection }
    }
}

#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
pub struct ChannelInfo {
    pub id: String,
    #[serde(default)]
    pub state: String,
    #[serde(default)]
    pub channelvars: BTreeMap<String, String>,
}

#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
pub struct BridgeInfo {
    pub id: String,
    #[serde(default)]
    pub channels: Vec<String>,
}

/// Packets of a caller's own audio, since their channel began.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize)]
pub struct RtpPackets {
    /// That Asterisk has received of them.
    #[serde(rename = "rxcount")]
    pub received: u64,
    /// That Asterisk has sent to them.
    #[serde(rename = "txcount")]
    pub sent: u64,
}

/// How an endpoint is called.
#[derive(Debug)]
pub struct Originate<'a> {
    pub endpoint: &'a str,
    /// `"Name" <number>` of whoever calls, as the endpoint shows it.
    pub caller_id: Option<&'a str>,
    /// When Asterisk gives up by itself.
    pub limit: Duration,
    /// The channel on whose behalf it is called: formats and account come from it.
    pub originator: &'a str,
    pub variables: &'a BTreeMap<&'static str, String>,
    /// Arguments of Stasis, which the channel enters when it is answered; separated by commas.
    pub arguments: &'a str,
}

/// What Asterisk says of itself.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct About {
    /// Such as `22.10.1`.
    pub version: String,
    /// What its clock showed when it answered, in whole seconds.
    pub clock: Option<Timestamp>,
}

/// What Asterisk knows of our application.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
pub struct Application {
    /// Channels whose events we get: those in Stasis for us, and transferred callers for a while ([`AriClient::subscribe`]).
    #[serde(default)]
    pub channel_ids: Vec<String>,
    /// The same of bridges: those that we have made.
    #[serde(default)]
    pub bridge_ids: Vec<String>,
}

impl AriClient {
    /// Answers; a channel that is answered already stays as it is.
    pub async fn answer(&self, channel: &str) -> Result<(), AriError> {
        self.post(Operation::Answer, &["channels", channel, "answer"], json!({})).await
    }

    /// Lets the caller hear ringing: 180 before the answer, the tone of `indications.conf` after it.
    pub async fn ring(&self, channel: &str) -> Result<(), AriError> {
        self.post(Operation::Ring, &["channels", channel, "ring"], json!({})).await
    }

    pub async fn ring_stop(&self, channel: &str) -> Result<(), AriError> {
        self.delete(Operation::RingStop, &["channels", channel, "ring"], &[]).await
    }

    /// Back to the dialplan: to `place` (context, extension, priority), or to the step after the
    /// `Stasis()` the channel came from. A place that does not exist hangs the channel up, see
    /// [`AriClient::place_exists`].
    pub async fn continue_in_dialplan(&self, channel: &str, place: Option<(&str, &str, u32)>) -> Result<(), AriError> {
        let body = match place {
            None => json!({}),
            Some((context, extension, priority)) => {
                json!({ "context": context, "extension": extension, "priority": priority })
            }
        };
        self.post(Operation::Continue, &["channels", channel, "continue"], body).await
    }

    /// Whether the dialplan knows this place; `None` when Asterisk cannot say (its module
    /// `func_dialplan` is not loaded).
    pub async fn place_exists(&self, channel: &str, context: &str, extension: &str, priority: u32) -> Option<bool> {
        // The arguments of a dialplan function: nothing in them may end it or begin another.
        if [context, extension].iter().any(|part| part.contains([',', '(', ')', '$', '{', '}'])) {
            return None;
        }
        let asked = format!("DIALPLAN_EXISTS({context},{extension},{priority})");
        let answer = self.variable(channel, &asked).await.ok()??;
        match &*answer {
            "0" => Some(false),
            "1" => Some(true),
            _ => None,
        }
    }

    /// Hangs up with a reason ARI knows: `normal`, `busy`, `congestion`, `no_answer`. A channel
    /// that has gone already is a success.
    pub async fn hang_up(&self, channel: &str, reason: &str) -> Result<(), AriError> {
        self.gone(self.delete(Operation::HangUp, &["channels", channel], &[("reason", reason)]).await)
    }

    pub async fn set_variable(&self, channel: &str, name: &str, value: &str) -> Result<(), AriError> {
        let body = json!({ "variable": name, "value": value });
        self.post(Operation::SetVariable, &["channels", channel, "variable"], body).await
    }

    /// Sets a global variable of the dialplan.
    pub async fn set_global(&self, name: &str, value: &str) -> Result<(), AriError> {
        let body = json!({ "variable": name, "value": value });
        self.post(Operation::SetGlobal, &["asterisk", "variable"], body).await
    }

    /// Reads a global variable of the dialplan; empty where it is not set.
    pub async fn global(&self, name: &str) -> Result<String, AriError> {
        #[derive(Deserialize)]
        struct Answer {
            value: String,
        }
        let (path, query) = (["asterisk", "variable"], [("variable", name)]);
        let body = self.request(Operation::ReadGlobal, Request::get(&path).query(&query)).await?;
        read(Operation::ReadGlobal, &body).map(|answer: Answer| answer.value)
    }

    /// Reads a variable or dialplan function; `None` when it is not set.
    pub async fn variable(&self, channel: &str, name: &str) -> Result<Option<String>, AriError> {
        #[derive(Deserialize)]
        struct Answer {
            value: String,
        }
        let request = ["channels", channel, "variable"];
        let query = [("variable", name)];
        let body = match self.request(Operation::ReadVariable, Request::get(&request).query(&query)).await {
            Ok(body) => body,
            Err(error) if error.is_not_found() => return Ok(None),
            Err(error) => return Err(error),
        };
        read(Operation::ReadVariable, &body).map(|answer: Answer| Some(answer.value))
    }

    /// Reads variables side by side, in the time of one: those that are not set, are empty or
    /// cannot be read are left out (failures are counted).
    pub async fn variables(&self, channel: &str, names: &[&str]) -> BTreeMap<String, String> {
        let values = join_all(names.iter().map(|name| self.variable(channel, name))).await;
        let named = names.iter().zip(values);
        named
            .filter_map(|(name, value)| Some(((*name).to_owned(), value.ok()??)))
            .filter(|(_, value)| !value.is_empty())
            .collect()
    }

    /// The one at a channel's far end, as Asterisk knows them, and [`PRESENTATION`].
    pub async fn party(&self, channel: &str) -> (Party, Option<String>) {
        const NAME: &str = "CALLERID(name)";
        const NUMBER: &str = "CALLERID(num)";
        let mut told = self.variables(channel, &[NAME, NUMBER, PRESENTATION]).await;
        let party = Party { name: told.remove(NAME).into(), number: told.remove(NUMBER).into() };
        (party, told.remove(PRESENTATION))
    }

    /// Whether the caller's phone has the call on hold (`CHANNEL(rtp,hold)` of chan_pjsip). `None`: Asterisk cannot tell, or
    /// did not.
    pub async fn is_on_hold(&self, channel: &str) -> Option<bool> {
        match self.variable(channel, "CHANNEL(rtp,hold)").await {
            Ok(value) => match &*value? {
                "0" => Some(false),
                "1" => Some(true),
                _ => None,
            },
            Err(error) => {
                tracing::debug!(%error, "Asterisk does not tell whether a caller is on hold");
                None
            }
        }
    }

    /// What passes between Asterisk and a caller, whatever passes between Asterisk and us. An error where the caller does not
    /// come by RTP.
    pub async fn rtp_packets(&self, channel: &str) -> Result<RtpPackets, AriError> {
        self.get(Operation::RtpStatistics, &["channels", channel, "rtp_statistics"]).await
    }

    /// Makes the media channel of a call. Its `StasisStart` comes after this answer, and it can be
    /// bridged only after that.
    pub async fn create_media(&self, call: CallId, wire: &MediaWire, format: Format) -> Result<MediaChannel, AriError> {
        self.external_media(self.names().media_channel(call), wire, format).await
    }

    /// The same under an id of the asker's.
    ///
    /// An answer that is lost is no reason to turn the caller away: whether the channel was made is told by its start,
    /// and where its audio goes can be asked.
    pub async fn external_media(&self, id: String, wire: &MediaWire, format: Format) -> Result<MediaChannel, AriError> {
        match self.ask_for_media(&id, wire, format).await {
            Ok(told) => Ok(MediaChannel::of(id, &told)),
            Err(error @ AriError { fault: Fault::OutcomeUnknown(_), .. }) => {
                let told = match wire {
                    MediaWire::AudioSocket { .. } => BTreeMap::new(),
                    MediaWire::Rtp { .. } => self.variables(&id, &[RTP_ADDRESS, RTP_PORT]).await,
                    MediaWire::WebSocket(_) => self.variables(&id, &[WEBSOCKET_CONNECTION]).await,
                };
                let told = told.into_iter().map(|(name, value)| (name, Value::String(value))).collect();
                let made = MediaChannel::of(id, &told);
                let usable = match wire {
                    MediaWire::AudioSocket { .. } => true,
                    MediaWire::Rtp { .. } => made.rtp_peer.is_some(),
                    MediaWire::WebSocket(_) => made.connection.is_some(),
                };
                if usable { Ok(made) } else { Err(error) }
            }
            Err(error) => Err(error),
        }
    }

    /// The variables of a media channel that was made.
    async fn ask_for_media(
        &self,
        id: &str,
        wire: &MediaWire,
        format: Format,
    ) -> Result<BTreeMap<String, Value>, AriError> {
        #[derive(Deserialize)]
        struct Answer {
            #[serde(default)]
            channelvars: BTreeMap<String, Value>,
        }
        let mut body = json!({
            "channelId": id,
            "app": self.names().app(),
            "format": if *wire == MediaWire::WebSocket(Coding::Opus) { "opus" } else { format.name() },
        });
        let fields = match wire {
            MediaWire::AudioSocket { host, id } => json!({
                "external_host": host, "encapsulation": "audiosocket", "transport": "tcp", "data": id.to_string(),
            }),
            MediaWire::Rtp { host } => json!({
                "external_host": host, "encapsulation": "rtp", "transport": "udp",
            }),
            MediaWire::WebSocket(_) => json!({
                "external_host": "INCOMING", "encapsulation": "none", "transport": "websocket",
                "connection_type": "server", "transport_data": "f(json)",
            }),
        };
        if let (Value::Object(body), Value::Object(fields)) = (&mut body, fields) {
            body.extend(fields);
        }
        let path = ["channels", "externalMedia"];
        let answer = self.request(Operation::CreateMedia, Request::post(&path).body(body)).await?;
        let answer: Answer = read(Operation::CreateMedia, &answer)?;
        Ok(answer.channelvars)
    }

    /// Calls an endpoint into our application, under an id of our own. Its `StasisStart` comes when it
    /// answers, its `ChannelDestroyed` tells why it did not.
    pub async fn originate(&self, channel: &str, to: &Originate<'_>) -> Result<(), AriError> {
        let mut body = json!({
            "endpoint": to.endpoint,
            "app": self.names().app(),
            "appArgs": to.arguments,
            "timeout": to.limit.as_secs(),
            "originator": to.originator,
            "variables": to.variables,
        });
        if let (Value::Object(body), Some(caller_id)) = (&mut body, to.caller_id) {
            body.insert("callerId".into(), caller_id.into());
        }
        self.post(Operation::Originate, &["channels", channel], body).await
    }

    /// Presses keys for the far end of a channel to hear; `w` waits for half a second.
    pub async fn send_digits(&self, channel: &str, digits: &str) -> Result<(), AriError> {
        self.post(Operation::SendDigits, &["channels", channel, "dtmf"], json!({ "dtmf": digits })).await
    }

    /// What Asterisk says of a device, such as `NOT_INUSE`.
    pub async fn device_state(&self, device: &str) -> Result<String, AriError> {
        #[derive(Deserialize)]
        struct Answer {
            state: String,
        }
        self.get(Operation::DeviceState, &["deviceStates", device]).await.map(|answer: Answer| answer.state)
    }

    /// Whether somebody is registered at an endpoint (`PJSIP/100`): `online`, `offline` or `unknown`.
    pub async fn endpoint_state(&self, technology: &str, resource: &str) -> Result<String, AriError> {
        #[derive(Deserialize)]
        struct Answer {
            #[serde(default)]
            state: String,
        }
        let path = ["endpoints", technology, resource];
        self.get(Operation::EndpointState, &path).await.map(|answer: Answer| answer.state)
    }

    /// Makes the bridge of a caller and whoever takes them over, and puts both into it: whatever
    /// bridge the caller was in, they leave it.
    pub async fn bridge_pair(&self, call: CallId, parties: [&str; 2]) -> Result<(), AriError> {
        let bridge = self.names().pair_bridge(call);
        self.post(Operation::CreateBridge, &["bridges", &bridge], json!({ "type": "mixing" })).await?;
        self.post(Operation::AddChannels, &["bridges", &bridge, "addChannel"], json!({ "channel": parties })).await
    }

    /// Makes the bridge of a call.
    pub async fn create_bridge(&self, call: CallId) -> Result<(), AriError> {
        let id = self.names().bridge(call);
        self.post(Operation::CreateBridge, &["bridges", &id], json!({ "type": "mixing" })).await
    }

    pub async fn add_channels(&self, call: CallId, channels: &[&str]) -> Result<(), AriError> {
        let bridge = self.names().bridge(call);
        self.post(Operation::AddChannels, &["bridges", &bridge, "addChannel"], json!({ "channel": channels })).await
    }

    pub async fn remove_channel(&self, call: CallId, channel: &str) -> Result<(), AriError> {
        let bridge = self.names().bridge(call);
        let body = json!({ "channel": [channel] });
        self.post(Operation::RemoveChannel, &["bridges", &bridge, "removeChannel"], body).await
    }

    /// A bridge that has gone already is a success.
    pub async fn delete_bridge(&self, bridge: &str) -> Result<(), AriError> {
        self.gone(self.delete(Operation::DeleteBridge, &["bridges", bridge], &[]).await)
    }

    pub async fn list_channels(&self) -> Result<Vec<ChannelInfo>, AriError> {
        let all: Vec<ChannelInfo> = self.get(Operation::ListChannels, &["channels"]).await?;
        let known = |info: ChannelInfo| Some(ChannelInfo { id: self.names().identities().id_of(info.id)?, ..info });
        Ok(all.into_iter().filter_map(known).collect())
    }

    pub async fn list_bridges(&self) -> Result<Vec<BridgeInfo>, AriError> {
        let all: Vec<BridgeInfo> = self.get(Operation::ListBridges, &["bridges"]).await?;
        Ok(all.into_iter().map(|bridge| BridgeInfo { channels: self.ids_of(bridge.channels), ..bridge }).collect())
    }

    /// The ids that these channels stand for.
    fn ids_of(&self, channels: Vec<String>) -> Vec<String> {
        channels.into_iter().filter_map(|channel| self.names().identities().id_of(channel)).collect()
    }

    /// Who is in the bridge of a call; `None`: there is no such bridge.
    pub async fn bridge_members(&self, call: CallId) -> Result<Option<Vec<String>>, AriError> {
        match self.get(Operation::ReadBridge, &["bridges", &self.names().bridge(call)]).await {
            Ok(BridgeInfo { channels, .. }) => Ok(Some(self.ids_of(channels))),
            Err(error) if error.is_not_found() => Ok(None),
            Err(error) => Err(error),
        }
    }

    /// Whether this channel exists.
    pub async fn is_there(&self, channel: &str) -> Result<bool, AriError> {
        self.list_channels().await.map(|all| all.iter().any(|one| one.id == channel))
    }

    /// `None`: Asterisk does not know the application, as nobody has ever connected for it.
    pub async fn application(&self) -> Result<Option<Application>, AriError> {
        match self.get(Operation::Application, &["applications", self.names().app()]).await {
            Ok(Application { channel_ids, bridge_ids }) => {
                Ok(Some(Application { channel_ids: self.ids_of(channel_ids), bridge_ids }))
            }
            Err(error) if error.is_not_found() => Ok(None),
            Err(error) => Err(error),
        }
    }

    /// Has Asterisk tell of this channel, also when it is not in our application any more, until the channel ends.
    pub async fn subscribe(&self, channel: &str) -> Result<(), AriError> {
        self.subscription(Operation::Subscribe, Method::POST, channel).await
    }

    /// Takes one such subscription back. That of a channel in our application is another one, which stays.
    pub async fn unsubscribe(&self, channel: &str) -> Result<(), AriError> {
        self.subscription(Operation::Unsubscribe, Method::DELETE, channel).await
    }

    async fn subscription(&self, operation: Operation, method: Method, channel: &str) -> Result<(), AriError> {
        let (path, source) = (["applications", self.names().app(), "subscription"], format!("channel:{channel}"));
        let query = [("eventSource", &*source)];
        self.request(operation, Request::new(method, &path).query(&query)).await.map(drop)
    }

    /// What Asterisk says of itself: the cheapest proof that address and password are right.
    pub async fn about(&self) -> Result<About, AriError> {
        #[derive(Deserialize)]
        struct Told {
            system: System,
        }
        #[derive(Deserialize)]
        struct System {
            version: String,
        }
        let query = [("only", "system")];
        let answer = self.answer_to(Operation::Info, Request::get(&["asterisk", "info"]).query(&query)).await?;
        let told: Told = read(Operation::Info, &answer.body)?;
        Ok(About { version: told.system.version, clock: answer.date() })
    }

    /// The modules that run, such as `chan_rtp`.
    pub async fn modules(&self) -> Result<BTreeSet<String>, AriError> {
        #[derive(Deserialize)]
        struct Module {
            name: String,
            #[serde(default)]
            status: String,
        }
        let all: Vec<Module> = self.get(Operation::Info, &["asterisk", "modules"]).await?;
        let running = all.into_iter().filter(|module| module.status == "Running");
        Ok(running.map(|module| module.name.trim_end_matches(".so").to_owned()).collect())
    }

    /// What was gone already is fine; what may still be there is looked for later.
    fn gone(&self, removed: Result<(), AriError>) -> Result<(), AriError> {
        match removed {
            Err(error) if error.is_not_found() => Ok(()),
            Err(error) => {
                self.untidy();
                Err(error)
            }
            Ok(()) => Ok(()),
        }
    }

    async fn post(&self, operation: Operation, path: &[&str], body: Value) -> Result<(), AriError> {
        self.request(operation, Request::post(path).body(body)).await.map(drop)
    }

    async fn delete(&self, operation: Operation, path: &[&str], query: &[(&str, &str)]) -> Result<(), AriError> {
        self.request(operation, Request::delete(path).query(query)).await.map(drop)
    }

    async fn get<T: DeserializeOwned>(&self, operation: Operation, path: &[&str]) -> Result<T, AriError> {
        read(operation, &self.request(operation, Request::get(path)).await?)
    }
}

pub(super) fn read<T: DeserializeOwned>(operation: Operation, body: &[u8]) -> Result<T, AriError> {
    // serde's own words may quote the document; its class and place do not.
    serde_json::from_slice(body).map_err(|error| AriError {
        operation,
        fault: Fault::Unreadable(format!("{:?} error at column {}", error.classify(), error.column())),
    })
}

/// Asterisk tells the address it bound; a wildcard is no address to send to.
pub(super) fn rtp_peer(variables: &BTreeMap<String, Value>) -> Option<SocketAddr> {
    let variable = |name| variables.get(name).and_then(Value::as_str);
    let address: IpAddr = variable(RTP_ADDRESS)?.parse().ok()?;
    let port = variable(RTP_PORT)?.parse().ok()?;
    (!address.is_unspecified() && port != 0).then(|| SocketAddr::new(address, port))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn told(address: &str, port: &str) -> Option<SocketAddr> {
        rtp_peer(&BTreeMap::from([
            ("UNICASTRTP_LOCAL_ADDRESS".into(), json!(address)),
            ("UNICASTRTP_LOCAL_PORT".into(), json!(port)),
        ]))
    }

    #[test]
    fn the_address_asterisk_tells_is_where_packets_go() {
        assert_eq!(told("127.0.0.1", "23010"), Some("127.0.0.1:23010".parse().unwrap()));
        assert_eq!(told("fd00::5", "23010"), Some("[fd00::5]:23010".parse().unwrap()));
    }

    #[test]
    fn an_address_nobody_can_send_to_is_none() {
        for (address, port) in [("0.0.0.0", "23010"), ("::", "1"), ("127.0.0.1", "0"), ("pbx", "23010"), ("", "")] {
            assert_eq!(told(address, port), None, "{address} {port}");
        }
        assert_eq!(rtp_peer(&BTreeMap::new()), None);
    }
}
