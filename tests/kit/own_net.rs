//! A network of a test's own, on which a peer can vanish: nothing that is sent to it arrives, nothing comes back, and
//! nobody says so, as with a machine that lost its power. Such a test runs itself once more, in a network namespace.

use super::{processes::words_of, virtual_time::output_of};
use std::{
    env, fs,
    io::ErrorKind,
    net::{Ipv4Addr, TcpStream, UdpSocket},
    path::Path,
    process::Command,
    sync::{
        Arc, Mutex,
        atomic::{AtomicUsize, Ordering},
    },
    thread,
    time::Duration,
};

/// Set in the process that has the network.
const INSIDE: &str = "OFFHOOK_TEST_OWN_NET";
/// Address of the peer that a test makes unreachable.
const FAR: Ipv4Addr = Ipv4Addr::new(10, 9, 9, 9);
/// Connect timeout that tells a black hole from a refusal.
const CONNECT_TIMEOUT: Duration = Duration::from_millis(200);
/// A public address (RFC 5737) for peers outside any local network.
pub const OUTSIDE: Ipv4Addr = Ipv4Addr::new(203, 0, 113, 9);
/// A pair of interfaces, of which the far one takes nothing that is sent to it.
const SET_UP: &str = "ip link set lo up && ip address add 10.9.9.9/32 dev lo && ip address add 203.0.113.9/32 dev lo && \
    ip link add hole type veth peer name depth && ip link set hole arp off up && ip link set depth up && exec \"$@\"";
const VANISH: &str = "ip address delete 10.9.9.9/32 dev lo && ip route add 10.9.9.9/32 dev hole";

/// Address for a peer that may have to vanish.
pub fn far() -> Ipv4Addr {
    if is_inside() { FAR } else { Ipv4Addr::LOCALHOST }
}

pub fn is_inside() -> bool {
    env::var_os(INSIDE).is_some()
}

/// Runs this test, by its whole name, in a network of its own.
pub fn runs(test: &str) {
    let program = env::current_exe().expect("a test is a program");
    let mut inside = Command::new("unshare");
    inside.args(["--map-root-user", "--net", "--mount", "sh", "-c", SET_UP, "sh"]).arg(program).args([test, "--exact"]);
    let output = output_of(inside.env(INSIDE, "1")).expect("unshare, of util-linux");
    let said = words_of(&output);
    let remedy = "a network of its own needs root, or a kernel that gives user namespaces to everybody";
    assert!(output.status.success() && said.contains("1 passed"), "{said}\n({remedy})");
}

/// A name server that knows every name, and where all of them are, which can change with each question. In its network nobody
/// else is asked.
pub struct Names {
    left: Arc<Mutex<Vec<Ipv4Addr>>>,
    asked: Arc<AtomicUsize>,
}

impl Names {
    /// `folder`: for a resolver's configuration.
    pub fn serve(folder: &Path) -> Self {
        assert!(is_inside(), "only a network of one's own");
        let written = folder.join("resolv.conf");
        fs::write(&written, "nameserver 127.0.0.1\n").expect("a folder to write in");
        let bound =
            output_of(Command::new("mount").arg("--bind").arg(&written).arg("/etc/resolv.conf")).expect("mount");
        assert!(bound.status.success(), "its own /etc/resolv.conf: {bound:?}");
        let socket = UdpSocket::bind((Ipv4Addr::LOCALHOST, 53)).expect("port 53 of a network of one's own");
        let (left, asked) = (Arc::default(), Arc::default());
        let names = Self { left: Arc::clone(&left), asked: Arc::clone(&asked) };
        #[expect(clippy::disallowed_methods, reason = "such a test is in real time")]
        thread::spawn(move || {
            let mut question = [0; 512];
            while let Ok((length, from)) = socket.recv_from(&mut question) {
                if let Some(answer) = answer(&question[..length], &left, &asked) {
                    let _ = socket.send_to(&answer, from);
                }
            }
        });
        names
    }

    /// The addresses that the next questions are answered with, one each; the last one from then on.
    pub fn are_at(&self, addresses: &[Ipv4Addr]) {
        *self.left.lock().expect("nobody panics with it") = addresses.to_vec();
        self.asked.store(0, Ordering::SeqCst);
    }

    /// Questions since.
    pub fn asked(&self) -> usize {
        self.asked.load(Ordering::SeqCst)
    }
}

/// An `A` is answered with an address, anything else with nothing (RFC 1035).
fn answer(question: &[u8], left: &Mutex<Vec<Ipv4Addr>>, asked: &AtomicUsize) -> Option<Vec<u8>> {
    const A: [u8; 4] = [0, 1, 0, 1];
    let name = question.get(12..)?.iter().position(|byte| *byte == 0)? + 13;
    let kind = question.get(name..name + 4)?;
    let mut answer = question[..2].to_vec();
    answer.extend([0x81, 0x80, 0, 1, 0, u8::from(kind == A), 0, 0, 0, 0]);
    answer.extend(&question[12..name + 4]);
    if kind == A {
        asked.fetch_add(1, Ordering::SeqCst);
        let mut left = left.lock().ok()?;
        let address = if left.len() > 1 { left.remove(0) } else { *left.first()? };
        answer.extend([0xc0, 12, 0, 1, 0, 1, 0, 0, 0, 0, 0, 4]);
        answer.extend(address.octets());
    }
    Some(answer)
}

/// Makes `FAR` unreachable, in both directions.
pub fn swallows() {
    assert!(is_inside(), "only a network of one's own");
    let done = output_of(Command::new("sh").args(["-c", VANISH])).expect("a shell");
    assert!(done.status.success(), "{VANISH}: {done:?}");
    let refused = TcpStream::connect_timeout(&(FAR, 9).into(), CONNECT_TIMEOUT).expect_err("nobody is there");
    assert_eq!(refused.kind(), ErrorKind::TimedOut, "nobody says so: {refused}");
}
