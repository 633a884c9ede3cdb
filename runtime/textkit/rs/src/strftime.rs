//! `strftime` of the C locale over a local time that the caller passes in.

/// A local date and time.
#[derive(Clone, Copy)]
pub struct Local {
    /// Seconds since 1970-01-01 00:00 on the local clock.
    pub seconds: i64,
    pub micros: u32,
}

const DAYS: [&str; 7] = ["Sunday", "Monday", "Tuesday", "Wednesday", "Thursday", "Friday", "Saturday"];
const MONTHS: [&str; 12] =
    ["January", "February", "March", "April", "May", "June", "July", "August", "September", "October", "November", "December"];

/// The fields of the calendar.
struct Fields {
    year: i64,
    month: i64,
    day: i64,
    hour: i64,
    minute: i64,
    second: i64,
    micros: u32,
    /// From 0 for Sunday.
    weekday: i64,
    /// From 1 for the first of January.
    yearday: i64,
}

impl Local {
    /// Formats as Python's naive `datetime.strftime` does on a POSIX system:
    /// `%z` and `%Z` are empty, directives that it does not know stay as text.
    pub fn format(self, format: &str) -> String {
        let f = self.fields();
        let mut out = String::new();
        let mut rest = format.chars();
        while let Some(c) = rest.next() {
            if c != '%' {
                out.push(c);
                continue;
            }
            let mut directive = rest.next();
            let unpadded = directive == Some('-');
            if unpadded {
                directive = rest.next();
            }
            let field = directive.map_or_else(|| "%".into(), |d| f.directive(d));
            out.push_str(if unpadded { trim_zeros(&field) } else { &field });
        }
        out
    }

    fn fields(self) -> Fields {
        let days = self.seconds.div_euclid(86_400);
        let time = self.seconds.rem_euclid(86_400);
        let (year, month, day) = civil(days);
        Fields {
            year,
            month,
            day,
            hour: time / 3600,
            minute: time / 60 % 60,
            second: time % 60,
            micros: self.micros,
            weekday: (days + 4).rem_euclid(7),
            yearday: days - days_from_civil(year, 1, 1) + 1,
        }
    }
}

impl Fields {
    fn directive(&self, d: char) -> String {
        let all = |format: &str| format.chars().map(|c| if c.is_alphabetic() { self.directive(c) } else { c.to_string() }).collect();
        let hour12 = (self.hour + 11) % 12 + 1;
        match d {
            'a' => DAYS[self.weekday as usize][..3].into(),
            'A' => DAYS[self.weekday as usize].into(),
            'b' | 'h' => MONTHS[self.month as usize - 1][..3].into(),
            'B' => MONTHS[self.month as usize - 1].into(),
            'c' => format!("{} {} {:2} {} {:04}", self.directive('a'), self.directive('b'), self.day, self.directive('T'), self.year),
            'C' => format!("{:02}", self.year.div_euclid(100)),
            'd' => format!("{:02}", self.day),
            'D' | 'x' => all("m/d/y"),
            'e' => format!("{:2}", self.day),
            'f' => format!("{:06}", self.micros),
            'F' => all("Y-m-d"),
            'G' => format!("{:04}", self.iso_week().0),
            'H' => format!("{:02}", self.hour),
            'I' => format!("{hour12:02}"),
            'j' => format!("{:03}", self.yearday),
            'k' => format!("{:2}", self.hour),
            'l' => format!("{hour12:2}"),
            'm' => format!("{:02}", self.month),
            'M' => format!("{:02}", self.minute),
            'n' => "\n".into(),
            'p' => if self.hour < 12 { "AM" } else { "PM" }.into(),
            'r' => all("I:M:S p"),
            'R' => all("H:M"),
            'S' => format!("{:02}", self.second),
            't' => "\t".into(),
            'T' | 'X' => all("H:M:S"),
            'u' => format!("{}", (self.weekday + 6) % 7 + 1),
            'U' => format!("{:02}", (self.yearday + 6 - self.weekday) / 7),
            'V' => format!("{:02}", self.iso_week().1),
            'w' => self.weekday.to_string(),
            'W' => format!("{:02}", (self.yearday + 6 - (self.weekday + 6) % 7) / 7),
            'y' => format!("{:02}", self.year.rem_euclid(100)),
            'Y' => format!("{}", self.year),
            'z' | 'Z' => String::new(),
            '%' => "%".into(),
            other => format!("%{other}"),
        }
    }

