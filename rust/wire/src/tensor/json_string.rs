//! JSON strings to bytes: escapes, surrogate pairs, and raw bytes above 0x7f passed through unchecked.

use std::borrow::Cow;

use super::json_scan::Fault;

const ONES: u64 = 0x0101_0101_0101_0101;
const HIGHS: u64 = 0x8080_8080_8080_8080;

/// A string whose opening quote has been taken. `at` ends behind the closing quote.
#[inline]
pub fn read<'a>(bytes: &'a [u8], at: &mut usize) -> Result<Cow<'a, [u8]>, Fault> {
    let start = *at;
    let end = plain_end(bytes, start);
    if bytes.get(end) == Some(&b'"') {
        *at = end + 1;
        return Ok(Cow::Borrowed(&bytes[start..end]));
    }
    let mut out = Vec::with_capacity(end - start + 16);
    read_into(bytes, at, &mut out)?;
    Ok(Cow::Owned(out))
}

/// As `read`, appended to `out`.
#[inline]
pub fn read_into(bytes: &[u8], at: &mut usize, out: &mut Vec<u8>) -> Result<(), Fault> {
    loop {
        let start = *at;
        let end = plain_end(bytes, start);
        out.extend_from_slice(&bytes[start..end]);
        *at = end;
        if !step(bytes, at, out)? {
            return Ok(());
        }
    }
}

/// Pass over a string, checking its escapes.
pub fn skip(bytes: &[u8], at: &mut usize) -> Result<(), Fault> {
    let mut scratch = Vec::new();
    loop {
        *at = plain_end(bytes, *at);
        scratch.clear();
        if !step(bytes, at, &mut scratch)? {
            return Ok(());
        }
    }
}

/// Deal with the byte that ended a plain run; false when it was the closing quote.
#[inline]
fn step(bytes: &[u8], at: &mut usize, out: &mut Vec<u8>) -> Result<bool, Fault> {
    match bytes.get(*at) {
        Some(b'"') => {
            *at += 1;
            Ok(false)
        }
        Some(b'\\') => {
            escape(bytes, at, out)?;
            Ok(true)
        }
        Some(byte) => Err(Fault::new(*at, format!("the control character 0x{byte:02x} must be escaped in a string"))),
        None => Err(Fault::new(*at, "the string has no closing quote")),
    }
}

/// The first offset from `start` on that holds a quote, a backslash or a control character, or the end.
#[inline]
pub fn plain_end(bytes: &[u8], start: usize) -> usize {
    let mut at = start;
    while let Some(chunk) = bytes.get(at..at + 8) {
        let word = u64::from_le_bytes(chunk.try_into().expect("eight bytes"));
        let hits = special_bytes(word);
        if hits != 0 {
            return at + hits.trailing_zeros() as usize / 8;
        }
        at += 8;
    }
    while at < bytes.len() && !matches!(bytes[at], b'"' | b'\\' | 0..=0x1f) {
        at += 1;
    }
    at
}

/// The high bit of each byte that ends a plain run; bits above the lowest one may be false alarms.
#[inline]
fn special_bytes(word: u64) -> u64 {
    let quote = word ^ (ONES * u64::from(b'"'));
    let backslash = word ^ (ONES * u64::from(b'\\'));
    let is_quote = quote.wrapping_sub(ONES) & !quote;
    let is_backslash = backslash.wrapping_sub(ONES) & !backslash;
    let is_control = word.wrapping_sub(ONES * 0x20) & !word;
    (is_quote | is_backslash | is_control) & HIGHS
}

/// The escape that starts at the backslash under `at`.
fn escape(bytes: &[u8], at: &mut usize, out: &mut Vec<u8>) -> Result<(), Fault> {
    let plain = match bytes.get(*at + 1) {
        Some(byte @ (b'"' | b'\\' | b'/')) => *byte,
        Some(b'b') => 0x08,
        Some(b'f') => 0x0c,
        Some(b'n') => b'\n',
        Some(b'r') => b'\r',
        Some(b't') => b'\t',
        Some(b'u') => return unicode_escape(bytes, at, out),
        _ => return Err(Fault::new(*at, "the string has an escape that JSON does not know")),
    };
    out.push(plain);
    *at += 2;
    Ok(())
}

fn unicode_escape(bytes: &[u8], at: &mut usize, out: &mut Vec<u8>) -> Result<(), Fault> {
    let start = *at;
    let mut code = hex_unit(bytes, at)?;
    if (0xd800..0xdc00).contains(&code) && bytes.get(*at..*at + 2) == Some(b"\\u") {
        let low = hex_unit(bytes, at)?;
        if (0xdc00..0xe000).contains(&low) {
            code = 0x1_0000 + ((code - 0xd800) << 10) + (low - 0xdc00);
        }
    }
    let character = char::from_u32(code).ok_or_else(|| {
        Fault::new(start, format!("the string has a lone surrogate (\\u{code:04x}), which is no text"))
    })?;
    out.extend_from_slice(character.encode_utf8(&mut [0; 4]).as_bytes());
    Ok(())
}

/// The four hex digits of `\uXXXX` at `at`, which ends behind them.
fn hex_unit(bytes: &[u8], at: &mut usize) -> Result<u32, Fault> {
    let digits = bytes.get(*at + 2..*at + 6).unwrap_or_default();
    let mut unit = 0;
    for &digit in digits {
        let value = char::from(digit).to_digit(16).ok_or_else(|| bad_hex(*at))?;
        unit = unit * 16 + value;
    }
    if digits.is_empty() {
        return Err(bad_hex(*at));
    }
    *at += 6;
    Ok(unit)
}

fn bad_hex(at: usize) -> Fault {
    Fault::new(at, "\\u in a string needs four hexadecimal digits")
}
