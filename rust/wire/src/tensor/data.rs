//! A JSON `data` array, nested or flat, to the bytes of a tensor.

use bytemuck::{Pod, Zeroable};
use bytes::Bytes;
use half::{bf16, f16};

use super::aligned;
use super::json_scan::{excerpt, Fault, Scanner};
use super::number::{Misfit, Number};
use super::plain::Plain;
use crate::datatype::DataType;

/// Flattened elements in the machine's byte order; BYTES elements with their length prefixes.
pub struct Parsed {
    pub count: u64,
    pub bytes: Bytes,
}

/// Parse the array at the scanner. `expected` elements, if known, size the buffer; the count is not checked here.
pub fn parse(scanner: &mut Scanner<'_>, datatype: DataType, expected: Option<u64>) -> Result<Parsed, Fault> {
    match datatype {
        DataType::Bool => elements::<Truth>(scanner, expected),
        DataType::Uint8 => elements::<u8>(scanner, expected),
        DataType::Uint16 => elements::<u16>(scanner, expected),
        DataType::Uint32 => elements::<u32>(scanner, expected),
        DataType::Uint64 => elements::<u64>(scanner, expected),
        DataType::Int8 => elements::<i8>(scanner, expected),
        DataType::Int16 => elements::<i16>(scanner, expected),
        DataType::Int32 => elements::<i32>(scanner, expected),
        DataType::Int64 => elements::<i64>(scanner, expected),
        DataType::Fp16 => elements::<Half>(scanner, expected),
        DataType::Bf16 => elements::<Brain>(scanner, expected),
        DataType::Fp32 => elements::<f32>(scanner, expected),
        DataType::Fp64 => elements::<f64>(scanner, expected),
        DataType::Bytes => strings(scanner, expected),
    }
}

fn elements<T: Element>(scanner: &mut Scanner<'_>, expected: Option<u64>) -> Result<Parsed, Fault> {
    let most = scanner.limits.max_data_bytes / size_of::<T>();
    let mut out: Vec<T> = Vec::with_capacity(capacity(scanner, expected).min(most));
    walk(scanner, |scanner| {
        if !T::read_plain(scanner, &mut out, most) {
            out.push(T::read(scanner)?);
        }
        check_size(scanner, out.len() <= most)
    })?;
    Ok(Parsed { count: out.len() as u64, bytes: aligned::from_vec(out) })
}

fn strings(scanner: &mut Scanner<'_>, expected: Option<u64>) -> Result<Parsed, Fault> {
    let mut out: Vec<u8> = Vec::with_capacity(capacity(scanner, expected).saturating_mul(16).min(scanner.remaining()));
    let mut count = 0;
    walk(scanner, |scanner| {
        count += 1;
        string(scanner, &mut out)?;
        check_size(scanner, out.len() <= scanner.limits.max_data_bytes)
    })?;
    Ok(Parsed { count, bytes: out.into() })
}

fn string(scanner: &mut Scanner<'_>, out: &mut Vec<u8>) -> Result<(), Fault> {
    if scanner.peek() != b'"' {
        return Err(scanner.unexpected("a string for BYTES"));
    }
    let start = scanner.at();
    let prefix = out.len();
    out.extend_from_slice(&[0; 4]);
    scanner.string_into(out)?;
    let length =
        u32::try_from(out.len() - prefix - 4).map_err(|_| Fault::new(start, "the string is 4 GiB or longer"))?;
    out[prefix..prefix + 4].copy_from_slice(&length.to_le_bytes());
    Ok(())
}

fn check_size(scanner: &Scanner<'_>, fits: bool) -> Result<(), Fault> {
    if fits {
        return Ok(());
    }
    let limit = scanner.limits.max_data_bytes;
    let what = format!(
        "the tensor has a byte_size that exceeds the maximum allowed value of {limit} bytes. \
         Use --http-max-input-size to increase the limit. It was read"
    );
    Err(Fault::new(scanner.at(), what))
}

/// The expected elements, but never more than the text that is left can hold.
fn capacity(scanner: &Scanner<'_>, expected: Option<u64>) -> usize {
    let possible = scanner.remaining() / 2 + 1;
    let expected = expected.and_then(|count| usize::try_from(count).ok()).unwrap_or(16);
    expected.min(possible)
}

