//! Audio paths that break under a call: the caller hears a gap, and the call goes on over another path.

pub use crate::calls::kit::audio::longest_gap;
use crate::calls::{
    AGENT_HZ, CALLER_HZ, SOON, agent,
    doctor::ECHO,
    each,
    kit::{
        asterisk::{ARI_USER, Asterisk, DESK_HZ, Options},
        audio::{silence, tone},
        offhook::{Offhook, Place},
        phone::Phone,
        proxy::{Carries, Flow, Proxy},
        relay::Order,
    },
    ms, pbx, relayed,
};
use reqwest::Method;
use serde_json::Value;
use socket2::Socket;
use std::{net::Ipv4Addr, time::Duration};
use tokio::time::{Instant, sleep};

const AGENT_FOR_A_MINUTE: &str = "- tone: { hertz: 440, for: 60s }";
/// Each transport, with a format that it carries.
const TRANSPORTS: [(&str, &str); 3] =
    [("audiosocket", "audiosocket/slin"), ("rtp", "rtp/ulaw"), ("websocket", "websocket/slin16")];
/// What the caller may miss.
const GAP_MAX: Duration = Duration::from_secs(2);
const RETRIED: &str = "offhook_media_repairs_total{outcome=\"retried\"}";
pub const REPAIRED: &str = "offhook_media_repairs_total{outcome=\"repaired\"}";

pub async fn dial(asterisk: &Asterisk) -> Phone {
    let phone = Phone::call(asterisk.sip_port(), "7000", silence(ms(60_000))).await;
    phone.wait_to_hear(AGENT_HZ, ms(500), SOON).await;
    phone
}

/// The caller hears the agent again within the limit, offhook hears the caller, and it is the same session.
async fn goes_on(offhook: &Offhook, phone: &Phone, transport: &str, repairs: f64) {
    offhook.wait_metric(REPAIRED, repairs, SOON).await;
    let so_far = phone.heard().time_of(AGENT_HZ);
    phone.wait_to_hear(AGENT_HZ, so_far + ms(1_000), SOON).await;
    let gap = longest_gap(&phone.heard(), AGENT_HZ);
    assert!(gap <= GAP_MAX, "a gap of {gap:?}");
    let received = format!("offhook_media_frames_received_total{{transport=\"{transport}\"}}");
    let before = offhook.metric(&received).await;
    offhook.wait_metric(&received, before + 20.0, SOON).await;
    offhook.wait_active(1, SOON).await;
}

pub async fn hang_up(mut phone: Phone, offhook: &Offhook, asterisk: &Asterisk) {
    phone.hang_up().await;
    assert_eq!(offhook.wait_end_reason(SOON).await, "caller_hung_up");
    asterisk.wait_empty(SOON).await;
    offhook.wait_active(0, SOON).await;
    assert_eq!(offhook.metric("offhook_media_open{").await, 0.0, "sockets left open");
}

async fn a_connection_that_is_closed_in_mid_call_is_replaced_and_the_agent_goes_on() {
    let (relay, asterisk, offhook) = relayed(AGENT_FOR_A_MINUTE).await;
    let phone = dial(&asterisk).await;
    relay.order(Order::Close);
    goes_on(&offhook, &phone, "audiosocket", 1.0).await;
    // By the socket, or by the end of Asterisk's channel, whichever is told first; never by both.
    offhook.metric_is("offhook_media_faults_total", 1.0).await;
    // Again, with what took its place.
    relay.order(Order::Close);
    goes_on(&offhook, &phone, "audiosocket", 2.0).await;
    let gap = longest_gap(&phone.heard(), AGENT_HZ);
    assert!(gap <= ms(500), "a close is noticed at once: {gap:?}");
    hang_up(phone, &offhook, &asterisk).await;
}

