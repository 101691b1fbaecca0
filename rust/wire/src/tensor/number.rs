//! JSON number tokens, and their values as each numeric datatype, rounded once and range-checked.

use std::cmp::Ordering;

use half::{bf16, f16};

use super::json_scan::Fault;

/// Digits that a u64 always holds.
const MAX_EXACT_DIGITS: usize = 19;
/// Exponents beyond this say nothing new about any float.
const EXPONENT_CAP: i32 = 100_000;

/// A number token: `text` as written, and mantissa × 10^exponent unless `long` (then only the text is exact).
#[derive(Clone, Copy, Debug)]
pub struct Number<'a> {
    pub at: usize,
    pub text: &'a [u8],
    negative: bool,
    mantissa: u64,
    exponent: i32,
    long: bool,
    integral: bool,
    special: Option<f64>,
}

/// Why a number has no value in a datatype.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Misfit {
    NotAnInteger,
    OutOfRange,
}

/// Read the token at `at`, which ends behind it.
#[inline]
pub fn scan<'a>(bytes: &'a [u8], at: &mut usize) -> Result<Number<'a>, Fault> {
    let start = *at;
    let mut cursor = start;
    let negative = bytes.get(cursor) == Some(&b'-');
    cursor += usize::from(negative);
    if !bytes.get(cursor).is_some_and(u8::is_ascii_digit) {
        return special(bytes, at, negative);
    }
    let whole_start = cursor;
    let mut mantissa = 0;
    take_digits(bytes, &mut cursor, &mut mantissa);
    let mut digits = cursor - whole_start;
    if bytes[whole_start] == b'0' && digits > 1 {
        return Err(Fault::new(start, "a number must not start with a superfluous 0"));
    }
    let (mut exponent, mut integral) = (0, true);
    if bytes.get(cursor) == Some(&b'.') {
        cursor += 1;
        let fraction = required_digits(bytes, &mut cursor, &mut mantissa)?;
        exponent = -i32::try_from(fraction).unwrap_or(EXPONENT_CAP);
        digits += fraction;
        integral = false;
    }
    if let Some(b'e' | b'E') = bytes.get(cursor) {
        cursor += 1;
        exponent = exponent.saturating_add(written_exponent(bytes, &mut cursor)?);
        integral = false;
    }
    *at = cursor;
    let text = &bytes[start..cursor];
    let long = digits > MAX_EXACT_DIGITS;
    Ok(Number { at: start, text, negative, mantissa, exponent, long, integral, special: None })
}

/// Wraps around for more digits than fit; the caller counts them.
#[inline]
fn take_digits(bytes: &[u8], cursor: &mut usize, mantissa: &mut u64) {
    while let Some(digit) = bytes.get(*cursor).map(|byte| byte.wrapping_sub(b'0')).filter(|&digit| digit < 10) {
        *mantissa = mantissa.wrapping_mul(10).wrapping_add(u64::from(digit));
        *cursor += 1;
    }
}

#[inline]
fn required_digits(bytes: &[u8], cursor: &mut usize, mantissa: &mut u64) -> Result<usize, Fault> {
    let start = *cursor;
    take_digits(bytes, cursor, mantissa);
    if *cursor == start {
        return Err(Fault::new(start, "the number lacks a digit here"));
    }
    Ok(*cursor - start)
}

fn written_exponent(bytes: &[u8], cursor: &mut usize) -> Result<i32, Fault> {
    let sign = bytes.get(*cursor).copied();
    *cursor += usize::from(matches!(sign, Some(b'+' | b'-')));
    let (start, mut value) = (*cursor, 0);
    required_digits(bytes, cursor, &mut value)?;
    let significant = bytes[start..*cursor].iter().skip_while(|&&byte| byte == b'0').count();
    let capped = if significant > 9 { EXPONENT_CAP } else { i32::try_from(value).unwrap_or(EXPONENT_CAP) };
    let capped = capped.min(EXPONENT_CAP);
    Ok(if sign == Some(b'-') { -capped } else { capped })
}