/// Call `element` at each element of the array, however deeply it is nested.
#[inline]
fn walk(
    scanner: &mut Scanner<'_>,
    mut element: impl FnMut(&mut Scanner<'_>) -> Result<(), Fault>,
) -> Result<(), Fault> {
    if scanner.peek() != b'[' {
        return Err(scanner.unexpected("an array"));
    }
    let outside = scanner.depth();
    let mut just_opened = false;
    loop {
        match scanner.peek() {
            b'[' => {
                scanner.open(b'[')?;
                just_opened = true;
                continue;
            }
            b']' if just_opened => scanner.close(),
            _ => element(scanner)?,
        }
        just_opened = false;
        if close_arrays(scanner, outside)? {
            return Ok(());
        }
    }
}

/// After an element or an array: the brackets that close here. True when the outermost was among them.
#[inline]
fn close_arrays(scanner: &mut Scanner<'_>, outside: u32) -> Result<bool, Fault> {
    while scanner.depth() > outside {
        match scanner.peek() {
            b',' => {
                scanner.bump();
                return Ok(false);
            }
            b']' => scanner.close(),
            _ => return Err(scanner.unexpected("',' or ']'")),
        }
    }
    Ok(true)
}

/// How the elements of a datatype are read.
trait Element: Pod + Send {
    /// The next element.
    fn read(scanner: &mut Scanner<'_>) -> Result<Self, Fault>;

    /// The next elements as far as they are plain numbers that fit; false when the next one is not.
    fn read_plain(_scanner: &mut Scanner<'_>, _out: &mut Vec<Self>, _most: usize) -> bool {
        false
    }
}

/// A number of any form converted by `convert`, with a message that names the datatype and the text.
#[inline(never)]
fn number<'a, T>(
    scanner: &mut Scanner<'a>,
    datatype: DataType,
    convert: impl Fn(Number<'a>) -> Result<T, Misfit>,
) -> Result<T, Fault> {
    if !matches!(scanner.peek(), b'-' | b'0'..=b'9' | b'N' | b'I') {
        return Err(scanner.unexpected(&format!("a number for {}", datatype.name())));
    }
    let number = scanner.number()?;
    convert(number).map_err(|misfit| misfit_fault(&number, datatype, misfit))
}

#[cold]
fn misfit_fault(number: &Number<'_>, datatype: DataType, misfit: Misfit) -> Fault {
    let text = excerpt(number.text);
    let what = match misfit {
        Misfit::NotAnInteger => format!("{text} is not an integer, as {} needs", datatype.name()),
        Misfit::OutOfRange => format!("{text} is out of range for {}", datatype.name()),
    };
    Fault::new(number.at, what)
}

macro_rules! integer_element {
    ($($kind:ty, $datatype:ident, $wide:ident;)*) => {$(
        impl Element for $kind {
            fn read(scanner: &mut Scanner<'_>) -> Result<Self, Fault> {
                number(scanner, DataType::$datatype, |number| {
                    Self::try_from(number.$wide()?).map_err(|_| Misfit::OutOfRange)
                })
            }

            #[inline]
            fn read_plain(scanner: &mut Scanner<'_>, out: &mut Vec<Self>, most: usize) -> bool {
                scanner.plain_numbers(out, most, |plain| Self::try_from(plain.$wide()?).ok())
            }
        }
    )*};
}

integer_element! {
    u8, Uint8, to_u64;
    u16, Uint16, to_u64;
    u32, Uint32, to_u64;
    u64, Uint64, to_u64;
    i8, Int8, to_i64;
    i16, Int16, to_i64;
    i32, Int32, to_i64;
    i64, Int64, to_i64;
}

impl Element for f32 {
    fn read(scanner: &mut Scanner<'_>) -> Result<Self, Fault> {
        number(scanner, DataType::Fp32, Number::to_f32)
    }

    #[inline]
    fn read_plain(scanner: &mut Scanner<'_>, out: &mut Vec<Self>, most: usize) -> bool {
        scanner.plain_numbers(out, most, Plain::to_f32)
    }
}

impl Element for f64 {
    fn read(scanner: &mut Scanner<'_>) -> Result<Self, Fault> {
        number(scanner, DataType::Fp64, Number::to_f64)
    }

    #[inline]
    fn read_plain(scanner: &mut Scanner<'_>, out: &mut Vec<Self>, most: usize) -> bool {
        scanner.plain_numbers(out, most, Plain::to_f64)
    }
}

/// The bits of an FP16 value.
#[derive(Clone, Copy, Pod, Zeroable)]
#[repr(transparent)]
struct Half(u16);

impl Element for Half {
    fn read(scanner: &mut Scanner<'_>) -> Result<Self, Fault> {
        number(scanner, DataType::Fp16, Number::to_f16).map(f16::to_bits).map(Self)
    }
}

/// The bits of a BF16 value.
#[derive(Clone, Copy, Pod, Zeroable)]
#[repr(transparent)]
struct Brain(u16);

impl Element for Brain {
    fn read(scanner: &mut Scanner<'_>) -> Result<Self, Fault> {
        number(scanner, DataType::Bf16, Number::to_bf16).map(bf16::to_bits).map(Self)
    }
}

/// A BOOL: 1 or 0, written as true or false, or as 1 or 0.
#[derive(Clone, Copy, Pod, Zeroable)]
#[repr(transparent)]
struct Truth(u8);

impl Element for Truth {
    fn read(scanner: &mut Scanner<'_>) -> Result<Self, Fault> {
        match scanner.peek() {
            b't' | b'f' => scanner.boolean().map(u8::from).map(Self),
            b'0'..=b'9' | b'-' => number(scanner, DataType::Bool, truth).map(Self),
            _ => Err(scanner.unexpected("true or false for BOOL")),
        }
    }
}

fn truth(number: Number<'_>) -> Result<u8, Misfit> {
    match number.to_u64()? {
        value @ (0 | 1) => Ok(u8::from(value == 1)),
        _ => Err(Misfit::OutOfRange),
    }
}