/// T22: the peer breaks the protocol of AudioSocket.
async fn a_connection_that_says_what_cannot_be_is_replaced_as_often_as_it_does() {
    let (relay, asterisk, offhook) = relayed(AGENT_FOR_A_MINUTE).await;
    let phone = dial(&asterisk).await;
    for repairs in [1.0, 2.0] {
        relay.order(Order::Oversize);
        goes_on(&offhook, &phone, "audiosocket", repairs).await;
        assert_eq!(faults(&offhook, &["broken"]).await, repairs, "{}", offhook.log());
    }
    offhook.metric_is("offhook_media_faults_total", 2.0).await;
    hang_up(phone, &offhook, &asterisk).await;
}

/// T22: a frame of which a part never comes.
async fn a_connection_that_is_cut_off_or_stalls_within_a_frame_is_replaced() {
    let (relay, asterisk, offhook) = relayed(AGENT_FOR_A_MINUTE).await;
    let phone = dial(&asterisk).await;
    for (repairs, order) in [(1.0, Order::Truncate), (2.0, Order::StallWithin)] {
        relay.order(order);
        goes_on(&offhook, &phone, "audiosocket", repairs).await;
        offhook.metric_is("offhook_media_faults_total", repairs).await;
    }
    hang_up(phone, &offhook, &asterisk).await;
}

/// T22: the connection stays open and carries nothing.
async fn a_connection_that_stalls_is_noticed_by_the_caller_s_packets_and_replaced() {
    let (relay, asterisk, offhook) = relayed(AGENT_FOR_A_MINUTE).await;
    let phone = dial(&asterisk).await;
    relay.order(Order::Stall);
    goes_on(&offhook, &phone, "audiosocket", 1.0).await;
    hang_up(phone, &offhook, &asterisk).await;
}

/// Faults of any of these kinds.
async fn faults(offhook: &Offhook, kinds: &[&str]) -> f64 {
    let mut sum = 0.0;
    for kind in kinds {
        sum += offhook.metric(&format!("offhook_media_faults_total{{fault=\"{kind}\"}}")).await;
    }
    sum
}

/// T22: the peer goes on sending and does not read.
async fn a_peer_that_reads_nothing_any_more_is_dead_though_the_caller_is_heard_and_is_replaced() {
    let (relay, asterisk, offhook) = relayed(AGENT_FOR_A_MINUTE).await;
    let phone = dial(&asterisk).await;
    relay.order(Order::Unread);
    goes_on(&offhook, &phone, "audiosocket", 1.0).await;
    // By frames that are refused, or by what Asterisk passes on no more, whichever is noticed first.
    assert_eq!(faults(&offhook, &["dead", "mute"]).await, 1.0, "{}", offhook.log());
    offhook.metric_is("offhook_media_faults_total", 1.0).await;
    hang_up(phone, &offhook, &asterisk).await;
}

/// T22: one call for each: the connection is closed, carries nothing, or is not read.
async fn a_media_websocket_that_closes_stalls_or_is_not_read_is_replaced() {
    let asterisk = Asterisk::start(Options::default()).await;
    let proxy = Proxy::to(asterisk.http_port()).await;
    for (flow, kinds) in [(Flow::Cut, &[][..]), (Flow::Dead, &["deaf"]), (Flow::Unread, &["dead", "mute"])] {
        let place = Place::free();
        let yaml = place.yaml_of(Some((&proxy.url(), asterisk.ari_password())));
        let agents = agent(AGENT_FOR_A_MINUTE, "    audio: websocket/slin16\n");
        let offhook = Offhook::start(place, &format!("{yaml}{agents}")).await;
        offhook.wait_ready(true).await;
        let phone = dial(&asterisk).await;
        proxy.order(Carries::Media, flow);
        goes_on(&offhook, &phone, "websocket", 1.0).await;
        offhook.metric_is("offhook_media_faults_total", 1.0).await;
        if !kinds.is_empty() {
            assert_eq!(faults(&offhook, kinds).await, 1.0, "{flow:?}\n{}", offhook.log());
        }
        assert_eq!(offhook.metric("offhook_ari_reconnects_total").await, 0.0, "only the audio was touched");
        hang_up(phone, &offhook, &asterisk).await;
    }
}

/// Looks at the kernel's table of sockets before a socket that is there counts as missing.
const LOOKS_MAX: usize = 100;

