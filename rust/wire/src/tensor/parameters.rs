//! `parameters` objects: values are booleans, integers, doubles or strings.

use super::json_scan::{excerpt, Fault, Scanner};
use super::json_write;
use super::known::Known;
use super::number::Number;
use crate::call::{Parameter, Parameters};

/// Read the object at the scanner. Of equal keys the first one counts.
pub fn read(scanner: &mut Scanner<'_>) -> Result<Parameters, Fault> {
    let (mut parameters, mut known) = (Parameters::new(), Known::default());
    if scanner.peek() != b'{' {
        return Err(scanner.unexpected("an object"));
    }
    scanner.open(b'{')?;
    let mut first = true;
    while let Some(key) = scanner.next_key(&mut first)? {
        let key = text(scanner, &key)?;
        let value = value(scanner, &key)?;
        if known.place(&parameters, &key).is_none() {
            if parameters.len() == scanner.limits.max_parameters {
                return Err(Fault::new(scanner.at(), too_many(parameters.len())));
            }
            parameters.push((key, value));
        }
    }
    Ok(parameters)
}

/// A sentence for more parameters than may be.
#[cold]
pub fn too_many(limit: usize) -> String {
    format!("there are more than {limit} parameters. Use --request-max-parameters to increase the limit.")
}

/// Bytes of a JSON string that must be text.
pub fn text(scanner: &Scanner<'_>, bytes: &[u8]) -> Result<String, Fault> {
    let checked = std::str::from_utf8(bytes).map_err(|_| Fault::new(scanner.at(), "the string is not valid UTF-8"))?;
    Ok(checked.to_owned())
}

fn value(scanner: &mut Scanner<'_>, key: &str) -> Result<Parameter, Fault> {
    match scanner.peek() {
        b't' | b'f' => scanner.boolean().map(Parameter::Bool),
        b'"' => {
            let bytes = scanner.string()?;
            text(scanner, &bytes).map(Parameter::String)
        }
        b'-' | b'0'..=b'9' | b'N' | b'I' => {
            let number = scanner.number()?;
            numeric(&number).ok_or_else(|| out_of_range(&number, key))
        }
        b'{' | b'[' | b'n' => Err(invalid_type(scanner, key)),
        _ => Err(scanner.unexpected("a value")),
    }
}

fn numeric(number: &Number<'_>) -> Option<Parameter> {
    if !number.is_integral() {
        return number.to_f64().ok().map(Parameter::Double);
    }
    number.to_i64().map(Parameter::Int).or_else(|_| number.to_u64().map(Parameter::Uint)).ok()
}

/// A value as JSON has it, for messages.
#[cold]
pub fn written(value: &Parameter) -> String {
    let mut json = Vec::new();
    json_write::parameter(&mut json, value);
    excerpt(&json)
}

#[cold]
fn invalid_type(scanner: &mut Scanner<'_>, key: &str) -> Fault {
    let (key, got) = (excerpt(key.as_bytes()), scanner.describe_next());
    Fault::new(
        scanner.at(),
        format!("parameter '{key}' has invalid type: a bool, int, double or string may stand here, got {got}"),
    )
}

#[cold]
fn out_of_range(number: &Number<'_>, key: &str) -> Fault {
    let (key, written) = (excerpt(key.as_bytes()), excerpt(number.text));
    Fault::new(number.at, format!("parameter '{key}' is out of range: {written} fits neither 64 bits nor a double"))
}
