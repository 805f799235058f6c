//! Times of evidence, in every notation of ISO 8601 that the reference implementation reads
//! (`datetime.fromisoformat` of Python 3.11).

use jiff::{
    SignedDuration, Timestamp,
    civil::{Date, DateTime, ISOWeekDate, Time, Weekday},
    tz::TimeZone,
};

/// `None` for what is no time. A time without an offset is UTC.
pub fn parse(text: &str) -> Option<Timestamp> {
    let with_offset = text.strip_suffix('Z').map(|rest| format!("{rest}+00:00"));
    let text = with_offset.as_deref().unwrap_or(text);
    if text.chars().count() < 7 {
        return None;
    }
    // Every notation of a date is ASCII; what separates it from the time is any one character.
    let separator = date_length(text.as_bytes())?;
    let date = date(text.get(..separator)?)?;
    let rest = text.get(separator..)?;
    let mut letters = rest.chars();
    letters.next();
    let clock = letters.as_str();
    let (time, offset) = if clock.is_empty() { (Time::midnight(), SignedDuration::ZERO) } else { self::clock(clock)? };
    let zoned = DateTime::from_parts(date, time).to_zoned(TimeZone::UTC).ok()?;
    zoned.timestamp().checked_sub(offset).ok()
}

/// How many bytes of the text are its date.
fn date_length(text: &[u8]) -> Option<usize> {
    let at = |index: usize| text.get(index).copied();
    if text.len() == 7 {
        return Some(7);
    }
    match (at(4)?, at(5)?) {
        (b'-', b'W') => match at(8) {
            Some(b'-') if text.len() == 9 => None,
            Some(b'-') if at(10).is_some_and(|digit| digit.is_ascii_digit()) => Some(8),
            Some(b'-') => Some(10),
            _ => Some(8),
        },
        (b'-', _) => Some(10),
        (b'W', _) => {
            let digits = text.iter().skip(7).take_while(|byte| byte.is_ascii_digit()).count();
            let end = 7 + digits;
            Some(if end < 9 {
                end
            } else if end % 2 == 0 {
                7
            } else {
                8
            })
        }
        _ => Some(8),
    }
}

/// `YYYY-MM-DD`, `YYYYMMDD`, `YYYY-Www`, `YYYY-Www-D`, `YYYYWww` or `YYYYWwwD`.
fn date(text: &str) -> Option<Date> {
    let year: i16 = number(text, 0, 4)?;
    // Python knows no year zero.
    if year < 1 {
        return None;
    }
    let rest = text.get(4..)?;
    let (separated, rest) = match rest.strip_prefix('-') {
        Some(rest) => (true, rest),
        None => (false, rest),
    };
    let Some(week) = rest.strip_prefix('W') else {
        let month: i8 = number(rest, 0, 2)?;
        let rest = rest.get(2..)?;
        let day = if separated { rest.strip_prefix('-')? } else { rest };
        return (day.len() == 2).then(|| Date::new(year, month, number(day, 0, 2)?).ok())?;
    };
    let number_of_week: i8 = number(week, 0, 2)?;
    let day = match week.get(2..)? {
        "" => 1,
        day => {
            let day = if separated { day.strip_prefix('-')? } else { day };
            if day.len() != 1 {
                return None;
            }
            number(day, 0, 1)?
        }
    };
    let day = Weekday::from_monday_one_offset(day).ok()?;
    Some(ISOWeekDate::new(year, number_of_week, day).ok()?.date())
}

/// The time of day and its offset from UTC.
fn clock(text: &str) -> Option<(Time, SignedDuration)> {
    let sign = text.find('-').or_else(|| text.find('+')).or_else(|| text.find('Z'));
    let (local, zone) = match sign {
        Some(at) => (text.get(..at)?, text.get(at..)),
        None => (text, None),
    };
    let parts = Parts::parse(local)?;
    let time = Time::new(parts.hours, parts.minutes, parts.seconds, parts.microseconds * 1_000).ok()?;
    // 60 seconds are a time for the library, not for Python.
    if parts.seconds > 59 {
        return None;
    }
    let offset = match zone {
        None | Some("Z") => SignedDuration::ZERO,
        Some(zone) => {
            let size = zone.get(1..)?;
            if matches!(size.len(), 0 | 1 | 3) {
                return None;
            }
            let parts = Parts::parse(size)?;
            let size = SignedDuration::from_micros(parts.total_microseconds());
            if size >= SignedDuration::from_hours(24) {
                return None;
            }
            if zone.starts_with('-') { -size } else { size }
        }
    };
    Some((time, offset))
}