/// The UDP socket that a process has at this port: what is sent from it comes from there.
pub fn udp_socket(pid: u32, port: u16) -> Socket {
    // The table is read in pieces: while other sockets are opened and closed, one that stays open may be left out of it.
    let found = (0..LOOKS_MAX).find_map(|_| {
        let table = std::fs::read_to_string(format!("/proc/{pid}/net/udp")).expect("the kernel's table");
        table.lines().skip(1).find_map(|line| {
            let columns: Vec<&str> = line.split_whitespace().collect();
            let (_, local_port) = columns[1].rsplit_once(':')?;
            let is_it = u16::from_str_radix(local_port, 16) == Ok(port);
            is_it.then(|| descriptor(pid, columns[9]))?
        })
    });
    let number = found.unwrap_or_else(|| panic!("process {pid} has no UDP socket at port {port}"));
    let process = rustix::process::Pid::from_raw(pid.try_into().expect("a process")).expect("not 0");
    let process =
        rustix::process::pidfd_open(process, rustix::process::PidfdFlags::empty()).expect("a process that runs");
    let flags = rustix::process::PidfdGetfdFlags::empty();
    Socket::from(rustix::process::pidfd_getfd(&process, number, flags).expect("a file that may be shared"))
}

/// Which of a process' files the socket of this inode is; None where it is another process' socket.
fn descriptor(pid: u32, inode: &str) -> Option<i32> {
    let target = format!("socket:[{inode}]");
    let mut files = std::fs::read_dir(format!("/proc/{pid}/fd")).expect("its files").flatten();
    let file =
        files.find(|file| std::fs::read_link(file.path()).is_ok_and(|link| link.as_os_str() == target.as_str()))?;
    file.file_name().to_str()?.parse().ok()
}

/// Its packets are refused from now on (ICMP), as by a port that nobody has; no socket of the process notices.
async fn close_port(asterisk: &Asterisk, pid: u32) {
    let channels = asterisk.channels().await;
    let media = channels.iter().find_map(|name| name.strip_prefix("UnicastRTP/127.0.0.1:")).expect("one call by RTP");
    let port: u16 = media.split('-').next().and_then(|port| port.parse().ok()).expect("where Asterisk sends to");
    let socket = udp_socket(pid, port);
    // A connected socket takes what comes from there alone.
    socket.connect(&std::net::SocketAddr::from((Ipv4Addr::LOCALHOST, 9)).into()).expect("a socket of UDP");
}

/// T22: Asterisk's packets are refused by ICMP, as at a port that nobody has open.
async fn an_rtp_port_that_is_closed_in_mid_call_is_noticed_and_another_one_opened() {
    let (asterisk, offhook) = pbx(AGENT_FOR_A_MINUTE, "    audio: rtp/ulaw\n").await;
    let phone = dial(&asterisk).await;
    let began = Instant::now();
    close_port(&asterisk, offhook.pid()).await;
    offhook.wait_metric(REPAIRED, 1.0, SOON).await;
    let took = began.elapsed();
    assert!(took <= GAP_MAX, "the agent was deaf for {took:?}");
    offhook.metric_is("offhook_media_faults_total{fault=\"deaf\"}", 1.0).await;
    goes_on(&offhook, &phone, "rtp", 1.0).await;
    hang_up(phone, &offhook, &asterisk).await;
}

/// T22: Asterisk hangs up its media channel.
async fn a_media_channel_that_ends_in_mid_call_is_replaced_over_each_transport() {
    each(
        [
            ("audiosocket", "audiosocket/slin16", "AudioSocket/"),
            ("rtp", "rtp/ulaw", "UnicastRTP/"),
            ("websocket", "websocket/slin16", "WebSocket/"),
        ],
        |(transport, leg, prefix)| async move {
            let (asterisk, offhook) = pbx(AGENT_FOR_A_MINUTE, &format!("    audio: {leg}\n")).await;
            let phone = dial(&asterisk).await;
            let channels = asterisk.channels().await;
            let media = channels.iter().find(|name| name.starts_with(prefix)).expect("a media channel");
            asterisk.cli(&format!("channel request hangup {media}")).await;
            goes_on(&offhook, &phone, transport, 1.0).await;
            let gap = longest_gap(&phone.heard(), AGENT_HZ);
            assert!(gap <= ms(500), "{leg}: an end is told at once: {gap:?}");
            hang_up(phone, &offhook, &asterisk).await;
        },
    )
    .await;
}

