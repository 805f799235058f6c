//! The picture of a recording.

use super::{
    access::{Desk, Login},
    history::{WORDS, get, record},
    *,
};
use crate::records::{Archive as _, Record, Recorded, Sqlite, recording_file};

/// Bytes of five seconds.
const SOUND: usize = 5 * 8_000 * 4;

/// A recording of five seconds, one loud second of the caller at its end.
pub fn desk_with_sound() -> (Desk, Record) {
    let desk = Desk::new();
    let mut record = record(0);
    record.recording =
        Some(Recorded { file: "call.wav".into(), began_ms: 3_000, seconds: 5.0, lost_seconds: BTreeMap::new() });
    Sqlite::open(&desk.folder.path().join("calls.sqlite3")).unwrap().put(std::slice::from_ref(&record)).unwrap();
    let file = recording_file(desk.folder.path(), record.id);
    std::fs::create_dir_all(file.parent().unwrap()).unwrap();
    std::fs::write(file, wav()).unwrap();
    (desk, record)
}

fn wav() -> Vec<u8> {
    let mut wav = Vec::from(
        *b"RIFF\x24\x71\x02\0WAVEfmt \x10\0\0\0\x01\0\x02\0\x40\x1f\0\0\0\x7d\0\0\x04\0\x10\0data\0\x71\x02\0",
    );
    wav.extend((0..5 * 8_000).flat_map(|sample| if sample < 4 * 8_000 { [0, 0, 0, 0] } else { [0, 0x20, 0, 0] }));
    assert_eq!(wav.len(), 44 + SOUND);
    wav
}

pub fn waveform_of(record: &Record) -> String {
    format!("/history/{}/waveform.svg", record.id)
}

async fn page(desk: &Desk, login: &Login, record: &Record) -> String {
    let page = get(desk, login, &format!("/history/{}", record.id)).await;
    assert_eq!(page.status, StatusCode::OK);
    assert!(page.text.contains(WORDS), "the record is shown in any case: {}", page.text);
    page.text
}

/// Points of the outlines of both sides.
fn outlines(svg: &str) -> Vec<Vec<(f64, f64)>> {
    let number = |text: &str| text.parse::<f64>().unwrap_or_else(|_| panic!("{text} is a number"));
    let paths = svg.split(" d=\"M").skip(1).map(|path| path.split('Z').next().unwrap());
    let points = |path: &str| {
        path.split('L')
            .map(|point| point.split_once(' ').map(|(x, y)| (number(x), number(y))).unwrap())
            .collect::<Vec<_>>()
    };
    paths.map(points).collect()
}

