//! Where the phones and exchanges of a test are, by made-up port numbers. A test runs in one thread, so that is where they are
//! known.

use super::{phone::Handset, state::Switch};
use std::{cell::RefCell, collections::HashMap};

/// Accounts of `pjsip.conf` that nobody has registered at.
pub const ACCOUNTS: [&str; 2] = ["softphone", "anonymous"];

/// Four digits or five, so that an extension of the lab's can name one.
const FIRST: u16 = 20_000;

#[derive(Clone)]
enum Known {
    Exchange(Switch),
    Phone(Handset),
}

thread_local! {
    static KNOWN: RefCell<HashMap<u16, Known>> = RefCell::default();
    static NEXT: RefCell<u16> = const { RefCell::new(FIRST) };
}

fn add(known: Known) -> u16 {
    let port = NEXT.with_borrow_mut(|next| {
        *next = if *next == u16::MAX { FIRST } else { *next + 1 };
        *next
    });
    KNOWN.with_borrow_mut(|all| all.insert(port, known));
    port
}

pub fn add_exchange(switch: &Switch) -> u16 {
    add(Known::Exchange(switch.clone()))
}

pub fn add_phone(handset: &Handset) -> u16 {
    add(Known::Phone(handset.clone()))
}

pub fn remove(port: u16) {
    // At the end of a thread there is nothing left to be removed from.
    let _ = KNOWN.try_with(|all| all.borrow_mut().remove(&port));
}

pub fn exchange(port: u16) -> Switch {
    match KNOWN.with_borrow(|all| all.get(&port).cloned()) {
        Some(Known::Exchange(switch)) => switch,
        _ => panic!("no exchange of this test is at port {port}"),
    }
}

/// The phone of `anonymous/sip:phone@127.0.0.1:PORT`; one that is not there never answers.
pub fn phone_of(resource: &str) -> Option<Handset> {
    let port = resource.strip_prefix("anonymous/sip:")?.rsplit_once(':')?.1.parse().ok()?;
    match KNOWN.with_borrow(|all| all.get(&port).cloned()) {
        Some(Known::Phone(handset)) => Some(handset),
        _ => Some(Handset::absent()),
    }
}
