//! What networks do to RTP, done to the packets of a real Asterisk on their way: each fault in a call that goes on, and heard.

use crate::calls::{
    CALLER_HZ, SOON, agent,
    doctor::ECHO,
    kit::{
        asterisk::{Asterisk, Options},
        audio::{longest_gap, tone},
        offhook::{Offhook, Place},
        tied::free_ports,
    },
    ms,
    repairs::{dial, hang_up, udp_socket},
};
use std::net::{Ipv4Addr, SocketAddr};
use tokio::{net::UdpSocket, sync::watch, task::JoinSet, time::interval};

/// Where Asterisk is told to send to; all of 127.0.0.0/8 is the loopback's.
const OUTER: Ipv4Addr = Ipv4Addr::new(127, 0, 0, 2);

/// What somebody else says.
const STRANGER_HZ: f64 = 1_000.0;

/// An agent by RTP, and the one port that a call can have; `addresses` are those of `media.rtp`.
async fn one_port(addresses: &str, script: &str) -> (Asterisk, Offhook, u16) {
    let asterisk = Asterisk::start(Options::default()).await;
    let (place, port) = (Place::free(), free_ports(2));
    let sections = place.yaml(Some(&asterisk));
    let (sections, _) = sections.split_once("media:").expect("a section");
    let yaml = format!(
        "{sections}turns: {{ owner: provider }}\nlimits: {{ calls: 1 }}\nmedia:\n  audiosocket: {{ bind: \"127.0.0.1:{}\" }}\n  \
         rtp: {{ {addresses}, ports: {port}-{} }}\n{}",
        place.audiosocket,
        port + 1,
        agent(script, "    audio: rtp/ulaw\n"),
    );
    let offhook = Offhook::start(place, &yaml).await;
    offhook.wait_ready(true).await;
    (asterisk, offhook, port)
}

const BUNCH: usize = 4;

#[derive(Debug, Clone, Copy, PartialEq)]
enum Fault {
    None,
    /// One in ten is lost.
    Lost,
    Doubled,
    /// Of two the second comes first.
    Swapped,
    /// One in ten comes 200 ms after its time.
    Late,
    /// Another stream of a payload type that was not agreed upon, louder than the caller, between the packets.
    WrongType,
    /// RFC 3389, in between.
    ComfortNoise,
    /// RFC 4733, in between.
    TelephoneEvents,
    /// Padding bytes (RFC 3550 §5.1).
    Padding,
    Contributors,
    Extension,
    /// As of a sender that has begun anew: from the first packet on, and again with each of these.
    OtherSource,
    NotRtp,
    /// They wait, and four come at a time.
    Bunch,
    /// As of a sender whose clock is 2 % fast: fifty-one in a second.
    Fast,
    /// Of 15 ms each.
    Recut,
}

/// Takes what Asterisk sends for a call, and passes it on from Asterisk's own address.
struct Wire {
    faults: watch::Sender<Fault>,
    _carrying: JoinSet<()>,
}

impl Wire {
    async fn between(asterisk: u32, port: u16) -> Self {
        let outer = UdpSocket::bind((OUTER, port)).await.expect("a free port");
        let (faults, fault) = watch::channel(Fault::None);
        let mut carrying = JoinSet::new();
        carrying.spawn(async move {
            let (mut buffer, mut ends) = (vec![0; 2_048], None);
            let mut way = Way::default();
            while let Ok((length, from)) = outer.recv_from(&mut buffer).await {
                let own = ends.get_or_insert_with(|| udp_socket(asterisk, from.port()));
                for packet in way.carry(&buffer[..length], *fault.borrow()) {
                    let to = SocketAddr::from((Ipv4Addr::LOCALHOST, port));
                    own.send_to(&packet, &to.into()).expect("Asterisk's own socket");
                }
            }
        });
        Self { faults, _carrying: carrying }
    }
}

/// What has passed, and what waits.
#[derive(Default)]
struct Way {
    passed: usize,
    waiting: Vec<(usize, Vec<u8>)>,
    sources: u32,
    /// Where what is sent has other packets than what came.
    anew: Anew,
}

/// A stream of its own, of what another one says.
#[derive(Default)]
struct Anew {
    number: u16,
    samples: u32,
    /// What is not a whole packet yet.
    rest: Vec<u8>,
}

