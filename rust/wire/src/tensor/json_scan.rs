//! A cursor over JSON bytes: whitespace, brackets, keys, strings, and skipping what nobody asked for.
//!
//! Strict JSON, with two additions that the protocol's clients rely on: the tokens `NaN`, `Infinity` and
//! `-Infinity` count as numbers, and bytes above 0x7f inside strings are passed through without a UTF-8 check.

use std::borrow::Cow;

use super::json_string;
use super::number::{self, Number};
use super::plain::{self, Plain};
use crate::options::RequestLimits;

/// Arrays and objects inside one another, the document's own object counted.
pub const MAX_DEPTH: u32 = 100;

/// What is wrong, and the byte offset where it was seen.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Fault {
    pub at: usize,
    pub what: Cow<'static, str>,
}

impl Fault {
    pub fn new(at: usize, what: impl Into<Cow<'static, str>>) -> Self {
        Self { at, what: what.into() }
    }
}

/// A cursor over one JSON document. Copying it is cheap and marks a place to come back to.
#[derive(Clone, Copy)]
pub struct Scanner<'a> {
    pub limits: RequestLimits,
    bytes: &'a [u8],
    at: usize,
    depth: u32,
}

impl<'a> Scanner<'a> {
    pub fn new(bytes: &'a [u8], limits: RequestLimits) -> Self {
        Self { limits, bytes, at: 0, depth: 0 }
    }

    /// Offset of the next byte that has not been read.
    pub fn at(&self) -> usize {
        self.at
    }

    pub fn depth(&self) -> u32 {
        self.depth
    }

    /// Bytes that are left: a bound for what any value that follows can hold.
    pub fn remaining(&self) -> usize {
        self.bytes.len() - self.at
    }

    /// The next byte that is not whitespace, without taking it; 0 at the end (which no value starts with).
    #[inline]
    pub fn peek(&mut self) -> u8 {
        self.at = skip_whitespace(self.bytes, self.at);
        self.bytes.get(self.at).copied().unwrap_or(0)
    }

    /// Take the byte that `peek` returned.
    #[inline]
    pub fn bump(&mut self) {
        self.at += 1;
    }

    #[inline]
    pub fn expect(&mut self, wanted: u8) -> Result<(), Fault> {
        if self.peek() != wanted {
            return Err(self.unexpected(&format!("'{}'", char::from(wanted))));
        }
        self.bump();
        Ok(())
    }

    /// Take `[` or `{`.
    #[inline]
    pub fn open(&mut self, bracket: u8) -> Result<(), Fault> {
        self.expect(bracket)?;
        if self.depth == MAX_DEPTH {
            return Err(too_deep(self.at - 1));
        }
        self.depth += 1;
        Ok(())
    }

    /// Take the closing bracket that `peek` has just returned.
    #[inline]
    pub fn close(&mut self) {
        self.bump();
        self.depth -= 1;
    }

