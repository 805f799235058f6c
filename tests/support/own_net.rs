//! A network of a test's own, on which a peer can vanish: nothing that is sent to it arrives, nothing comes back, and
//! nobody says so, as with a machine that lost its power. Such a test runs itself once more, in a network namespace.

use std::{
    env,
    io::ErrorKind,
    net::{Ipv4Addr, TcpStream},
    process::Command,
    time::Duration,
};

/// Set in the process that has the network.
const INSIDE: &str = "OFFHOOK_TEST_OWN_NET";
/// Who is there can vanish.
const FAR: Ipv4Addr = Ipv4Addr::new(10, 9, 9, 9);
/// Whoever is refused, is so at once.
const SWALLOWED: Duration = Duration::from_millis(200);
/// A pair of interfaces, of which the far one takes nothing that is sent to it.
const SET_UP: &str = "ip link set lo up && ip address add 10.9.9.9/32 dev lo && ip link add hole type veth peer name \
    depth && ip link set hole arp off up && ip link set depth up && exec \"$@\"";
const VANISH: &str = "ip address delete 10.9.9.9/32 dev lo && ip route add 10.9.9.9/32 dev hole";

/// Where somebody is to be who may have to vanish.
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
    inside.args(["--map-root-user", "--net", "sh", "-c", SET_UP, "sh"]).arg(program).args([test, "--exact"]);
    let output = inside.env(INSIDE, "1").output().expect("unshare, of util-linux");
    let said = [output.stdout, output.stderr].map(|said| String::from_utf8_lossy(&said).into_owned()).concat();
    let remedy = "a network of its own needs root, or a kernel that gives user namespaces to everybody";
    assert!(output.status.success() && said.contains("1 passed"), "{said}\n({remedy})");
}

/// From now on nobody reaches [`FAR`], and whoever is there reaches nobody.
pub fn swallows() {
    assert!(is_inside(), "only a network of one's own");
    let done = Command::new("sh").args(["-c", VANISH]).status().expect("a shell");
    assert!(done.success(), "{VANISH}");
    let refused = TcpStream::connect_timeout(&(FAR, 9).into(), SWALLOWED).expect_err("nobody is there");
    assert_eq!(refused.kind(), ErrorKind::TimedOut, "nobody says so: {refused}");
}