impl Anew {
    /// Packets of so many bytes, which are samples of µ-law.
    fn packets(&mut self, payload: &[u8], length: usize) -> Vec<Vec<u8>> {
        self.rest.extend_from_slice(payload);
        let whole = self.rest.len() - self.rest.len() % length;
        let payloads: Vec<u8> = self.rest.drain(..whole).collect();
        payloads.chunks(length).map(|payload| self.packet(payload)).collect()
    }

    fn packet(&mut self, payload: &[u8]) -> Vec<u8> {
        let head = [&[0x80, 0][..], &self.number.to_be_bytes(), &self.samples.to_be_bytes(), b"anew"].concat();
        self.number = self.number.wrapping_add(1);
        self.samples = self.samples.wrapping_add(payload.len() as u32);
        [&head, payload].concat()
    }
}

impl Way {
    fn carry(&mut self, packet: &[u8], fault: Fault) -> Vec<Vec<u8>> {
        self.passed += 1;
        let passed = self.passed;
        let mut out: Vec<Vec<u8>> =
            self.waiting.extract_if(.., |(due, _)| *due <= passed).map(|(_, packet)| packet).collect();
        let (head, payload) = packet.split_at(12);
        let flagged = |flag: u8, more: &[u8], behind: &[u8]| {
            let mut head = head.to_vec();
            head[0] |= flag;
            [&head, more, payload, behind].concat()
        };
        let typed = |number: u8, payload: &[u8]| {
            let mut head = head.to_vec();
            head[1] = number;
            [&head, payload].concat()
        };
        let changed = match fault {
            Fault::Lost if passed.is_multiple_of(10) => vec![],
            Fault::Doubled => vec![packet.to_vec(), packet.to_vec()],
            Fault::Swapped if passed.is_multiple_of(2) => {
                self.waiting.push((passed + 1, packet.to_vec()));
                vec![]
            }
            Fault::Late if passed.is_multiple_of(10) => {
                self.waiting.push((passed + 10, packet.to_vec()));
                vec![]
            }
            Fault::WrongType => vec![typed(77, &stranger_s_packet(0)[12..]), packet.to_vec()],
            Fault::ComfortNoise => vec![typed(13, &[40]), packet.to_vec()],
            Fault::TelephoneEvents => vec![typed(101, &[5, 10, 0, 160]), packet.to_vec()],
            // The last byte says how many there are.
            Fault::Padding => vec![flagged(0x20, &[], &[0x90, 0x10, 0x90, 4])],
            Fault::Contributors => vec![flagged(2, &[1, 2, 3, 4, 5, 6, 7, 8], &[])],
            // One word of four bytes.
            Fault::Extension => vec![flagged(0x10, &[0xbe, 0xde, 0, 1, 0x10, 0xff, 0, 0], &[])],
            Fault::OtherSource => {
                self.sources += u32::from(passed.is_multiple_of(25));
                let mut packet = packet.to_vec();
                let number = u16::from_be_bytes([packet[2], packet[3]]).wrapping_add((self.sources * 7_777) as u16);
                packet[2..4].copy_from_slice(&number.to_be_bytes());
                packet[8..12].copy_from_slice(&(0x5eed + self.sources).to_be_bytes());
                vec![packet]
            }
            Fault::Bunch => {
                self.waiting.push((passed.next_multiple_of(BUNCH), packet.to_vec()));
                if passed.is_multiple_of(BUNCH) {
                    out.extend(self.waiting.drain(..).map(|(_, packet)| packet));
                }
                vec![]
            }
            Fault::Fast => {
                self.anew.packets(&payload.repeat(1 + usize::from(passed.is_multiple_of(50))), payload.len())
            }
            Fault::Recut => self.anew.packets(payload, 120),
            Fault::NotRtp => {
                vec![b"INVITE sip:7000@example.com SIP/2.0\r\n".to_vec(), packet[..7].to_vec(), packet.to_vec()]
            }
            _ => vec![packet.to_vec()],
        };
        // Whoever waited for this one comes behind it.
        out.splice(..0, changed);
        out
    }
}

