//! A short run of `offhook-bench soak`: a thousand calls and an hour are `make soak`.

use crate::kit::built;
use std::{process::Stdio, time::Duration};
use tokio::{process::Command, time::timeout};

/// Beside other tests.
const WITHIN: Duration = Duration::from_secs(300);

async fn soak(arguments: &[&str]) -> String {
    let mut bench = Command::new(built("offhook-bench"));
    bench.arg("soak").args(arguments).stdin(Stdio::null()).kill_on_drop(true);
    let output = timeout(WITHIN, bench.output()).await.expect("it ends in time").expect("it starts");
    let said = String::from_utf8_lossy(&output.stdout).into_owned();
    assert!(output.status.success(), "{}\n{said}\n{}", output.status, String::from_utf8_lossy(&output.stderr));
    said
}

/// T1, T8, T19: a channel that nobody sends to goes deaf in 6 to 50 of 1,000 calls, and then nothing that the caller says comes back.
async fn no_channel_goes_deaf_and_every_call_leaves_asterisk_and_the_engine_as_they_were() {
    let said = soak(&["--only", "echo,silent,abandons,walk_agent,declined", "--calls", "30", "--at-once", "6"]).await;
    assert!(said.contains("callers who heard nothing of what they should: 0"), "{said}");
    assert!(said.contains("audio paths that broke or were deaf: 0"), "nor was one mended in time: {said}");
    assert!(said.contains("channels in Asterisk after the calls: 0"), "{said}");
}

crate::scenes! {
    // The bench is a program with an Asterisk of its own.
    only_real:
        no_channel_goes_deaf_and_every_call_leaves_asterisk_and_the_engine_as_they_were;
}
