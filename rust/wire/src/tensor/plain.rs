//! The fast path for numbers: plain decimals of up to 19 digits without an exponent, which is nearly all there are.
//!
//! It gives up (None) on everything else, right or wrong; `number` then reads the same text again.

const MAX_DIGITS: usize = 19;

/// mantissa / 10^fraction, and whether it was written without a point.
#[derive(Clone, Copy)]
pub struct Plain {
    negative: bool,
    mantissa: u64,
    fraction: usize,
    integral: bool,
}

/// `convert`'s value of the plain number at `at`, and the offset behind it.
#[inline]
pub fn scan<T>(bytes: &[u8], at: usize, convert: impl Fn(Plain) -> Option<T>) -> Option<(T, usize)> {
    let negative = bytes.get(at) == Some(&b'-');
    let start = at + usize::from(negative);
    let mut mantissa = 0;
    let mut end = take_few_digits(bytes, start, &mut mantissa);
    let mut digits = end - start;
    if digits == 0 || (digits > 1 && bytes[start] == b'0') {
        return None;
    }
    let (mut fraction, mut integral) = (0, true);
    if bytes.get(end) == Some(&b'.') {
        let behind = take_many_digits(bytes, end + 1, &mut mantissa);
        fraction = behind - end - 1;
        (digits, end, integral) = (digits + fraction, behind, false);
        if fraction == 0 {
            return None;
        }
    }
    if digits > MAX_DIGITS || !matches!(bytes.get(end), Some(b',' | b']' | b' ' | b'\n' | b'\r' | b'\t')) {
        return None;
    }
    Some((convert(Plain { negative, mantissa, fraction, integral })?, end))
}

const TENS: [u64; 8] = [1, 10, 100, 1_000, 10_000, 100_000, 1_000_000, 10_000_000];

/// Append the digits from `start` on to the mantissa; the offset behind them. Right for whole parts, which are short.
///
/// Wraps around for more digits than fit; `scan` counts them.
#[inline]
fn take_few_digits(bytes: &[u8], start: usize, mantissa: &mut u64) -> usize {
    let mut at = start;
    while let Some(digit) = bytes.get(at).map(|byte| byte.wrapping_sub(b'0')).filter(|&digit| digit < 10) {
        *mantissa = mantissa.wrapping_mul(10).wrapping_add(u64::from(digit));
        at += 1;
    }
    at
}

/// The same eight at a time: right for fractions, which are long (measured: 11 ns a number; with whole parts read this way too 15 ns).
#[inline]
fn take_many_digits(bytes: &[u8], start: usize, mantissa: &mut u64) -> usize {
    let mut at = start;
    while let Some(eight) = bytes.get(at..at + 8) {
        let word = u64::from_le_bytes(eight.try_into().expect("eight bytes"));
        let count = leading_digits(word);
        if count == 8 {
            *mantissa = mantissa.wrapping_mul(100_000_000).wrapping_add(eight_digits(word));
            at += 8;
            continue;
        }
        // Digits move to the end; zeros take their places in front.
        let digits = if count == 0 { 0 } else { eight_digits(word << (64 - 8 * count)) };
        *mantissa = mantissa.wrapping_mul(TENS[count]).wrapping_add(digits);
        return at + count;
    }
    take_few_digits(bytes, at, mantissa)
}

/// How many of the eight bytes, from the lowest on, are ASCII digits before the first that is none.
#[inline]
fn leading_digits(word: u64) -> usize {
    const HIGH_NIBBLES: u64 = 0xf0f0_f0f0_f0f0_f0f0;
    const ZEROS: u64 = 0x3030_3030_3030_3030;
    // Adding 6 moves ':' to '?' out of the column. A carry only reaches bytes behind one that is no digit.
    let shifted = word.wrapping_add(0x0606_0606_0606_0606);
    let others = ((word & HIGH_NIBBLES) ^ ZEROS) | ((shifted & HIGH_NIBBLES) ^ ZEROS);
    others.trailing_zeros() as usize / 8
}