    /// Year and week of ISO 8601: a week belongs to the year of its Thursday.
    fn iso_week(&self) -> (i64, i64) {
        let thursday = days_from_civil(self.year, self.month, self.day) + 3 - (self.weekday + 6) % 7;
        let year = civil(thursday).0;
        (year, (thursday - days_from_civil(year, 1, 1)) / 7 + 1)
    }
}

fn trim_zeros(field: &str) -> &str {
    let trimmed = field.trim_start_matches(['0', ' ']);
    if trimmed.is_empty() && !field.is_empty() {
        "0"
    } else {
        trimmed
    }
}

/// Days since 1970-01-01 to the proleptic Gregorian date, counting years from
/// March so that the leap day comes last (Hinnant, "chrono-compatible low-level
/// date algorithms").
fn civil(days: i64) -> (i64, i64, i64) {
    let z = days + 719_468;
    let era = z.div_euclid(146_097);
    let doe = z.rem_euclid(146_097);
    let yoe = (doe - doe / 1460 + doe / 36_524 - doe / 146_096) / 365;
    let doy = doe - (365 * yoe + yoe / 4 - yoe / 100);
    let mp = (5 * doy + 2) / 153;
    let month = if mp < 10 { mp + 3 } else { mp - 9 };
    (yoe + era * 400 + i64::from(month <= 2), month, doy - (153 * mp + 2) / 5 + 1)
}

/// The inverse of [`civil`].
fn days_from_civil(year: i64, month: i64, day: i64) -> i64 {
    let y = year - i64::from(month <= 2);
    let yoe = y.rem_euclid(400);
    let doy = (153 * ((month + 9) % 12) + 2) / 5 + day - 1;
    y.div_euclid(400) * 146_097 + yoe * 365 + yoe / 4 - yoe / 100 + doy - 719_468
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(y: i64, mo: i64, d: i64, h: i64, mi: i64, s: i64) -> Local {
        Local { seconds: days_from_civil(y, mo, d) * 86_400 + h * 3600 + mi * 60 + s, micros: 42 }
    }

    #[test]
    fn as_python_formats() {
        let t = at(2024, 7, 6, 15, 4, 9);
        for (format, want) in [
            ("%d %b %Y", "06 Jul 2024"),
            ("%Y-%m-%d", "2024-07-06"),
            ("%-d %B %y", "6 July 24"),
            ("%A %a", "Saturday Sat"),
            ("%H:%M:%S %I %p", "15:04:09 03 PM"),
            ("%j %U %W %V %G %u %w", "188 26 27 27 2024 6 6"),
            ("%f|%z|%Z|%%", "000042|||%"),
            ("%e|%-I|%q|é", " 6|3|%q|é"),
            ("%c", "Sat Jul  6 15:04:09 2024"),
            ("%x %X %D %R %F %T", "07/06/24 15:04:09 07/06/24 15:04 2024-07-06 15:04:09"),
            ("100%", "100%"),
            ("%-M", "4"),
            ("%r", "03:04:09 PM"),
        ] {
            assert_eq!(t.format(format), want, "{format}");
        }
    }

    #[test]
    fn midnight_noon_and_year_ends() {
        assert_eq!(at(2025, 1, 1, 0, 0, 0).format("%I %p %-H %j"), "12 AM 0 001");
        assert_eq!(at(2024, 12, 31, 12, 0, 0).format("%I %p %j %G-%V"), "12 PM 366 2025-01");
        assert_eq!(at(2021, 1, 3, 0, 0, 0).format("%G-%V %a"), "2020-53 Sun");
        assert_eq!(at(1969, 12, 31, 23, 59, 59).format("%F %T"), "1969-12-31 23:59:59");
    }

    #[test]
    fn every_day_of_four_centuries_returns() {
        for days in -200_000..200_000 {
            let (y, m, d) = civil(days);
            assert_eq!(days_from_civil(y, m, d), days);
        }
    }
}
