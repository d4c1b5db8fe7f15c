//! Times as the API and the audit write them: RFC 3339 in UTC.

use std::time::{SystemTime, UNIX_EPOCH};

const DAY_S: u64 = 86_400;

/// Milliseconds since 1970, by the world's clock.
pub fn now_ms() -> u64 {
    let since = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    u64::try_from(since.as_millis()).unwrap_or(u64::MAX)
}

/// To the second.
pub fn rfc3339(seconds: u64) -> String {
    let (year, month, day) = civil(seconds / DAY_S);
    let rest = seconds % DAY_S;
    format!("{year:04}-{month:02}-{day:02}T{:02}:{:02}:{:02}Z", rest / 3600, rest / 60 % 60, rest % 60)
}

/// To the millisecond; all have the same length until the year 9999, so as text they are ordered as in time.
pub fn rfc3339_ms(ms: u64) -> String {
    let mut text = rfc3339(ms / 1000);
    text.pop();
    format!("{text}.{:03}Z", ms % 1000)
}

/// By UTC, so that every server of a company sees the same day.
pub fn today() -> policy::Date {
    policy::Date::from_unix_days(u32::try_from(now_ms() / 1000 / DAY_S).unwrap_or(u32::MAX))
}

/// Civil date of a day count, after Howard Hinnant's `civil_from_days`; years from 1970 on.
fn civil(days: u64) -> (u64, u64, u64) {
    let shifted = days + 719_468;
    let era = shifted / 146_097;
    let day_of_era = shifted % 146_097;
    let year_of_era = (day_of_era - day_of_era / 1460 + day_of_era / 36_524 - day_of_era / 146_096) / 365;
    let day_of_year = day_of_era - (365 * year_of_era + year_of_era / 4 - year_of_era / 100);
    let shifted_month = (5 * day_of_year + 2) / 153;
    let day = day_of_year - (153 * shifted_month + 2) / 5 + 1;
    let month = if shifted_month < 10 { shifted_month + 3 } else { shifted_month - 9 };
    (year_of_era + era * 400 + u64::from(month <= 2), month, day)
}

/// The reverse, after his `days_from_civil`. Days that a month does not have are days of the next.
fn days(year: u64, month: u64, day: u64) -> Option<u64> {
    if year < 1970 || !(1..=12).contains(&month) || !(1..=31).contains(&day) {
        return None;
    }
    let year = year - u64::from(month <= 2);
    let (era, year_of_era) = (year / 400, year % 400);
    let shifted_month = if month > 2 { month - 3 } else { month + 9 };
    let day_of_year = (153 * shifted_month + 2) / 5 + day - 1;
    let day_of_era = year_of_era * 365 + year_of_era / 4 - year_of_era / 100 + day_of_year;
    Some(era * 146_097 + day_of_era - 719_468)
}

/// Milliseconds since 1970 of an RFC 3339 time with any offset; `None` when it is none, or before 1970.
pub fn parse_rfc3339(text: &str) -> Option<u64> {
    let number = |range: std::ops::Range<usize>| -> Option<u64> {
        let part = text.get(range)?;
        part.bytes().all(|byte| byte.is_ascii_digit()).then(|| part.parse().ok())?
    };
    let [year, month, day] = [number(0..4)?, number(5..7)?, number(8..10)?];
    let [hour, minute, second] = [number(11..13)?, number(14..16)?, number(17..19)?];
    let marks = [text.get(4..5)?, text.get(7..8)?, text.get(10..11)?, text.get(13..14)?, text.get(16..17)?];
    // 60: a leap second is counted as the one after it.
    let sound = matches!(marks, ["-", "-", "T" | "t" | " ", ":", ":"]) && hour < 24 && minute < 60 && second <= 60;
    let day_count = days(year, month, day).filter(|count| civil(*count) == (year, month, day))?;
    if !sound {
        return None;
    }
    let mut rest = text.get(19..)?;
    let mut ms = ((day_count * 24 + hour) * 60 + minute) * 60_000 + second * 1000;
    if let Some(fraction) = rest.strip_prefix('.') {
        let digits = fraction.bytes().take_while(u8::is_ascii_digit).count();
        let three: String = fraction.get(..digits)?.chars().chain("000".chars()).take(3).collect();
        ms += three.parse::<u64>().ok().filter(|_| digits > 0)?;
        rest = fraction.get(digits..)?;
    }
    match (rest.get(..1)?, rest.len()) {
        ("Z" | "z", 1) => Some(ms),
        (sign @ ("+" | "-"), 6) => {
            let at = text.len() - 5;
            let (hours, minutes) = (number(at..at + 2)?, number(at + 3..at + 5)?);
            let ahead = (hours * 60 + minutes) * 60_000;
            let sound = hours < 24 && minutes < 60 && text.get(at + 2..at + 3) == Some(":");
            (if sign == "+" { ms.checked_sub(ahead) } else { ms.checked_add(ahead) }).filter(|_| sound)
        }
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times_are_civil_and_read_back() {
        for (seconds, text) in [
            (0, "1970-01-01T00:00:00Z"),
            (951_782_400, "2000-02-29T00:00:00Z"),
            (1_709_164_799, "2024-02-28T23:59:59Z"),
            (4_102_444_799, "2099-12-31T23:59:59Z"),
        ] {
            assert_eq!(rfc3339(seconds), text);
            assert_eq!(parse_rfc3339(text), Some(seconds * 1000));
        }
        assert_eq!(rfc3339_ms(1_709_164_799_007), "2024-02-28T23:59:59.007Z");
        assert_eq!(parse_rfc3339("2024-02-28T23:59:59.007Z"), Some(1_709_164_799_007));
    }

    #[test]
    fn offsets_and_fractions_are_read_and_nothing_else() {
        assert_eq!(parse_rfc3339("1970-01-01T02:00:00.5+02:00"), Some(500));
        assert_eq!(parse_rfc3339("1969-12-31T23:00:00-01:00"), None, "before 1970, as far as the date goes");
        assert_eq!(parse_rfc3339("1970-01-01 00:00:01.123456z"), Some(1123));
        for bad in [
            "",
            "a-12",
            "2024-02-30T00:00:00Z",
            "2024-13-01T00:00:00Z",
            "2024-01-01",
            "2024-01-01T00:00:00",
            "2024-01-01T24:00:00Z",
            "2024-01-01T00:00:00.Z",
            "2024-01-01T00:00:00+2:00",
            "2024-01-01T00:00:00Zx",
            "+024-01-01T00:00:00Z",
            "2024-01-01T00:00:00é",
            "0000-01-01T00:00:00Z",
            "2024-00-01T00:00:00Z",
            "2024-01-00T00:00:00Z",
        ] {
            assert_eq!(parse_rfc3339(bad), None, "{bad}");
        }
    }
}