/// The value of eight ASCII digits, the lowest byte first; zero bytes count as 0.
#[inline]
fn eight_digits(ascii: u64) -> u64 {
    // Pairs, then fours, then all eight: each step joins neighbours with one multiplication.
    let ones = ascii & 0x0f0f_0f0f_0f0f_0f0f;
    let pairs = (ones * 10 + (ones >> 8)) & 0x00ff_00ff_00ff_00ff;
    let fours = (pairs * 100 + (pairs >> 16)) & 0x0000_ffff_0000_ffff;
    (fours * 10_000 + (fours >> 32)) & 0xffff_ffff
}

const POWERS: [f64; 20] =
    [1e0, 1e1, 1e2, 1e3, 1e4, 1e5, 1e6, 1e7, 1e8, 1e9, 1e10, 1e11, 1e12, 1e13, 1e14, 1e15, 1e16, 1e17, 1e18, 1e19];

impl Plain {
    #[inline]
    pub fn to_i64(self) -> Option<i64> {
        let magnitude = i64::try_from(self.mantissa).ok().filter(|_| self.integral)?;
        Some(if self.negative { -magnitude } else { magnitude })
    }

    #[inline]
    pub fn to_u64(self) -> Option<u64> {
        (self.integral && !self.negative).then_some(self.mantissa)
    }

    /// Exact mantissa, exact power of ten, one correctly rounded division.
    #[inline]
    pub fn to_f64(self) -> Option<f64> {
        (self.mantissa <= 1 << 53).then(|| self.quotient())
    }

    /// The quotient is at most two units of f64 off, which decides the f32 unless a tie is about that near.
    #[inline]
    #[allow(clippy::cast_possible_truncation)] // rounding to f32 is what it is for
    pub fn to_f32(self) -> Option<f32> {
        const TIE: u64 = 1 << 28;
        const EXTRA_BITS: u64 = (1 << 29) - 1;
        let quotient = self.quotient();
        let distance = (quotient.to_bits() & EXTRA_BITS).abs_diff(TIE);
        (distance > 4).then_some(quotient as f32)
    }

    #[inline]
    #[allow(clippy::cast_precision_loss)] // accounted for by the callers
    fn quotient(self) -> f64 {
        let magnitude = self.mantissa as f64 / POWERS[self.fraction];
        if self.negative {
            -magnitude
        } else {
            magnitude
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn digits_are_counted_and_read() {
        for count in 0..8 {
            for other in (0..=255_u8).filter(|byte| !byte.is_ascii_digit()) {
                let mut ascii = *b"98765432";
                ascii[count] = other;
                assert_eq!(leading_digits(u64::from_le_bytes(ascii)), count, "{ascii:?}");
            }
        }
        for text in ["1", "12", "1234567", "12345678", "123456789", "1234567890123456789", "0000", "99999999"] {
            for behind in ["", ",", ".5,1.5,1.5", "]]]]]]]]]]"] {
                let mut mantissa = 0;
                let end = take_many_digits(format!("{text}{behind}").as_bytes(), 0, &mut mantissa);
                assert_eq!((end, mantissa), (text.len(), text.parse().unwrap()));
            }
        }
    }

    #[test]
    fn plain_numbers_only() {
        let value = |text: &str| scan(text.as_bytes(), 0, |plain| Some(plain.quotient()));
        assert_eq!(value("1.5,"), Some((1.5, 3)));
        assert_eq!(value("-0.1234567812345678]"), Some((-0.123_456_781_234_567_8, 19)));
        assert_eq!(value("9999999999999999999 "), Some((1e19, 19)));
        let others =
            ["", "-", "1", "1.5", "01,", "1.,", ".5,", "1e5,", "1.5e5,", "10000000000000000000,", "1}", "NaN,", "+1,"];
        for text in others {
            assert_eq!(value(text), None, "{text}");
        }
        assert_eq!(scan(b"1.0,", 0, Plain::to_i64), None);
        assert_eq!(scan(b"9223372036854775808,", 0, Plain::to_i64), None);
        assert_eq!(scan(b"-0,", 0, Plain::to_u64), None);
    }
}