/// T22: measured by the caller's own tone, which the agent echoes.
async fn the_caller_is_heard_again_as_soon_as_the_agent_over_each_transport() {
    each(TRANSPORTS, |(transport, leg)| async move {
        let context = format!("    audio: {leg}\n    turns: {{ owner: provider }}\n");
        let (asterisk, offhook) = pbx(ECHO, &context).await;
        let mut phone = dial(&asterisk).await;
        phone.say(tone(CALLER_HZ, ms(60_000))).await;
        phone.wait_to_hear(CALLER_HZ, ms(500), SOON).await;
        let channels = asterisk.channels().await;
        let media = channels.iter().find(|name| !name.starts_with("PJSIP/")).expect("a media channel");
        asterisk.cli(&format!("channel request hangup {media}")).await;
        offhook.wait_metric(REPAIRED, 1.0, SOON).await;
        mute(&asterisk, "out").await;
        offhook.wait_metric(REPAIRED, 2.0, SOON).await;
        let so_far = phone.heard().time_of(CALLER_HZ);
        phone.wait_to_hear(CALLER_HZ, so_far + ms(1_000), SOON).await;
        let gap = longest_gap(&phone.heard(), CALLER_HZ);
        assert!(gap <= GAP_MAX, "{transport}: a gap of {gap:?}");
        hang_up(phone, &offhook, &asterisk).await;
    })
    .await;
}

/// T22: the caller's phone has the call on hold and sends nothing. Nobody looks for faults meanwhile, also where nobody told of it
/// since the events were away.
async fn a_call_on_hold_is_no_fault_over_each_transport() {
    each(["audiosocket/slin", "rtp/ulaw", "websocket/slin16"], |leg| async move {
        let asterisk = Asterisk::start(Options::default()).await;
        let proxy = Proxy::to(asterisk.http_port()).await;
        let place = Place::free();
        let yaml = place.yaml_of(Some((&proxy.url(), asterisk.ari_password())));
        let agents = agent(AGENT_FOR_A_MINUTE, &format!("    audio: {leg}\n"));
        let offhook = Offhook::start(place, &format!("{yaml}{agents}")).await;
        offhook.wait_ready(true).await;
        for (calls, told) in [(1, true), (2, false)] {
            let mut phone = dial(&asterisk).await;
            if !told {
                proxy.order(Carries::Events, Flow::Dead);
            }
            phone.hold().await;
            let caller = wait_held(&asterisk).await;
            if !told {
                proxy.order(Carries::Events, Flow::Cut);
                offhook.wait_metric("offhook_ari_reconnects_total", 1.0, SOON).await;
                offhook.wait_ready(true).await;
            }
            // Longer than any silence is borne.
            sleep(ms(3_000)).await;
            assert_eq!(offhook.metric("offhook_media_faults_total").await, 0.0, "{leg}, {told}: {}", offhook.log());
            offhook.wait_active(1, SOON).await;
            ari(&asterisk, Method::DELETE, &format!("channels/{caller}")).await;
            offhook.wait_ended(calls, SOON).await;
            asterisk.wait_empty(SOON).await;
        }
    })
    .await;
}

/// Waits until Asterisk knows that the phone has the call on hold, and tells the phone's channel.
pub async fn wait_held(asterisk: &Asterisk) -> String {
    let until = Instant::now() + SOON;
    loop {
        let channels = ari(asterisk, Method::GET, "channels").await;
        let mut channels = channels.as_array().expect("a list").iter();
        let caller = channels.find(|channel| channel["name"].as_str().is_some_and(|name| name.starts_with("PJSIP/")));
        let id = caller.and_then(|caller| caller["id"].as_str()).expect("the phone's channel");
        let held = ari(asterisk, Method::GET, &format!("channels/{id}/variable?variable=CHANNEL(rtp,hold)")).await;
        if held["value"] == "1" {
            return id.to_owned();
        }
        assert!(Instant::now() < until, "not on hold: {held}");
        sleep(ms(20)).await;
    }
}