/// T22: a caller's RTP, impaired by each kind of `Fault` but `Bunch`, `Fast` and `Recut`.
async fn whatever_a_network_does_to_rtp_the_caller_is_heard_and_nobody_else() {
    let (asterisk, offhook, port) = one_port(&format!("bind: 127.0.0.1, advertise: {OUTER}"), ECHO).await;
    let wire = Wire::between(asterisk.pid(), port).await;
    let mut phone = dial(&asterisk).await;
    phone.say(tone(CALLER_HZ, ms(60_000))).await;
    phone.wait_to_hear(CALLER_HZ, ms(500), SOON).await;
    for (fault, counter) in [
        (Fault::Lost, "offhook_media_rtp_packets_concealed_total"),
        (Fault::Doubled, "offhook_media_discarded_total{cause=\"duplicate\"}"),
        (Fault::Swapped, ""),
        (Fault::Late, "offhook_media_discarded_total{cause=\"late\"}"),
        (Fault::WrongType, "offhook_media_discarded_total{cause=\"payload_type\"}"),
        (Fault::ComfortNoise, "offhook_media_discarded_total{cause=\"payload_type\"}"),
        (Fault::TelephoneEvents, "offhook_media_discarded_total{cause=\"payload_type\"}"),
        (Fault::Padding, ""),
        (Fault::Contributors, ""),
        (Fault::Extension, ""),
        (Fault::OtherSource, ""),
        (Fault::NotRtp, "offhook_media_discarded_total{cause=\"malformed\"}"),
    ] {
        let count = async || if counter.is_empty() { 0.0 } else { offhook.metric(counter).await };
        let (before, so_far) = (count().await, phone.heard().length());
        wire.faults.send_replace(fault);
        let heard = phone.heard().time_of(CALLER_HZ);
        phone.wait_to_hear(CALLER_HZ, heard + ms(1_500), SOON).await;
        wire.faults.send_replace(Fault::None);
        let counted = count().await - before;
        assert!(counter.is_empty() || counted >= 5.0, "{fault:?}: {counted} of {counter}");
        let all = phone.heard();
        let heard = all.part(so_far..all.length());
        assert!(longest_gap(&heard, CALLER_HZ) <= ms(100), "{fault:?}: {:?}", heard.spans_of(CALLER_HZ));
        assert!(!heard.has(STRANGER_HZ), "{fault:?}: {:?}", heard.spans_of(STRANGER_HZ));
    }
    assert_eq!(
        offhook.metric("offhook_media_discarded_total{cause=\"stranger\"}").await,
        0.0,
        "from Asterisk's own address"
    );
    assert_eq!(offhook.metric("offhook_media_faults_total").await, 0.0, "{}", offhook.log());
    hang_up(phone, &offhook, &asterisk).await;
}

/// T22: packets of an odd length, and then an uneven cadence.
async fn packets_of_an_odd_length_or_that_come_four_at_a_time_are_told_and_the_caller_is_heard() {
    const JITTER: &str = "offhook_media_jitter_seconds_sum";
    let (asterisk, offhook, port) = one_port(&format!("bind: 127.0.0.1, advertise: {OUTER}"), ECHO).await;
    let wire = Wire::between(asterisk.pid(), port).await;
    let mut phone = dial(&asterisk).await;
    wire.faults.send_replace(Fault::Recut);
    phone.say(tone(CALLER_HZ, ms(60_000))).await;
    phone.wait_to_hear(CALLER_HZ, ms(3_000), SOON).await;
    offhook.metric_is("offhook_media_suspect_total{what=\"frame_size\"}", 1.0).await;
    let gap = longest_gap(&phone.heard(), CALLER_HZ);
    assert!(gap <= ms(200), "{gap:?}");
    let even = offhook.metric(JITTER).await;
    wire.faults.send_replace(Fault::Bunch);
    phone.wait_to_hear(CALLER_HZ, ms(8_000), SOON).await;
    let uneven = offhook.metric(JITTER).await - even;
    assert!(uneven >= 0.060, "{uneven} s in some five seconds: three in four come at once, one 60 ms late");
    let gap = longest_gap(&phone.heard(), CALLER_HZ);
    assert!(gap <= ms(200), "{gap:?}: the first of a bunch waits for three others, and nothing more is lost");
    assert_eq!(offhook.metric("offhook_media_faults_total").await, 0.0, "{}", offhook.log());
    hang_up(phone, &offhook, &asterisk).await;
}

