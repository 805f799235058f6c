//! HTTP as services are asked over it: no redirect, no proxy, no retry behind one's back, a limit on every answer.

use super::{Fault, tls};
use bytes::Bytes;
use futures_util::{Stream, TryStreamExt as _, stream};
use reqwest::{
    Client, ClientBuilder, Response,
    header::{CONTENT_TYPE, RETRY_AFTER},
    redirect, retry,
};
use serde_json::Value;
use std::{error::Error, time::Duration};
use tokio::time::timeout;

/// A machine that is there takes a connection within this.
const CONNECT_MAX: Duration = Duration::from_secs(5);
/// For what a service says of its fault: its name is looked for, no more.
const FAULT_BYTES_MAX: usize = 16 << 10;
/// Nobody waits for longer, and a clock that is asked for the end of time panics.
pub(super) const RETRY_AFTER_MAX: Duration = Duration::from_secs(24 * 60 * 60);
/// The status is known by then, and somebody waits to ask another service.
const FAULT_MAX: Duration = Duration::from_secs(1);

/// How every client of HTTP begins.
pub fn builder() -> ClientBuilder {
    Client::builder().tls_backend_preconfigured(tls::of_http())
}

/// A client whose connections are kept for the next request.
pub fn client() -> reqwest::Result<Client> {
    builder()
        // A key goes to whom it was given for.
        .redirect(redirect::Policy::none())
        .no_proxy()
        .retry(retry::never())
        .user_agent(concat!("offhook/", env!("CARGO_PKG_VERSION")))
        .connect_timeout(CONNECT_MAX)
        .tcp_nodelay(true)
        .build()
}

/// The body as it arrives. More than `max` bytes are a fault, and so is an end before the body's own.
pub fn pieces(answer: Response, max: usize) -> impl Stream<Item = Result<Bytes, Fault>> + Send + 'static {
    stream::try_unfold((answer, 0), move |(mut answer, read)| async move {
        let Some(piece) = answer.chunk().await.map_err(|_| Fault::Closed(None))? else { return Ok(None) };
        let read = read + piece.len();
        if read > max { Err(Fault::TooLarge(max)) } else { Ok(Some((piece, (answer, read)))) }
    })
}

/// The body, if it has no more than `max` bytes.
pub async fn read(answer: Response, max: usize) -> Result<Vec<u8>, Fault> {
    let join = async |mut body: Vec<u8>, piece: Bytes| {
        body.extend_from_slice(&piece);
        Ok(body)
    };
    pieces(answer, max).try_fold(Vec::new(), join).await
}

/// What the body is said to be, in lower case and without parameters; empty if nothing is said.
pub fn content_type(answer: &Response) -> String {
    let written = answer.headers().get(CONTENT_TYPE).and_then(|value| value.to_str().ok()).unwrap_or_default();
    written.split(';').next().unwrap_or_default().trim().to_ascii_lowercase()
}

/// Of what the service says only its name of the fault is kept: its sentences may repeat the key or the text.
pub async fn refused(answer: Response) -> Fault {
    let status = answer.status().as_u16();
    let retry_after = answer.headers().get(RETRY_AFTER).and_then(|value| seconds(value.to_str().ok()?));
    let body = timeout(FAULT_MAX, read(answer, FAULT_BYTES_MAX)).await;
    let code = body.ok().and_then(Result::ok).and_then(|body| told(&body));
    Fault::Refused { status, code, retry_after }
}

/// The service's own word for a fault, out of the body of a refusal.
pub(super) fn told(body: &[u8]) -> Option<String> {
    let body: Value = serde_json::from_slice(body).ok()?;
    // OpenAI and its like, ElevenLabs, Deepgram.
    fault_name(body.get("error").or_else(|| body.get("detail")).unwrap_or(&body))
}

/// The service's own word for a fault, out of the object that tells it: the one that says more. A `code` has changed
/// before while the `type` stayed.
pub fn fault_name(told: &Value) -> Option<String> {
    let named = |key: &str| super::code(&told.get(key)?.as_str()?.to_ascii_lowercase());
    let mut names: Vec<String> = ["code", "type", "status", "err_code"].into_iter().filter_map(named).collect();
    let lasting = names.iter().position(|name| super::lasting(name).is_some()).unwrap_or_default();
    (!names.is_empty()).then(|| names.swap_remove(lasting))
}

/// The innermost words, which say what was not there; the outer ones repeat the address.
pub fn fault(error: reqwest::Error) -> Fault {
    let mut cause: &dyn Error = &error;
    while let Some(deeper) = cause.source() {
        cause = deeper;
    }
    Fault::Unreachable(cause.to_string())
}

/// `Retry-After` in seconds. The other form, a date, is as good as its clock; vendors of this kind do not write it.
pub(super) fn seconds(written: &str) -> Option<Duration> {
    written.trim().parse().ok().map(|seconds| Duration::from_secs(seconds).min(RETRY_AFTER_MAX))
}

/// Any body as the one of a refusal; its first line stands for `Retry-After`.
#[cfg(any(test, fuzzing))]
pub fn fuzz(data: &[u8]) {
    let mut parts = data.splitn(2, |byte| *byte == b'\n');
    let (header, body) = (parts.next().unwrap_or_default(), parts.next().unwrap_or_default());
    let retry_after = seconds(&String::from_utf8_lossy(header));
    assert!(retry_after.is_none_or(|pause| pause <= RETRY_AFTER_MAX), "{retry_after:?}");
    let code = told(body);
    let fault = Fault::Refused { status: 429, code: code.clone(), retry_after };
    assert!(fault.to_string().len() <= 200, "a fault repeats what was said: {fault}");
    let _ = (fault.pause(), fault.loss(), code.as_deref().and_then(super::lasting));
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::call::AgentLoss;
    use serde_json::json;

    /// A deadline is made of it: the clock must be able to reach there.
    #[test]
    fn who_asks_for_the_end_of_time_is_waited_for_no_longer_than_a_day() {
        assert_eq!(seconds(" 3 "), Some(Duration::from_secs(3)));
        assert_eq!(seconds(&u64::MAX.to_string()), Some(RETRY_AFTER_MAX));
        for nonsense in ["", "-1", "1.5", "soon", "18446744073709551616"] {
            assert_eq!(seconds(nonsense), None, "{nonsense}");
        }
    }

    #[test]
    fn a_fault_that_lasts_is_known_by_its_code_or_by_its_type() {
        let fault = |told: Value| Fault::Refused { status: 429, code: fault_name(&told), retry_after: None };
        for told in [
            json!({ "code": "credit_balance_exhausted", "type": "requests" }),
            json!({ "code": "a_new_name", "type": "billing_hard_limit_reached" }),
            json!({ "code": null, "type": "insufficient_quota" }),
        ] {
            let fault = fault(told);
            assert!(fault.loss() == AgentLoss::Quota && !fault.is_passing(), "{fault}");
        }
        let fault = fault(json!({ "code": "rate_limit_exceeded", "type": "tokens" }));
        assert!(fault.is_passing() && fault.loss() == AgentLoss::Throttled, "{fault}");
        assert_eq!(fault.to_string(), "the service answered 429 (rate_limit_exceeded)");
    }
}