/// T17: as another client of ARI may do it. Asterisk tells offhook nothing of it, and the silence is noticed.
async fn a_bridge_that_is_taken_from_a_call_is_made_again_over_each_transport() {
    each(TRANSPORTS, |(transport, leg)| async move {
        let (asterisk, offhook) = pbx(AGENT_FOR_A_MINUTE, &format!("    audio: {leg}\n")).await;
        let phone = dial(&asterisk).await;
        for repairs in [1.0, 2.0] {
            let bridges = ari(&asterisk, Method::GET, "bridges").await;
            let bridge = bridges[0]["id"].as_str().expect("the call's bridge");
            ari(&asterisk, Method::DELETE, &format!("bridges/{bridge}")).await;
            goes_on(&offhook, &phone, transport, repairs).await;
        }
        offhook.metric_is("offhook_media_faults_total", 2.0).await;
        hang_up(phone, &offhook, &asterisk).await;
    })
    .await;
}

/// T17: nobody speaks, so that no silence tells of it; the look at each call's bridge after a gap of the events does.
async fn a_bridge_that_went_while_no_event_came_is_made_again_though_nobody_speaks() {
    let asterisk = Asterisk::start(Options::default()).await;
    let proxy = Proxy::to(asterisk.http_port()).await;
    let place = Place::free();
    let yaml = place.yaml_of(Some((&proxy.url(), asterisk.ari_password())));
    let agents = agent("- tone: { hertz: 440, for: 1s }\n- listen: {}", "");
    let offhook = Offhook::start(place, &format!("{yaml}{agents}")).await;
    offhook.wait_ready(true).await;
    let mut phone = dial(&asterisk).await;
    // Its packets end, and nobody tells Asterisk.
    phone.vanish().await;
    offhook.wait_metric("offhook_caller_gap_frames_total", 100.0, SOON).await;
    proxy.order(Carries::Events, Flow::Dead);
    let bridges = ari(&asterisk, Method::GET, "bridges").await;
    let bridge = bridges[0]["id"].as_str().expect("the call's bridge");
    ari(&asterisk, Method::DELETE, &format!("bridges/{bridge}")).await;
    proxy.order(Carries::Events, Flow::Cut);
    offhook.wait_metric(REPAIRED, 1.0, SOON).await;
    assert_eq!(faults(&offhook, &["unbridged"]).await, 1.0, "{}", offhook.log());
    offhook.metric_is("offhook_media_faults_total", 1.0).await;
    let bridges = ari(&asterisk, Method::GET, "bridges").await;
    let inside = |bridge: &Value| bridge["channels"].as_array().map(Vec::len);
    assert_eq!(bridges.as_array().expect("a list").iter().map(inside).collect::<Vec<_>>(), [Some(2)], "{bridges}");
    offhook.wait_active(1, SOON).await;
}

/// The media channel stays up, and Asterisk sends nothing over it any more (`out`), or passes nothing on of what it is sent
/// (`in`).
async fn mute(asterisk: &Asterisk, direction: &str) {
    let until = Instant::now() + SOON;
    loop {
        let channels = ari(asterisk, Method::GET, "channels").await;
        let ids = channels.as_array().expect("a list").iter().filter_map(|channel| channel["id"].as_str());
        // One that was replaced may still be on its way out.
        if let [media] = ids.filter(|id| id.contains("-media")).collect::<Vec<_>>()[..] {
            ari(asterisk, Method::POST, &format!("channels/{media}/mute?direction={direction}")).await;
            return;
        }
        assert!(Instant::now() < until, "one media channel: {channels}");
        sleep(ms(20)).await;
    }
}