/// NaN and the infinities, also in the short spelling `Inf`.
fn special<'a>(bytes: &'a [u8], at: &mut usize, negative: bool) -> Result<Number<'a>, Fault> {
    let start = *at;
    let rest = &bytes[start + usize::from(negative)..];
    let tokens = [("NaN", f64::NAN), ("Infinity", f64::INFINITY), ("Inf", f64::INFINITY)];
    let Some((token, value)) = tokens.into_iter().find(|(token, _)| rest.starts_with(token.as_bytes())) else {
        return Err(Fault::new(start, if negative { "a minus sign without a number" } else { "expected a number" }));
    };
    *at = start + usize::from(negative) + token.len();
    let special = Some(if negative && !value.is_nan() { -value } else { value });
    let text = &bytes[start..*at];
    Ok(Number { at: start, text, negative, mantissa: 0, exponent: 0, long: false, integral: false, special })
}

const POWERS: [f64; 23] = [
    1e0, 1e1, 1e2, 1e3, 1e4, 1e5, 1e6, 1e7, 1e8, 1e9, 1e10, 1e11, 1e12, 1e13, 1e14, 1e15, 1e16, 1e17, 1e18, 1e19, 1e20,
    1e21, 1e22,
];

/// What an f32 tie between two neighbours looks like in the 29 bits that an f64 has more.
const F32_TIE: u64 = 1 << 28;
const F32_EXTRA_BITS: u64 = (1 << 29) - 1;