#[tokio::test]
async fn the_sound_of_both_sides_is_drawn_over_the_time_of_the_axis() {
    let (desk, record) = desk_with_sound();
    let login = desk.log_in(Role::Operator).await;
    let svg = get(&desk, &login, &waveform_of(&record)).await;
    assert_eq!((svg.status, &svg.headers["content-type"]), (StatusCode::OK, &"image/svg+xml".parse().unwrap()));
    let sides = outlines(&svg.text);
    assert_eq!(sides.len(), 2, "caller and agent");
    // From the third second to the eighth of thirty, in a picture that is 4,000 wide.
    let (from, to, loud) = (400.0, 1_066.7, 933.3);
    let high = |side: usize, from: f64, to: f64| {
        let middle = 24.0 + 48.0 * side as f64;
        let within = sides[side].iter().filter(|(x, _)| (from..=to).contains(x));
        within.map(|(_, y)| (y - middle).abs()).fold(0.0, f64::max)
    };
    for (side, points) in sides.iter().enumerate() {
        assert!(points.iter().all(|(x, _)| (from..=to).contains(x)), "{side} {points:?}");
        assert!(points.len() > 1_000, "fine enough for a wide window");
    }
    // A quarter of full scale is half as high; silence is a line.
    assert!((11.0..=12.0).contains(&high(0, loud + 1.0, to)), "{}", high(0, loud + 1.0, to));
    assert_eq!((high(0, from, loud - 1.0), high(1, from, to)), (0.5, 0.5));
    let page = page(&desk, &login, &record).await;
    assert!(page.contains(&format!(r#"<img class="sound" src="{}" alt="How loud"#, waveform_of(&record))), "{page}");
    assert!(!page.contains("<path d=\"M0"), "the page itself waits for no sound");
}

/// A browser keeps the picture, and asks whether it may still show it.
#[tokio::test]
async fn a_picture_that_is_known_is_not_drawn_again_and_shown_to_nobody_else() {
    let (desk, record) = desk_with_sound();
    let login = desk.log_in(Role::Operator).await;
    let path = waveform_of(&record);
    let first = get(&desk, &login, &path).await;
    assert_eq!(first.headers["cache-control"], "private, no-cache");
    let tag = first.headers["etag"].to_str().unwrap();
    let ask = async |cookie: &str, tag: &str| {
        ask(&desk.router, Method::GET, &path, &[("cookie", cookie), ("if-none-match", tag)]).await
    };
    let again = ask(&login.cookie, tag).await;
    assert_eq!((again.status, again.text.as_str()), (StatusCode::NOT_MODIFIED, ""));
    assert_eq!(again.headers["cache-control"], "private, no-cache");
    assert_eq!(ask(&login.cookie, "\"another\"").await.status, StatusCode::OK);
    assert_eq!(ask(&desk.log_in(Role::Viewer).await.cookie, tag).await.status, StatusCode::FORBIDDEN);
    let file = recording_file(desk.folder.path(), record.id);
    std::fs::write(&file, &wav()[..44 + SOUND / 2]).unwrap();
    assert_eq!(ask(&login.cookie, tag).await.status, StatusCode::OK, "of another file");
    std::fs::remove_file(file).unwrap();
    assert_eq!(ask(&login.cookie, tag).await.status, StatusCode::NOT_FOUND, "of none");
}

#[tokio::test]
async fn what_is_no_recording_any_more_is_told_on_the_page_and_by_the_status() {
    let foreign = StatusCode::UNPROCESSABLE_ENTITY;
    let mut long = wav();
    // Five hours at 8 kHz, which is nothing but a hole.
    let bytes = 5 * 3_600 * 8_000 * 4_u32;
    long[4..8].copy_from_slice(&(bytes + 36).to_le_bytes());
    long[40..44].copy_from_slice(&bytes.to_le_bytes());
    let mut mono = wav();
    mono[22] = 1;
    let cases: [(Option<&[u8]>, u64, StatusCode, &str); 6] = [
        (None, 0, StatusCode::NOT_FOUND, "The recording of this call is not there any more."),
        (Some(b"no sound"), 8, foreign, "The recording cannot be drawn: the file is no recording of a call."),
        (Some(b"no sound, and longer than the head of a recording would be"), 58, foreign, "cannot be drawn"),
        (Some(&mono), 44 + SOUND as u64, foreign, "cannot be drawn"),
        (Some(&long), 44 + u64::from(bytes), foreign, "longer than four hours"),
        (Some(&wav()[..44 + SOUND / 2]), 44 + SOUND as u64 / 2, StatusCode::OK, "cut off: 0:02 of 0:05 are there."),
    ];
    for (bytes, length, status, told) in cases {
        let (desk, record) = desk_with_sound();
        let login = desk.log_in(Role::Operator).await;
        let path = recording_file(desk.folder.path(), record.id);
        match bytes {
            None => std::fs::remove_file(path).unwrap(),
            Some(bytes) => {
                std::fs::write(&path, bytes).unwrap();
                std::fs::File::options().write(true).open(path).unwrap().set_len(length).unwrap();
            }
        }
        let answer = get(&desk, &login, &waveform_of(&record)).await;
        assert_eq!(answer.status, status, "{told}: {}", answer.text);
        assert!(status == StatusCode::OK || answer.json()["error"].is_string(), "{}", answer.text);
        let page = page(&desk, &login, &record).await;
        assert!(page.contains(told), "{told}: {page}");
        assert_eq!(page.contains("<img class=\"sound\""), status == StatusCode::OK, "{told}");
        assert_eq!(page.contains("<audio"), bytes.is_some(), "{told}");
    }
}

#[tokio::test]
async fn a_call_that_was_not_recorded_has_no_picture() {
    let desk = Desk::new();
    let login = desk.log_in(Role::Operator).await;
    let plain = record(0);
    Sqlite::open(&desk.folder.path().join("calls.sqlite3")).unwrap().put(std::slice::from_ref(&plain)).unwrap();
    assert!(!page(&desk, &login, &plain).await.contains("class=\"sound\""));
    assert_eq!(get(&desk, &login, &waveform_of(&plain)).await.status, StatusCode::NOT_FOUND);
    assert_eq!(get(&desk, &login, &waveform_of(&record(1))).await.status, StatusCode::NOT_FOUND);
}
