//! `api_call`: the request as templates make it, and what becomes of its answer.

use super::{
    address::{header_value, shown_headers},
    definition::{ApiCall, VOICE_TIMEOUT_CAP},
    fault::Fault,
    run::{Effect, Note, Runner},
    scene::Reading,
    template::ValueTemplate,
};
use crate::tool::{
    FetchRequest, FetchResponse, ToolError,
    memory::{NESTING_MAX, nesting, weight},
};
use serde_json::{Map, Value, json};
use std::time::Duration;

/// A request ends this much before the tool call does, so that `on_failure` still runs.
const SLACK: Duration = Duration::from_millis(250);
/// Of a request's body as JSON, and of an answer as the working copy holds it.
const BODY_BYTES_MAX: usize = 256 * 1024;

impl Runner<'_> {
    pub(super) async fn api_call(&mut self, call: &ApiCall) -> Result<Effect, Fault> {
        match self.exchange(call).await {
            Err(fault) if call.goes_on => Ok(Effect { error: Some(fault), ..Effect::default() }),
            other => other,
        }
    }

    async fn exchange(&mut self, call: &ApiCall) -> Result<Effect, Fault> {
        let (time_left, cap) = self.time_for_requests();
        let request = self.request(call, &self.scene.revealing(), time_left)?;
        let Some(fetch) = self.services.fetch else {
            let shown = self.request(call, &self.scene.reading(), time_left)?;
            let result = json!({ "status": 200, "body": null, "headers": {} });
            let shown = self.scene.secrets.mask(show(&shown));
            return Ok(Effect { result: Some(result), shown: Some(shown), ..Effect::default() });
        };
        if time_left.is_zero() {
            return Err(Fault::new(ToolError::Timeout, "no_time_left", "There is no time left for another request."));
        }
        let answer = fetch.fetch(request).await;
        match answer {
            Ok(answer) => {
                self.wrote_outside |= !call.method.only_reads();
                self.take_answer(call, answer)
            }
            Err(error) => {
                // A 4xx says that nothing was done; no answer, or a broken server, says nothing.
                let refused = error.status.is_some_and(|status| (400..500).contains(&status) && status != 408);
                self.wrote_outside |= !call.method.only_reads() && error.attempts > 0 && !refused;
                if let Some(cap) = cap
                    && matches!(error.kind, ToolError::Timeout | ToolError::Transient)
                    && self.time_for_requests().0.is_zero()
                {
                    self.notes.push(Note::Capped { cap });
                }
                Err(error.into())
            }
        }
    }

    /// What is left for requests of this run, and the bound for live calls where that is the nearer
    /// one.
    fn time_for_requests(&self) -> (Duration, Option<Duration>) {
        let cap = self.definition.surroundings.voice_timeout_cap.unwrap_or(VOICE_TIMEOUT_CAP);
        let whole = self.time_left.saturating_sub(SLACK);
        let spent = (self.services.now)().duration_since(self.started);
        let spent = Duration::try_from(spent).unwrap_or_default();
        (whole.min(cap).saturating_sub(spent), (cap <= whole).then_some(cap))
    }

    fn request(&self, call: &ApiCall, reading: &Reading<'_>, time_left: Duration) -> Result<FetchRequest, Fault> {
        let surroundings = &self.definition.surroundings;
        let url = call.address.fill(reading, &surroundings.allowed_hosts)?;
        let header = |(name, value): &(String, _)| Ok((name.clone(), header_value(name, value, reading)?));
        let headers = call.headers.iter().map(header).collect::<Result<_, Fault>>()?;
        let body = if call.method.only_reads() { None } else { Some(body(&call.body, reading)?) };
        let key = format!("{}:{}", self.idempotency_key, call.ordinal);
        Ok(FetchRequest {
            method: call.method.label().to_owned(),
            url,
            headers,
            body,
            timeout: call.timeout.min(time_left),
            time_left,
            retries: call.retry_count,
            retry_delay: call.retry_delay,
            idempotency_key: (!call.method.only_reads()).then_some(key),
            allowed_hosts: surroundings.allowed_hosts.clone(),
            tool: self.definition.name.clone(),
            call: self.call_id.clone(),
        })
    }

    fn take_answer(&mut self, call: &ApiCall, answer: FetchResponse) -> Result<Effect, Fault> {
        if weight(&answer.body) > BODY_BYTES_MAX * 2 || nesting(&answer.body) >= NESTING_MAX {
            return Err(Fault::permanent("answer_too_large", "The answer of the service is too large."));
        }
        // Some services answer with what they were sent.
        let body = self.scene.secrets.mask(answer.body);
        let headers = answer.headers.into_iter().map(|(name, value)| (name, value.into())).collect::<Map<_, Value>>();
        let headers = self.scene.secrets.mask(headers.into());
        if let Some(target) = &call.response_path {
            self.scene.set(target, body.clone())?;
        }
        let result = json!({ "status": answer.status, "body": body, "headers": headers });
        Ok(Effect { data: body, result: Some(result), ..Effect::default() })
    }
}

fn body(template: &ValueTemplate, reading: &Reading<'_>) -> Result<Value, Fault> {
    let body = template.fill(reading)?;
    if weight(&body) > BODY_BYTES_MAX {
        return Err(Fault::permanent("too_large", "The request is too large."));
    }
    Ok(body)
}

/// A request as a dry run shows it.
fn show(request: &FetchRequest) -> Value {
    json!({
        "method": request.method,
        "url": request.url,
        "headers": shown_headers(&request.headers),
        "body": request.body,
        "timeout": request.timeout.as_secs_f64(),
        "retry_count": request.retries,
        "retry_delay": request.retry_delay.as_secs_f64(),
    })
}
