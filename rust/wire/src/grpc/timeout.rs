//! The `grpc-timeout` header: up to eight digits and a unit.

use std::time::Duration;

use http::HeaderMap;

/// How long the client is willing to wait; None without a header or with one that makes no sense.
pub fn of_request(headers: &HeaderMap) -> Option<Duration> {
    parse(headers.get("grpc-timeout")?.as_bytes())
}

fn parse(value: &[u8]) -> Option<Duration> {
    let (&unit, digits) = value.split_last()?;
    if digits.is_empty() || digits.len() > 8 || !digits.iter().all(u8::is_ascii_digit) {
        return None;
    }
    let count = digits.iter().fold(0_u64, |sum, digit| sum * 10 + u64::from(digit - b'0'));
    Some(match unit {
        b'H' => Duration::from_secs(count * 3600),
        b'M' => Duration::from_secs(count * 60),
        b'S' => Duration::from_secs(count),
        b'm' => Duration::from_millis(count),
        b'u' => Duration::from_micros(count),
        b'n' => Duration::from_nanos(count),
        _ => return None,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn reads_every_unit() {
        assert_eq!(parse(b"1H"), Some(Duration::from_secs(3600)));
        assert_eq!(parse(b"2M"), Some(Duration::from_secs(120)));
        assert_eq!(parse(b"3S"), Some(Duration::from_secs(3)));
        assert_eq!(parse(b"4m"), Some(Duration::from_millis(4)));
        assert_eq!(parse(b"5u"), Some(Duration::from_micros(5)));
        assert_eq!(parse(b"99999999n"), Some(Duration::from_nanos(99_999_999)));
    }

    #[test]
    fn ignores_what_is_no_timeout() {
        for value in [&b""[..], b"S", b"12", b"123456789S", b"-1S", b"1.5S", b"1 S"] {
            assert_eq!(parse(value), None, "{}", String::from_utf8_lossy(value));
        }
    }
}