/// What ARI answers to somebody else than offhook; `null` where it has nothing to say.
pub async fn ari(asterisk: &Asterisk, method: Method, path: &str) -> Value {
    let _ = rustls::crypto::ring::default_provider().install_default();
    ari_by(&plain_client(), asterisk, method, path).await
}

/// A client that trusts nobody, which is quickly made: what it asks is not encrypted.
pub fn plain_client() -> reqwest::Client {
    reqwest::Client::builder().tls_certs_only([]).build().expect("a plain client")
}

/// ARI's answer to this client.
pub async fn ari_by(client: &reqwest::Client, asterisk: &Asterisk, method: Method, path: &str) -> Value {
    let request = client.request(method, format!("{}/ari/{path}", asterisk.ari_url()));
    let answer = request.basic_auth(ARI_USER, Some(asterisk.ari_password())).send().await.expect("ARI answers");
    assert!(answer.status().is_success(), "{path}: {}", answer.status());
    serde_json::from_str(&answer.text().await.expect("a body")).unwrap_or_default()
}

/// T22: Asterisk passes on the agent's audio, and the caller's no more.
async fn audio_that_stops_while_the_caller_is_heard_by_asterisk_is_replaced_over_each_transport() {
    one_way_silence_is_repaired("out", "deaf").await;
}

/// Has Asterisk pass on one direction of the media channel no more, over each transport, and waits for the repair of this fault.
async fn one_way_silence_is_repaired(direction: &str, fault: &str) {
    each(TRANSPORTS, |(transport, leg)| async move {
        let (asterisk, offhook) = pbx(AGENT_FOR_A_MINUTE, &format!("    audio: {leg}\n")).await;
        let phone = dial(&asterisk).await;
        let began = Instant::now();
        mute(&asterisk, direction).await;
        offhook.wait_metric(REPAIRED, 1.0, SOON).await;
        let took = began.elapsed();
        assert!(took <= GAP_MAX, "{leg}: {fault} for {took:?}");
        let counted = format!("offhook_media_faults_total{{fault=\"{fault}\"}}");
        offhook.metric_is(&counted, 1.0).await;
        goes_on(&offhook, &phone, transport, 1.0).await;
        offhook.metric_is("offhook_media_faults_total", 1.0).await;
        hang_up(phone, &offhook, &asterisk).await;
    })
    .await;
}

/// One-way silence, towards the caller.
async fn an_agent_that_asterisk_passes_on_no_more_is_noticed_though_the_caller_is_heard_over_each_transport() {
    one_way_silence_is_repaired("in", "mute").await;
}

/// The leg stands, as the first frame tells whose it is, and nothing ever follows.
async fn a_connection_over_which_no_audio_ever_came_is_replaced_once() {
    let (relay, asterisk, offhook) = relayed(AGENT_FOR_A_MINUTE).await;
    relay.mutes_next();
    let phone = Phone::call(asterisk.sip_port(), "7000", silence(ms(60_000))).await;
    offhook.wait_metric(REPAIRED, 1.0, SOON).await;
    phone.wait_to_hear(AGENT_HZ, ms(500), SOON).await;
    goes_on(&offhook, &phone, "audiosocket", 1.0).await;
    hang_up(phone, &offhook, &asterisk).await;
}

/// T22: the telephone sends no RTP.
async fn a_caller_whose_phone_sends_nothing_is_no_fault() {
    let (asterisk, offhook) = pbx(AGENT_FOR_A_MINUTE, "").await;
    let mut phone = dial(&asterisk).await;
    // Nobody tells Asterisk, which goes on sending.
    phone.vanish().await;
    offhook.wait_metric("offhook_caller_gap_frames_total", 150.0, SOON).await;
    assert_eq!(offhook.metric("offhook_media_faults_total").await, 0.0);
    assert_eq!(offhook.metric("offhook_media_repairs_total").await, 0.0);
    offhook.wait_active(1, SOON).await;
}