/// `HH`, `HH:MM`, `HH:MM:SS`, `HH:MM:SS.f…`, with or without the colons.
#[derive(Default)]
struct Parts {
    hours: i8,
    minutes: i8,
    seconds: i8,
    microseconds: i32,
}

impl Parts {
    fn parse(text: &str) -> Option<Self> {
        let mut parts = Self { hours: number(text, 0, 2)?, ..Self::default() };
        let mut rest = text.get(2..)?;
        let separated = rest.starts_with(':');
        for part in [&mut parts.minutes, &mut parts.seconds] {
            if rest.is_empty() {
                break;
            }
            if separated {
                rest = rest.strip_prefix(':')?;
            }
            *part = number(rest, 0, 2)?;
            rest = rest.get(2..)?;
        }
        if rest.is_empty() {
            return Some(parts);
        }
        let fraction = rest.strip_prefix(['.', ','])?;
        if fraction.is_empty() || !fraction.bytes().all(|byte| byte.is_ascii_digit()) {
            return None;
        }
        let six: String = fraction.chars().chain("000000".chars()).take(6).collect();
        parts.microseconds = six.parse().ok()?;
        Some(parts)
    }

    fn total_microseconds(&self) -> i64 {
        let seconds = i64::from(self.hours) * 3_600 + i64::from(self.minutes) * 60 + i64::from(self.seconds);
        seconds * 1_000_000 + i64::from(self.microseconds)
    }
}

/// Exactly `length` ASCII digits at `start`.
fn number<T: std::str::FromStr>(text: &str, start: usize, length: usize) -> Option<T> {
    let digits = text.get(start..start + length)?;
    if digits.bytes().all(|byte| byte.is_ascii_digit()) { digits.parse().ok() } else { None }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn utc(text: &str) -> Option<String> {
        parse(text).map(|time| time.to_string())
    }

    #[test]
    fn the_notations_of_iso_8601_are_read() {
        for (text, time) in [
            ("2026-11-20", "2026-11-20T00:00:00Z"),
            ("20261120", "2026-11-20T00:00:00Z"),
            ("2026-11-20T10:11:12Z", "2026-11-20T10:11:12Z"),
            ("2026-11-20 10:11", "2026-11-20T10:11:00Z"),
            ("2026-11-20T10", "2026-11-20T10:00:00Z"),
            ("2026-11-20é10", "2026-11-20T10:00:00Z"),
            ("20261120T101112.5+0130", "2026-11-20T08:41:12.5Z"),
            ("2026-11-20T10:11:12,1234567-02:00", "2026-11-20T12:11:12.123456Z"),
            ("2026-W47-5", "2026-11-20T00:00:00Z"),
            ("2026W475T10", "2026-11-20T10:00:00Z"),
            ("2026-W47", "2026-11-16T00:00:00Z"),
            ("2026-11-20T", "2026-11-20T00:00:00Z"),
        ] {
            assert_eq!(utc(text).as_deref(), Some(time), "{text}");
        }
    }

    #[test]
    fn what_python_does_not_read_is_no_time() {
        for text in [
            "",
            " ",
            "now",
            "2026-13-01",
            "2026-11-31",
            "2026-1-1",
            "2026-11",
            " 2026-11-20",
            "2026-11-20T1",
            "2026-11-20T25:00",
            "2026-11-20T10:1",
            "2026-11-20T10:11:60",
            "2026-11-20T10:11:12.",
            "2026-11-20T10:11:12ZZ",
            "0000-01-01",
            "2026-11-20T10:11:12+1",
            "2026-11-20T10:11:12+24:00",
            "2026-11-20T10:1112",
            "2026-W60",
            "１２３４-01-01",
            "20261120101112",
            "2026-11-20T10:11:12z",
        ] {
            assert_eq!(utc(text), None, "{text}");
        }
    }
}