    /// Go to the next member of an open object: its key, or None after taking the `}`.
    #[inline]
    pub fn next_key(&mut self, first: &mut bool) -> Result<Option<Cow<'a, [u8]>>, Fault> {
        if !self.next(first, b'}')? {
            return Ok(None);
        }
        if self.peek() != b'"' {
            return Err(self.unexpected("a key in double quotes"));
        }
        let key = self.string()?;
        self.expect(b':')?;
        Ok(Some(key))
    }

    /// Go to the next item of an open array; false after taking the `]`.
    #[inline]
    pub fn next_item(&mut self, first: &mut bool) -> Result<bool, Fault> {
        self.next(first, b']')
    }

    #[inline]
    fn next(&mut self, first: &mut bool, closing: u8) -> Result<bool, Fault> {
        let byte = self.peek();
        if *first {
            *first = false;
            if byte == closing {
                self.close();
                return Ok(false);
            }
            return Ok(true);
        }
        if byte == closing {
            self.close();
            return Ok(false);
        }
        if byte != b',' {
            return Err(self.unexpected(&format!("',' or '{}'", char::from(closing))));
        }
        self.bump();
        Ok(true)
    }

    /// A string's bytes with escapes resolved, borrowed where it has none. The next byte is its opening quote.
    #[inline]
    pub fn string(&mut self) -> Result<Cow<'a, [u8]>, Fault> {
        self.bump();
        json_string::read(self.bytes, &mut self.at)
    }

    /// As `string`, appended to `out`.
    #[inline]
    pub fn string_into(&mut self, out: &mut Vec<u8>) -> Result<(), Fault> {
        self.bump();
        json_string::read_into(self.bytes, &mut self.at, out)
    }

    /// The number, or NaN or Infinity token, that starts at the next byte.
    #[inline]
    pub fn number(&mut self) -> Result<Number<'a>, Fault> {
        self.peek();
        number::scan(self.bytes, &mut self.at)
    }

    /// Append the plain numbers that stand here, separated by commas, as long as `convert` has a value for them.
    /// Ends behind the last one that was appended, at the latest when `out` has more than `most`. False when there was none.
    #[inline]
    pub fn plain_numbers<T>(&mut self, out: &mut Vec<T>, most: usize, convert: impl Fn(Plain) -> Option<T>) -> bool {
        let mut end = None;
        let mut at = skip_whitespace(self.bytes, self.at);
        while let Some((value, behind)) = plain::scan(self.bytes, at, &convert) {
            out.push(value);
            end = Some(behind);
            at = skip_whitespace(self.bytes, behind);
            if self.bytes.get(at) != Some(&b',') || out.len() > most {
                break;
            }
            at = skip_whitespace(self.bytes, at + 1);
        }
        self.at = end.unwrap_or(self.at);
        end.is_some()
    }

    /// Take `true` or `false`.
    pub fn boolean(&mut self) -> Result<bool, Fault> {
        let value = self.peek() == b't';
        self.word(if value { "true" } else { "false" })?;
        Ok(value)
    }

    pub fn word(&mut self, word: &'static str) -> Result<(), Fault> {
        self.peek();
        if !self.bytes[self.at..].starts_with(word.as_bytes()) {
            return Err(self.unexpected(word));
        }
        self.at += word.len();
        Ok(())
    }

    /// Pass over one value of any kind, checking its syntax.
    pub fn skip_value(&mut self) -> Result<(), Fault> {
        match self.peek() {
            b'{' => self.skip_object(),
            b'[' => self.skip_array(),
            b'"' => {
                self.bump();
                json_string::skip(self.bytes, &mut self.at)
            }
            b't' | b'f' => self.boolean().map(drop),
            b'n' => self.word("null"),
            b'-' | b'N' | b'I' | b'0'..=b'9' => self.number().map(drop),
            _ => Err(self.unexpected("a value")),
        }
    }

    // `open` bounds how deep these two call one another.
    fn skip_object(&mut self) -> Result<(), Fault> {
        self.open(b'{')?;
        let mut first = true;
        while self.next_key(&mut first)?.is_some() {
            self.skip_value()?;
        }
        Ok(())
    }

    fn skip_array(&mut self) -> Result<(), Fault> {
        self.open(b'[')?;
        let mut first = true;
        while self.next_item(&mut first)? {
            self.skip_value()?;
        }
        Ok(())
    }

    /// Nothing but whitespace may follow.
    pub fn finish(&mut self) -> Result<(), Fault> {
        self.peek();
        if self.remaining() > 0 {
            return Err(self.unexpected("the end of the document"));
        }
        Ok(())
    }

    /// A fault at the next byte: "expected a value, got ']'".
    #[cold]
    pub fn unexpected(&mut self, wanted: &str) -> Fault {
        let got = self.describe_next();
        Fault::new(self.at, format!("expected {wanted}, got {got}"))
    }

    /// The next thing in words, for messages.
    #[cold]
    pub fn describe_next(&mut self) -> String {
        match self.peek() {
            _ if self.remaining() == 0 => "the end".to_owned(),
            b'{' => "an object".to_owned(),
            b'[' => "an array".to_owned(),
            b'"' => "a string".to_owned(),
            b'-' | b'0'..=b'9' => "a number".to_owned(),
            byte if byte.is_ascii_alphabetic() => self.next_word(),
            byte if byte.is_ascii_graphic() => format!("'{}'", char::from(byte)),
            byte => format!("the byte 0x{byte:02x}"),
        }
    }

    fn next_word(&self) -> String {
        let word = self.bytes[self.at..].iter().take(16).take_while(|byte| byte.is_ascii_alphanumeric());
        format!("'{}'", word.map(|&byte| char::from(byte)).collect::<String>())
    }
}

/// Text of a client for a message, cut where it gets long.
#[cold]
pub fn excerpt(text: &[u8]) -> String {
    const LONGEST: usize = 60;
    let shown = String::from_utf8_lossy(&text[..text.len().min(LONGEST)]);
    if text.len() > LONGEST {
        format!("{shown}...")
    } else {
        shown.into_owned()
    }
}

#[inline]
fn skip_whitespace(bytes: &[u8], mut at: usize) -> usize {
    while let Some(&byte) = bytes.get(at) {
        if byte > b' ' || !matches!(byte, b' ' | b'\n' | b'\r' | b'\t') {
            break;
        }
        at += 1;
    }
    at
}

#[cold]
fn too_deep(at: usize) -> Fault {
    Fault::new(at, format!("JSON nesting depth exceeds maximum allowed limit ({MAX_DEPTH})"))
}
