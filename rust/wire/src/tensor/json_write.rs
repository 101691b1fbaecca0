//! JSON values written the way Triton's clients see them: numbers, strings, parameters.

use super::json_string::plain_end;
use crate::call::{Parameter, Parameters};

/// Above this an f64 may be integral only because it has no bits left for a fraction.
const WHOLE_LIMIT: f64 = 1e15;
/// Below this numbers are written with an exponent, and from `EXPONENT_START` on.
const SMALL_START: f64 = 1e-6;
/// Between this and `WHOLE_LIMIT` the shortest-decimal crate writes plain decimals of itself.
const SMALL_END: f64 = 1e-4;
const EXPONENT_START: f64 = 1e21;

/// The shortest decimal that reads back as `value`: `0.1`, `5.0`, `1.5e30`, or a NaN, Infinity or -Infinity token.
#[inline]
pub fn float(out: &mut Vec<u8>, value: f64) {
    let magnitude = value.abs();
    if magnitude < WHOLE_LIMIT && value.trunc().to_bits() == value.to_bits() {
        return whole_float(out, value);
    }
    if !value.is_finite() {
        return out.extend_from_slice(special(value).as_bytes());
    }
    let mut buffer = zmij::Buffer::new();
    let shortest = buffer.format_finite(value);
    if (SMALL_END..WHOLE_LIMIT).contains(&magnitude) || magnitude < SMALL_START {
        out.extend_from_slice(shortest.as_bytes());
    } else if magnitude < EXPONENT_START {
        plain_decimal(out, shortest);
    } else {
        out.extend(shortest.bytes().filter(|&byte| byte != b'+'));
    }
}

#[inline]
fn whole_float(out: &mut Vec<u8>, value: f64) {
    if value == 0.0 && value.is_sign_negative() {
        out.push(b'-');
    }
    #[allow(clippy::cast_possible_truncation)] // integral and below 10^15
    integer(out, value as i64);
    out.extend_from_slice(b".0");
}

#[cold]
fn special(value: f64) -> &'static str {
    match (value.is_nan(), value > 0.0) {
        (true, _) => "NaN",
        (false, true) => "Infinity",
        (false, false) => "-Infinity",
    }
}

/// `1.25e-6` as `0.00000125`, `1.25e17` as `125000000000000000.0`; plain decimals stay.
fn plain_decimal(out: &mut Vec<u8>, shortest: &str) {
    let Some((mantissa, exponent)) = shortest.split_once('e') else {
        return out.extend_from_slice(shortest.as_bytes());
    };
    let unsigned = mantissa.trim_start_matches('-');
    if unsigned.len() < mantissa.len() {
        out.push(b'-');
    }
    let digits: Vec<u8> = unsigned.bytes().filter(u8::is_ascii_digit).collect();
    let point = exponent.parse::<isize>().unwrap_or(0) + 1;
    let Ok(whole) = usize::try_from(point) else {
        out.extend_from_slice(b"0.");
        out.resize(out.len() + point.unsigned_abs(), b'0');
        return out.extend_from_slice(&digits);
    };
    out.extend_from_slice(&digits[..whole.min(digits.len())]);
    out.resize(out.len() + whole.saturating_sub(digits.len()), b'0');
    out.push(b'.');
    match digits.get(whole..) {
        Some(fraction @ [_, ..]) => out.extend_from_slice(fraction),
        _ => out.push(b'0'),
    }
}

#[inline]
pub fn integer(out: &mut Vec<u8>, value: impl itoa::Integer) {
    out.extend_from_slice(itoa::Buffer::new().format(value).as_bytes());
}

pub fn boolean(out: &mut Vec<u8>, value: bool) {
    out.extend_from_slice(if value { b"true" } else { b"false" });
}

/// A string in quotes. Quotes, backslashes and control characters are escaped; bytes above 0x7f stay as they are.
pub fn string(out: &mut Vec<u8>, bytes: &[u8]) {
    out.push(b'"');
    let mut at = 0;
    loop {
        let end = plain_end(bytes, at);
        out.extend_from_slice(&bytes[at..end]);
        let Some(&byte) = bytes.get(end) else { break };
        escape(out, byte);
        at = end + 1;
    }
    out.push(b'"');
}

fn escape(out: &mut Vec<u8>, byte: u8) {
    const HEX: &[u8; 16] = b"0123456789ABCDEF";
    let short = match byte {
        b'"' | b'\\' => byte,
        0x08 => b'b',
        0x0c => b'f',
        b'\n' => b'n',
        b'\r' => b'r',
        b'\t' => b't',
        _ => {
            out.extend_from_slice(b"\\u00");
            return out.extend_from_slice(&[HEX[usize::from(byte >> 4)], HEX[usize::from(byte & 15)]]);
        }
    };
    out.extend_from_slice(&[b'\\', short]);
}

/// An object of parameters.
pub fn parameters(out: &mut Vec<u8>, parameters: &Parameters) {
    out.push(b'{');
    for (index, (key, value)) in parameters.iter().enumerate() {
        if index > 0 {
            out.push(b',');
        }
        string(out, key.as_bytes());
        out.push(b':');
        parameter(out, value);
    }
    out.push(b'}');
}

/// One parameter's value.
pub fn parameter(out: &mut Vec<u8>, value: &Parameter) {
    match value {
        Parameter::Bool(value) => boolean(out, *value),
        Parameter::Int(value) => integer(out, *value),
        Parameter::Uint(value) => integer(out, *value),
        Parameter::Double(value) => float(out, *value),
        Parameter::String(value) => string(out, value.as_bytes()),
    }
}