async fn a_path_that_breaks_again_and_again_ends_the_call_at_a_human() {
    const RECEIVED: &str = "offhook_media_frames_received_total{transport=\"audiosocket\"}";
    let (relay, asterisk, offhook) = relayed(AGENT_FOR_A_MINUTE).await;
    let mut phone = dial(&asterisk).await;
    for repairs in 1..=5 {
        relay.order(Order::Close);
        offhook.wait_metric(REPAIRED, f64::from(repairs), SOON).await;
        // A new path stands before its first frame has come.
        let received = offhook.metric(RECEIVED).await;
        offhook.wait_metric(RECEIVED, received + 1.0, SOON).await;
    }
    relay.order(Order::Close);
    phone.wait_to_hear(DESK_HZ, ms(300), SOON).await;
    offhook.metric_is("offhook_media_repairs_total{outcome=\"exhausted\"}", 1.0).await;
    phone.hang_up().await;
    assert_eq!(offhook.wait_end_reason(SOON).await, "media_lost");
    asterisk.wait_empty(SOON).await;
}

async fn a_repair_that_is_refused_is_tried_again_while_the_caller_may_be_kept_waiting() {
    let (mut relay, asterisk, offhook) = relayed(AGENT_FOR_A_MINUTE).await;
    let phone = dial(&asterisk).await;
    relay.accepts_no_more().await;
    offhook.wait_metric(RETRIED, 2.0, SOON).await;
    relay.accepts_again().await;
    offhook.wait_metric(REPAIRED, 1.0, SOON).await;
    goes_on(&offhook, &phone, "audiosocket", 1.0).await;
    offhook.metric_is("offhook_media_faults_total", 1.0).await;
    hang_up(phone, &offhook, &asterisk).await;
}

async fn where_no_other_path_can_be_had_the_call_ends_at_a_human_as_well() {
    let (mut relay, asterisk, offhook) = relayed(AGENT_FOR_A_MINUTE).await;
    let mut phone = dial(&asterisk).await;
    // Nobody listens any more at the address that Asterisk is told, and what stood is closed.
    relay.accepts_no_more().await;
    phone.wait_to_hear(DESK_HZ, ms(300), SOON).await;
    offhook.metric_is("offhook_media_repairs_total{outcome=\"failed\"}", 1.0).await;
    offhook.wait_metric(RETRIED, 3.0, SOON).await;
    phone.hang_up().await;
    assert_eq!(offhook.wait_end_reason(SOON).await, "media_lost");
    asterisk.wait_empty(SOON).await;
}

crate::scenes! {
    real:
        a_call_on_hold_is_no_fault_over_each_transport,
        a_bridge_that_is_taken_from_a_call_is_made_again_over_each_transport;
    both:
        a_media_channel_that_ends_in_mid_call_is_replaced_over_each_transport,
        a_connection_that_is_closed_in_mid_call_is_replaced_and_the_agent_goes_on,
        a_connection_that_says_what_cannot_be_is_replaced_as_often_as_it_does,
        a_connection_that_is_cut_off_or_stalls_within_a_frame_is_replaced,
        a_connection_that_stalls_is_noticed_by_the_caller_s_packets_and_replaced,
        a_peer_that_reads_nothing_any_more_is_dead_though_the_caller_is_heard_and_is_replaced,
        a_media_websocket_that_closes_stalls_or_is_not_read_is_replaced,
        an_rtp_port_that_is_closed_in_mid_call_is_noticed_and_another_one_opened,
        the_caller_is_heard_again_as_soon_as_the_agent_over_each_transport,
        a_bridge_that_went_while_no_event_came_is_made_again_though_nobody_speaks,
        audio_that_stops_while_the_caller_is_heard_by_asterisk_is_replaced_over_each_transport,
        an_agent_that_asterisk_passes_on_no_more_is_noticed_though_the_caller_is_heard_over_each_transport,
        a_connection_over_which_no_audio_ever_came_is_replaced_once,
        a_caller_whose_phone_sends_nothing_is_no_fault,
        a_path_that_breaks_again_and_again_ends_the_call_at_a_human,
        a_repair_that_is_refused_is_tried_again_while_the_caller_may_be_kept_waiting,
        where_no_other_path_can_be_had_the_call_ends_at_a_human_as_well;
}
