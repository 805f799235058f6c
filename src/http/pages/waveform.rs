//! How loud both sides of a recorded call were over the time of its axis: a picture of its own, so that the page of the call
//! waits for nobody who reads through an hour of sound.

use super::axis::{self, SOUND_HEIGHT, SOUNDS};
use crate::{
    http::{
        api::{Id, undrawn, unread},
        login::{Door, Role},
        routes::Routes,
        site::App,
    },
    records::{NoWaveform, Record, Recorded, Waveform},
};
use axum::{
    extract::State,
    http::{HeaderMap, HeaderValue, Method, StatusCode, header},
    response::{IntoResponse as _, Response},
};
use std::{fmt::Write as _, fs::Metadata, time::UNIX_EPOCH};

/// Seen well on light and on dark paper. The colours stand in the picture: no style sheet reaches into it.
const COLOURS: [&str; SOUNDS] = ["#3f7fd0", "#20948b"];
/// Units of the picture across; down, one is a pixel.
const WIDE: f64 = 4_000.0;
/// What is silent and recorded is a line.
const LEAST: f64 = 0.5;
/// A browser may keep it, and asks each time whether it still may be seen.
const CACHE: HeaderValue = HeaderValue::from_static("private, no-cache");

pub fn add(routes: &mut Routes) {
    // As who may hear the recording.
    routes.page(Method::GET, "/history/{id}/waveform.svg", Door::Page(Role::Operator), picture);
}

/// Where the picture of a call is.
pub fn address(record: &Record) -> String {
    format!("/history/{}/waveform.svg", record.id)
}

async fn picture(State(app): State<App>, Id(id): Id, headers: HeaderMap) -> Result<Response, Response> {
    let missing = || undrawn(&NoWaveform::Missing);
    let reader = app.history.as_ref().ok_or_else(missing)?;
    let record = reader.get(id).await.map_err(|error| unread(&error))?.ok_or_else(missing)?;
    let recorded = record.recording.as_ref().ok_or_else(missing)?;
    let file = tokio::fs::metadata(reader.recording(id)).await.map_err(|_| missing())?;
    let length = axis::length(&record);
    let tag = tag(&file, length);
    let known = headers.get_all(header::IF_NONE_MATCH).iter().filter_map(|tags| tags.to_str().ok());
    let known = known.flat_map(|tags| tags.split(',')).any(|known| known.trim().trim_start_matches("W/") == tag);
    let kept = [(header::CACHE_CONTROL, CACHE), (header::ETAG, HeaderValue::from_str(&tag).map_err(|_| missing())?)];
    if known {
        return Ok((StatusCode::NOT_MODIFIED, kept).into_response());
    }
    let sound = reader.waveform(id).await.map_err(|why| undrawn(&why))?;
    let kind = [(header::CONTENT_TYPE, HeaderValue::from_static("image/svg+xml"))];
    Ok((kept, kind, draw(&sound, recorded, length)).into_response())
}

/// Another one for each file, each axis and each version of this program.
fn tag(file: &Metadata, length: u64) -> String {
    let changed = file.modified().ok().and_then(|at| at.duration_since(UNIX_EPOCH).ok()).unwrap_or_default();
    format!("\"{}-{:x}-{:x}-{length:x}\"", env!("CARGO_PKG_VERSION"), file.len(), changed.as_nanos())
}

/// The caller above, the agent below.
fn draw(sound: &Waveform, recorded: &Recorded, length: u64) -> String {
    let place = |ms: f64| ms * WIDE / length as f64;
    let (from, wide) = (place(recorded.began_ms as f64), place(sound.seconds * 1_000.0));
    let height = SOUND_HEIGHT * SOUNDS as u64;
    let mut svg = format!(
        r#"<svg xmlns="http://www.w3.org/2000/svg" width="{WIDE}" height="{height}" viewBox="0 0 {WIDE} {height}" preserveAspectRatio="none">"#
    );
    for (side, (peaks, colour)) in [&sound.caller, &sound.agent].into_iter().zip(COLOURS).enumerate() {
        let middle = SOUND_HEIGHT as f64 * (side as f64 + 0.5);
        let path = outline(peaks, from, wide, middle);
        // A text takes everything.
        let _ = write!(svg, r#"<path fill="{colour}" d="{path}"/>"#);
    }
    svg.push_str("</svg>");
    svg
}

fn outline(peaks: &[u16], from: f64, wide: f64, middle: f64) -> String {
    if peaks.is_empty() {
        return String::new();
    }
    let room = SOUND_HEIGHT as f64 / 2.0 - 1.0;
    let step = wide / peaks.len() as f64;
    // Ears hear ratios: the square root shows quiet words as well.
    let high = |peak: &u16| ((f64::from(*peak) / 32_768.0).sqrt() * room).max(LEAST);
    let x = |column: usize| from + (column as f64 + 0.5) * step;
    let mut path = format!("M{from:.1} {middle}");
    for (column, peak) in peaks.iter().enumerate() {
        let _ = write!(path, "L{:.1} {:.1}", x(column), middle - high(peak));
    }
    let _ = write!(path, "L{:.1} {middle}", from + wide);
    for (column, peak) in peaks.iter().enumerate().rev() {
        let _ = write!(path, "L{:.1} {:.1}", x(column), middle + high(peak));
    }
    path.push('Z');
    path
}
