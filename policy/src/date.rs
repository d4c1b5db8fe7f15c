//! A day of the calendar. This crate has no clock: whoever loads the policies says what day it is.

use std::fmt;

/// Ordered as days are.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Date {
    year: u16,
    month: u8,
    day: u8,
}

impl Date {
    /// On this day nothing has expired: for the tests of a policy file, which must not turn with the calendar.
    pub const EARLIEST: Date = Date { year: 0, month: 1, day: 1 };
    /// On this day everything that expires has: for where nobody knows the date.
    pub const LATEST: Date = Date { year: 9999, month: 12, day: 31 };

    /// `None` when the calendar has no such day.
    pub fn new(year: u16, month: u8, day: u8) -> Option<Date> {
        let leap = year.is_multiple_of(4) && (!year.is_multiple_of(100) || year.is_multiple_of(400));
        let days = match month {
            1 | 3 | 5 | 7 | 8 | 10 | 12 => 31,
            4 | 6 | 9 | 11 => 30,
            2 if leap => 29,
            2 => 28,
            _ => return None,
        };
        (year <= 9999 && (1..=days).contains(&day)).then_some(Date { year, month, day })
    }

    /// Of a number of days since 1970-01-01, in UTC.
    pub fn from_unix_days(days: u32) -> Date {
        // Counted in years that begin in March, so that the day that comes and goes is the last one.
        let shifted = u64::from(days) + 719_468;
        let (era, of_era) = (shifted / 146_097, shifted % 146_097);
        let year_of_era = (of_era - of_era / 1460 + of_era / 36_524 - of_era / 146_096) / 365;
        let of_year = of_era - (365 * year_of_era + year_of_era / 4 - year_of_era / 100);
        let march_month = (5 * of_year + 2) / 153;
        let day = of_year - (153 * march_month + 2) / 5 + 1;
        let month = if march_month < 10 { march_month + 3 } else { march_month - 9 };
        let year = year_of_era + era * 400 + u64::from(month <= 2);
        match u16::try_from(year) {
            Ok(year) => Date::new(year, month as u8, day as u8).unwrap_or(Date::LATEST),
            Err(_) => Date::LATEST,
        }
    }
}

impl fmt::Display for Date {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:04}-{:02}-{:02}", self.year, self.month, self.day)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn days_since_1970_are_dates() {
        for (days, date) in [
            (0, "1970-01-01"),
            (58, "1970-02-28"),
            (59, "1970-03-01"),
            (789, "1972-02-29"),
            (11_016, "2000-02-29"),
            (20_787, "2026-11-30"),
            (47_540, "2100-02-28"),
            (47_541, "2100-03-01"),
            (u32::MAX, "9999-12-31"),
        ] {
            assert_eq!(Date::from_unix_days(days).to_string(), date, "{days}");
        }
        let all: Vec<Date> = (0..150_000).map(Date::from_unix_days).collect();
        assert!(all.windows(2).all(|pair| pair[0] < pair[1]));
    }

    #[test]
    fn the_calendar_has_only_its_days() {
        assert!(Date::new(2028, 2, 29).is_some() && Date::new(2000, 2, 29).is_some());
        for (year, month, day) in
            [(2027, 2, 29), (2100, 2, 29), (2027, 4, 31), (2027, 0, 1), (2027, 13, 1), (2027, 1, 0)]
        {
            assert!(Date::new(year, month, day).is_none(), "{year}-{month}-{day}");
        }
    }
}