impl Number<'_> {
    /// Written without fraction and exponent.
    pub fn is_integral(&self) -> bool {
        self.integral
    }

    pub fn to_f64(self) -> Result<f64, Misfit> {
        if let Some(special) = self.special {
            return Ok(special);
        }
        finite(self.nearest_f64(), f64::is_finite)
    }

    #[inline]
    pub fn to_f32(self) -> Result<f32, Misfit> {
        match self.exact_f64() {
            Some(value) if decides_f32(value) => Ok(narrow(value)),
            _ => self.to_f32_slowly(),
        }
    }

    fn to_f32_slowly(self) -> Result<f32, Misfit> {
        if let Some(special) = self.special {
            return Ok(narrow(special));
        }
        finite(fast_float2::parse(self.text).unwrap_or(f32::NAN), f32::is_finite)
    }

    pub fn to_f16(self) -> Result<f16, Misfit> {
        self.to_half(f16::from_f32, f16::to_f32, f16::is_finite)
    }

    pub fn to_bf16(self) -> Result<bf16, Misfit> {
        self.to_half(bf16::from_f32, bf16::to_f32, bf16::is_finite)
    }

    /// Round to the nearest value of a 16-bit type, as if from the digits themselves.
    ///
    /// Going through f64 is right except where the f64 lies half-way between two neighbours while the digits do
    /// not: there a step of one f64 towards the digits decides the tie.
    fn to_half<T: Copy>(self, from: fn(f32) -> T, to: fn(T) -> f32, fits: fn(T) -> bool) -> Result<T, Misfit> {
        if let Some(special) = self.special {
            return Ok(from(narrow(special)));
        }
        let nearest = self.nearest_f64();
        let round = |value| from(narrow_to_odd(value));
        if nearest == 0.0 || nearest.is_infinite() {
            return finite(round(nearest), fits);
        }
        let (shrunk, grown) = (f64::from_bits(nearest.to_bits() - 1), f64::from_bits(nearest.to_bits() + 1));
        if to(round(shrunk)).to_bits() == to(round(grown)).to_bits() || self.is_exactly(nearest) {
            return finite(round(nearest), fits);
        }
        let digits = self.text.strip_prefix(b"-").unwrap_or(self.text);
        let decided = match super::decimal::compare(digits, nearest.abs()) {
            Ordering::Less => shrunk,
            Ordering::Equal => nearest,
            Ordering::Greater => grown,
        };
        finite(round(decided), fits)
    }

    /// Mantissa × 10^exponent is `value` without any rounding; a false may also mean "not known".
    fn is_exactly(&self, value: f64) -> bool {
        if self.exact_f64().is_none() {
            return false;
        }
        #[allow(clippy::cast_precision_loss)] // `exact_f64` has looked: at most 2^53
        let mantissa = self.mantissa as f64;
        let power = POWERS[self.exponent.unsigned_abs() as usize];
        let rest = match self.exponent {
            ..0 => value.abs().mul_add(power, -mantissa),
            _ => mantissa.mul_add(power, -value.abs()),
        };
        rest == 0.0
    }

    fn nearest_f64(&self) -> f64 {
        // The scanner's grammar is a part of the parser's, so there is always a value.
        self.exact_f64().unwrap_or_else(|| fast_float2::parse(self.text).unwrap_or(f64::NAN))
    }

    /// Mantissa and power of ten are exact in f64, so one operation rounds correctly (Clinger).
    #[inline]
    fn exact_f64(&self) -> Option<f64> {
        let power = *POWERS.get(self.exponent.unsigned_abs() as usize)?;
        if self.long || self.mantissa > 1 << 53 || self.special.is_some() {
            return None;
        }
        #[allow(clippy::cast_precision_loss)] // at most 2^53: exact
        let mantissa = self.mantissa as f64;
        let value = if self.exponent < 0 { mantissa / power } else { mantissa * power };
        Some(if self.negative { -value } else { value })
    }

    #[inline]
    pub fn to_u64(self) -> Result<u64, Misfit> {
        if !self.integral {
            return Err(Misfit::NotAnInteger);
        }
        let magnitude = self.magnitude()?;
        if self.negative && magnitude != 0 {
            return Err(Misfit::OutOfRange);
        }
        Ok(magnitude)
    }

    #[inline]
    pub fn to_i64(self) -> Result<i64, Misfit> {
        if !self.integral {
            return Err(Misfit::NotAnInteger);
        }
        let magnitude = i128::from(self.magnitude()?);
        i64::try_from(if self.negative { -magnitude } else { magnitude }).map_err(|_| Misfit::OutOfRange)
    }

    #[inline]
    fn magnitude(&self) -> Result<u64, Misfit> {
        if !self.long {
            return Ok(self.mantissa);
        }
        let digits = self.text.strip_prefix(b"-").unwrap_or(self.text);
        std::str::from_utf8(digits).ok().and_then(|digits| digits.parse().ok()).ok_or(Misfit::OutOfRange)
    }
}

fn finite<T: Copy>(value: T, fits: impl Fn(T) -> bool) -> Result<T, Misfit> {
    if fits(value) {
        Ok(value)
    } else {
        Err(Misfit::OutOfRange)
    }
}

#[allow(clippy::cast_possible_truncation)] // rounding to f32 is what it is for
fn narrow(value: f64) -> f32 {
    value as f32
}

/// Rounds to the f32 whose last bit is odd unless `value` is an f32: what is then rounded to 16 bits is rounded once.
///
/// (`half` has a `from_f64`, which forgets the low bits before it rounds.)
fn narrow_to_odd(value: f64) -> f32 {
    let nearest = narrow(value);
    let widened = f64::from(nearest);
    if widened.to_bits() == value.to_bits() {
        return nearest;
    }
    let towards_zero = nearest.to_bits() - u32::from(widened.abs() > value.abs());
    f32::from_bits(towards_zero | 1)
}

/// A correctly rounded f64 rounds to the right f32 unless it lies on a tie; zero, subnormals and the top are left out.
#[inline]
fn decides_f32(value: f64) -> bool {
    let magnitude = value.abs();
    let plain_range = (1.2e-38..3.4e38).contains(&magnitude);
    plain_range && value.to_bits() & F32_EXTRA_BITS != F32_TIE
}
