//! What comes into a call from outside: what operators want of it, and what its tools want said while they run.

use super::live::Order;
use crate::{call::Input, woken::Woken};
use std::{
    future::poll_fn,
    task::{Context, Poll},
};
use tokio::sync::mpsc;

pub(super) struct Outside {
    orders: mpsc::Receiver<Order>,
    asides: mpsc::Receiver<String>,
    /// Most calls hear nothing from outside.
    woken: Woken,
}

impl Outside {
    pub fn new(orders: mpsc::Receiver<Order>, asides: mpsc::Receiver<String>) -> Self {
        Self { orders, asides, woken: Woken::default() }
    }

    /// The next thing; orders first. May be dropped at any time without losing one.
    pub async fn next(&mut self) -> Input {
        let Self { orders, asides, woken } = self;
        poll_fn(|cx| woken.poll(cx, |cx| look(orders, asides, cx))).await
    }
}

/// A side that nobody holds any more has nothing to say.
fn look(orders: &mut mpsc::Receiver<Order>, asides: &mut mpsc::Receiver<String>, cx: &mut Context<'_>) -> Poll<Input> {
    if let Poll::Ready(Some(order)) = orders.poll_recv(cx) {
        return Poll::Ready(match order {
            Order::End { reason, account } => Input::EndNow { reason, account },
            Order::Transfer { destination, account } => Input::Transfer { destination, account },
            Order::Written(text) => Input::Written(text),
        });
    }
    match asides.poll_recv(cx) {
        Poll::Ready(Some(words)) => Poll::Ready(Input::Say(words)),
        _ => Poll::Pending,
    }
}
