//! Exact comparison of a decimal text with an f64, for the rare ties of 16-bit rounding.

use std::cmp::Ordering;

/// More significant digits than any point half-way between two FP16 or BF16 values has (at most 97).
const ALL_DIGITS: usize = 120;

/// How the number written in `text` (JSON syntax, no sign) compares with `value`; exact for values of up to 120 digits.
pub fn compare(text: &[u8], value: f64) -> Ordering {
    let written = Decimal::of(text);
    let exact = Decimal::of(format!("{value:.ALL_DIGITS$e}").as_bytes());
    written.cmp(&exact)
}

/// 0.d₁d₂d₃… × 10^point, without zeros at either end of the digits.
struct Decimal {
    digits: Vec<u8>,
    point: i64,
}

impl Decimal {
    fn of(text: &[u8]) -> Self {
        let exponent_at = text.iter().position(|byte| matches!(byte, b'e' | b'E')).unwrap_or(text.len());
        let (mantissa, exponent) = text.split_at(exponent_at);
        let whole = mantissa.iter().position(|&byte| byte == b'.').unwrap_or(mantissa.len());
        let all: Vec<u8> = mantissa.iter().copied().filter(u8::is_ascii_digit).collect();
        let zeros = all.iter().take_while(|&&digit| digit == b'0').count();
        let end = all.iter().rposition(|&digit| digit != b'0').map_or(zeros, |last| last + 1);
        let digits = all[zeros..end].to_vec();
        let point = if digits.is_empty() { 0 } else { signed(whole) - signed(zeros) + exponent_of(exponent) };
        Self { digits, point }
    }

    fn cmp(&self, other: &Self) -> Ordering {
        let zeros = other.digits.is_empty().cmp(&self.digits.is_empty());
        zeros.then(self.point.cmp(&other.point)).then_with(|| self.digits.cmp(&other.digits))
    }
}

fn signed(count: usize) -> i64 {
    i64::try_from(count).unwrap_or(i64::MAX / 4)
}

/// Of `e-12`; beyond what an i32 holds only the sign matters.
fn exponent_of(text: &[u8]) -> i64 {
    let text = std::str::from_utf8(text.get(1..).unwrap_or_default()).unwrap_or_default();
    let saturated = if text.starts_with('-') { i64::from(i32::MIN) } else { i64::from(i32::MAX) };
    if text.is_empty() {
        return 0;
    }
    text.parse::<i32>().map_or(saturated, i64::from)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn compares_exactly() {
        assert_eq!(compare(b"0.1", 0.1), Ordering::Less); // the double above 0.1 is 0.1000000000000000055…
        assert_eq!(compare(b"0.5", 0.5), Ordering::Equal);
        assert_eq!(compare(b"5e-1", 0.5), Ordering::Equal);
        assert_eq!(compare(b"0.500000000000000000000000001", 0.5), Ordering::Greater);
        assert_eq!(compare(b"0", 0.0), Ordering::Equal);
        assert_eq!(compare(b"0", 1e-300), Ordering::Less);
        assert_eq!(compare(b"10e-99999999999", 1e-300), Ordering::Less);
        assert_eq!(compare(b"1200", 1.2e3), Ordering::Equal);
    }
}