/// T22: a clock that is off, which takes a minute of sound to tell.
async fn a_sender_of_rtp_whose_clock_is_fast_is_told_at_the_end_of_a_call_in_which_nothing_was_lost() {
    const DRIFT: [&str; 2] = ["offhook_media_drift_ppm_sum", "offhook_media_drift_ppm_count"];
    let script = "- tone: { hertz: 440, for: 1s }\n- echo: 90s";
    let (asterisk, offhook, port) = one_port(&format!("bind: 127.0.0.1, advertise: {OUTER}"), script).await;
    let wire = Wire::between(asterisk.pid(), port).await;
    wire.faults.send_replace(Fault::Fast);
    let mut phone = dial(&asterisk).await;
    phone.say(tone(CALLER_HZ, ms(90_000))).await;
    phone.wait_to_hear(CALLER_HZ, ms(65_000), ms(85_000)).await;
    let gap = longest_gap(&phone.heard(), CALLER_HZ);
    assert!(gap <= ms(200), "{gap:?}");
    hang_up(phone, &offhook, &asterisk).await;
    let [ppm, count] = [offhook.metric(DRIFT[0]).await, offhook.metric(DRIFT[1]).await];
    assert_eq!(count, 1.0, "told once");
    assert!((18_000.0..22_000.0).contains(&ppm), "{ppm} ppm; it was 20,000 fast");
    assert_eq!(offhook.metric("offhook_media_faults_total").await, 0.0, "{}", offhook.log());
}

/// Loud µ-law of 20 ms.
fn stranger_s_packet(number: u16) -> Vec<u8> {
    let mut packet = vec![0x80, 0];
    packet.extend(number.to_be_bytes());
    packet.extend((u32::from(number) * 160).to_be_bytes());
    packet.extend(0x5eed_u32.to_be_bytes());
    // Four samples up and four down: a thousand times a second.
    packet.extend([0x90, 0x90, 0x90, 0x90, 0x10, 0x10, 0x10, 0x10].repeat(20));
    packet
}

/// Sends loud µ-law to this port for as long as it is not dropped, as an endpoint of RTP that has the wrong address.
fn stranger(to: SocketAddr) -> JoinSet<()> {
    let socket = std::net::UdpSocket::bind("127.0.0.1:0").expect("a free port");
    let mut sending = JoinSet::new();
    sending.spawn(async move {
        let mut ticks = interval(ms(20));
        for number in 0_u16.. {
            ticks.tick().await;
            // Between two calls nobody has the port.
            let _ = socket.send_to(&stranger_s_packet(number), to);
        }
    });
    sending
}

/// T22: a stranger sends to the port in two calls, of which the second takes it over at once.
async fn rtp_from_elsewhere_is_heard_in_no_call_on_the_port_that_it_goes_to() {
    const STRANGERS: &str = "offhook_media_discarded_total{cause=\"stranger\"}";
    let (asterisk, offhook, port) = one_port("bind: 127.0.0.1", ECHO).await;
    let _stranger = stranger(([127, 0, 0, 1], port).into());
    for call in 1..=2 {
        let mut phone = dial(&asterisk).await;
        let strangers = offhook.metric(STRANGERS).await;
        phone.say(tone(CALLER_HZ, ms(60_000))).await;
        phone.wait_to_hear(CALLER_HZ, ms(2_000), SOON).await;
        offhook.wait_metric(STRANGERS, strangers + 50.0, SOON).await;
        let heard = phone.heard();
        assert!(!heard.has(STRANGER_HZ), "call {call}: {:?}", heard.spans_of(STRANGER_HZ));
        assert!(longest_gap(&heard, CALLER_HZ) <= ms(100), "call {call}: {:?}", heard.spans_of(CALLER_HZ));
        hang_up(phone, &offhook, &asterisk).await;
    }
    assert_eq!(offhook.metric("offhook_media_faults_total").await, 0.0, "{}", offhook.log());
}

crate::scenes! {
    both:
        whatever_a_network_does_to_rtp_the_caller_is_heard_and_nobody_else,
        packets_of_an_odd_length_or_that_come_four_at_a_time_are_told_and_the_caller_is_heard,
        a_sender_of_rtp_whose_clock_is_fast_is_told_at_the_end_of_a_call_in_which_nothing_was_lost,
        rtp_from_elsewhere_is_heard_in_no_call_on_the_port_that_it_goes_to;
}
