//! A record as a line. Nothing in it can end the line, or look like another field.

use std::fmt::Write as _;
use std::io::Write;
use std::time::{SystemTime, UNIX_EPOCH};

use http::Version;

use super::{Format, Record};

const MONTHS: [&str; 12] = ["Jan", "Feb", "Mar", "Apr", "May", "Jun", "Jul", "Aug", "Sep", "Oct", "Nov", "Dec"];

pub fn line(format: Format, record: &Record, lines: &mut Vec<u8>) {
    // Writing to a Vec can't fail.
    let _ = match format {
        Format::Json => json(record, lines),
        Format::Common => common(record, lines),
    };
}

fn json(record: &Record, out: &mut Vec<u8>) -> std::io::Result<()> {
    let time = Time::of(record.begun);
    write!(
        out,
        "{{\"time\":\"{:04}-{:02}-{:02}T{:02}:{:02}:{:02}.{:06}Z\",\"client\":",
        time.year, time.month, time.day, time.hour, time.minute, time.second, time.micros
    )?;
    string(&client(record, true), out)?;
    write!(out, ",\"protocol\":\"{}\",\"method\":", record.listener.name())?;
    string(&record.method, out)?;
    out.write_all(b",\"path\":")?;
    string(&record.path, out)?;
    write!(
        out,
        ",\"status\":{},\"bytes_in\":{},\"bytes_out\":{},\"duration_us\":{}",
        record.status,
        record.bytes_in,
        record.bytes_out,
        record.took.as_micros()
    )?;
    for (name, value) in [("model", &record.model), ("request_id", &record.request_id)] {
        if !value.is_empty() {
            write!(out, ",\"{name}\":")?;
            string(value, out)?;
        }
    }
    out.write_all(b"}\n")
}

fn common(record: &Record, out: &mut Vec<u8>) -> std::io::Result<()> {
    let time = Time::of(record.begun);
    let month = usize::try_from(time.month - 1).ok().and_then(|index| MONTHS.get(index)).unwrap_or(&"");
    let version = match record.version {
        Version::HTTP_10 => "HTTP/1.0",
        Version::HTTP_2 => "HTTP/2.0",
        _ => "HTTP/1.1",
    };
    writeln!(
        out,
        "{} - - [{:02}/{month}/{:04}:{:02}:{:02}:{:02} +0000] \"{} {} {version}\" {} {} {} {} {} \"{}\" \"{}\"",
        client(record, false),
        time.day,
        time.year,
        time.hour,
        time.minute,
        time.second,
        escaped(&record.method),
        escaped(&record.path),
        record.status,
        record.bytes_out,
        record.listener.name(),
        record.bytes_in,
        record.took.as_micros(),
        escaped(&record.model),
        escaped(&record.request_id),
    )
}

fn client(record: &Record, with_port: bool) -> String {
    match record.client {
        Some(address) if with_port => address.to_string(),
        Some(address) => address.ip().to_string(),
        None => "-".to_owned(),
    }
}

/// A JSON string in ASCII: some readers take more characters for the end of a line than JSON does.
fn string(text: &str, out: &mut Vec<u8>) -> std::io::Result<()> {
    out.push(b'"');
    for character in text.chars() {
        match character {
            ' '..='~' if character != '"' && character != '\\' => out.push(character as u8),
            _ => {
                for unit in character.encode_utf16(&mut [0; 2]) {
                    write!(out, "\\u{unit:04x}")?;
                }
            }
        }
    }
    out.push(b'"');
    Ok(())
}

/// Printable ASCII but for quotes and backslashes; the bytes of all else in hexadecimal.
fn escaped(text: &str) -> String {
    let mut escaped = String::with_capacity(text.len());
    for byte in text.bytes() {
        match byte {
            b' '..=b'~' if byte != b'"' && byte != b'\\' => escaped.push(char::from(byte)),
            _ => {
                let _ = write!(escaped, "\\x{byte:02x}");
            }
        }
    }
    escaped
}

/// A moment in UTC.
struct Time {
    year: i64,
    month: i64,
    day: i64,
    hour: u64,
    minute: u64,
    second: u64,
    micros: u32,
}

impl Time {
    fn of(moment: SystemTime) -> Self {
        let since = moment.duration_since(UNIX_EPOCH).unwrap_or_default();
        let seconds = since.as_secs();
        let (year, month, day) = date(i64::try_from(seconds / 86_400).unwrap_or_default());
        let of_day = seconds % 86_400;
        let (hour, minute, second) = (of_day / 3600, of_day / 60 % 60, of_day % 60);
        Self { year, month, day, hour, minute, second, micros: since.subsec_micros() }
    }
}

/// Days since 1970 as a date. Years are counted from March on, so that the leap day is their last.
fn date(days: i64) -> (i64, i64, i64) {
    let days = days + 719_468;
    let (era, of_era) = (days.div_euclid(146_097), days.rem_euclid(146_097));
    let year_of_era = (of_era - of_era / 1460 + of_era / 36_524 - of_era / 146_096) / 365;
    let of_year = of_era - (365 * year_of_era + year_of_era / 4 - year_of_era / 100);
    let shifted = (5 * of_year + 2) / 153;
    let day = of_year - (153 * shifted + 2) / 5 + 1;
    let month = if shifted < 10 { shifted + 3 } else { shifted - 9 };
    (year_of_era + era * 400 + i64::from(month <= 2), month, day)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn days_are_dates() {
        assert_eq!(date(0), (1970, 1, 1));
        assert_eq!(date(11_016), (2000, 2, 29));
        assert_eq!(date(11_017), (2000, 3, 1));
        assert_eq!(date(20_787), (2026, 11, 30));
    }

    #[test]
    fn nothing_ends_a_field_or_a_line() {
        assert_eq!(escaped("a\"b\\\r\né"), "a\\x22b\\x5c\\x0d\\x0a\\xc3\\xa9");
    }
}
