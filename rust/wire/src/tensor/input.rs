//! One item of a request's `inputs`, as JSON.

use bytes::Bytes;

use super::check;
use super::data::{self, Parsed};
use super::json_scan::{excerpt, Fault, Scanner};
use super::parameters::{self, text};
use crate::call::{InputTensor, Parameter, Parameters};
use crate::datatype::DataType;
use crate::reply::Failure;

/// An input as the header has it. Its data is empty as yet when it follows the JSON or lies in shared memory.
pub struct HeaderInput {
    pub tensor: InputTensor,
    /// How many bytes of the binary tail are this input's.
    pub binary_size: Option<u64>,
}

/// A fault of the JSON, or one of the tensor it describes.
pub enum Trouble {
    Syntax(Fault),
    Tensor(Failure),
}

impl From<Fault> for Trouble {
    fn from(fault: Fault) -> Self {
        Self::Syntax(fault)
    }
}

impl From<Failure> for Trouble {
    fn from(failure: Failure) -> Self {
        Self::Tensor(failure)
    }
}

/// The members of the object as far as they have been read.
#[derive(Default)]
struct Fields<'a> {
    name: Option<String>,
    datatype: Option<DataType>,
    shape: Option<Vec<i64>>,
    parameters: Option<Parameters>,
    data: Option<Data<'a>>,
}

enum Data<'a> {
    /// `data` came before `datatype`: where it starts.
    Unread(Scanner<'a>),
    Read(Parsed),
}

/// Read the object at the scanner; `index` names it in messages until its name is known.
pub fn read(scanner: &mut Scanner<'_>, model: &str, index: usize) -> Result<HeaderInput, Trouble> {
    let start = scanner.at();
    let mut fields = Fields::default();
    if let Err(fault) = fields.read(scanner) {
        return Err(in_input(&fault, fields.name.as_deref(), index).into());
    }
    fields.finish(model, index, start)
}

/// Say which input a fault is in.
#[cold]
fn in_input(fault: &Fault, name: Option<&str>, index: usize) -> Fault {
    let place = name.map_or_else(|| format!("inputs[{index}]"), |name| format!("input '{}'", excerpt(name.as_bytes())));
    Fault::new(fault.at, format!("{place}, {}", fault.what))
}

/// Say which field a fault is in.
#[cold]
fn in_field(fault: &Fault, field: &str) -> Fault {
    Fault::new(fault.at, format!("'{field}': {}", fault.what))
}

impl<'a> Fields<'a> {
    fn read(&mut self, scanner: &mut Scanner<'a>) -> Result<(), Fault> {
        scanner.open(b'{')?;
        let mut first = true;
        while let Some(key) = scanner.next_key(&mut first)? {
            self.read_member(scanner, &key).map_err(|fault| in_field(&fault, &excerpt(&key)))?;
        }
        Ok(())
    }

    fn read_member(&mut self, scanner: &mut Scanner<'a>, key: &[u8]) -> Result<(), Fault> {
        match key {
            b"name" if self.name.is_none() => self.name = Some(string(scanner)?),
            b"datatype" if self.datatype.is_none() => self.datatype = Some(datatype(scanner)?),
            b"shape" if self.shape.is_none() => self.shape = Some(shape(scanner)?),
            b"parameters" if self.parameters.is_none() => self.parameters = Some(parameters::read(scanner)?),
            b"data" if self.data.is_none() => self.data = Some(self.read_data(scanner)?),
            _ => scanner.skip_value()?,
        }
        Ok(())
    }

    fn read_data(&self, scanner: &mut Scanner<'a>) -> Result<Data<'a>, Fault> {
        let Some(datatype) = self.datatype else {
            scanner.peek();
            let start = *scanner;
            scanner.skip_value()?;
            return Ok(Data::Unread(start));
        };
        data::parse(scanner, datatype, self.expected_count()).map(Data::Read)
    }

    /// A guess for the size of a buffer.
    fn expected_count(&self) -> Option<u64> {
        let dims = self.shape.as_ref()?;
        dims.iter().try_fold(1_u64, |count, &dim| count.checked_mul(u64::try_from(dim).ok()?))
    }

    /// All members are there and agree.
    fn finish(mut self, model: &str, index: usize, start: usize) -> Result<HeaderInput, Trouble> {
        let expected = self.expected_count();
        let name = required(self.name.take(), "name", None, index, start)?;
        let datatype = required(self.datatype, "datatype", Some(&name), index, start)?;
        let shape = required(self.shape.take(), "shape", Some(&name), index, start)?;
        let mut parameters = self.parameters.unwrap_or_default();
        let binary_size = take_binary_size(&mut parameters, &name, start)?;
        let in_shared_memory = parameters.iter().any(|(key, _)| key == "shared_memory_region");
        check_one_source(model, &name, self.data.is_some(), binary_size.is_some(), in_shared_memory)?;
        check::byte_size(model, &name, datatype, &shape)?;
        let bytes = match self.data {
            None => Bytes::new(),
            Some(data) => {
                let parsed = data.finish(datatype, expected).map_err(|fault| in_input(&fault, Some(&name), index))?;
                check_count(model, &name, &shape, parsed.count)?;
                parsed.bytes
            }
        };
        let tensor = InputTensor { name, datatype, shape, data: bytes, parameters };
        Ok(HeaderInput { tensor, binary_size })
    }
}

impl Data<'_> {
    fn finish(self, datatype: DataType, expected: Option<u64>) -> Result<Parsed, Fault> {
        match self {
            Self::Read(parsed) => Ok(parsed),
            Self::Unread(mut scanner) => {
                data::parse(&mut scanner, datatype, expected).map_err(|fault| in_field(&fault, "data"))
            }
        }
    }
}

fn required<T>(field: Option<T>, key: &str, name: Option<&str>, index: usize, start: usize) -> Result<T, Fault> {
    field.ok_or_else(|| in_input(&Fault::new(start, format!("'{key}' is missing")), name, index))
}

/// The text of a string.
pub fn string(scanner: &mut Scanner<'_>) -> Result<String, Fault> {
    if scanner.peek() != b'"' {
        return Err(scanner.unexpected("a string"));
    }
    let bytes = scanner.string()?;
    text(scanner, &bytes)
}

fn datatype(scanner: &mut Scanner<'_>) -> Result<DataType, Fault> {
    scanner.peek();
    let at = scanner.at();
    if scanner.peek() != b'"' {
        return Err(scanner.unexpected("a string"));
    }
    let bytes = scanner.string()?;
    let name = std::str::from_utf8(&bytes).unwrap_or_default();
    DataType::from_name(name).ok_or_else(|| Fault::new(at, unknown_datatype(&excerpt(&bytes))))
}

/// A sentence for a datatype that the protocol does not have.
#[cold]
pub fn unknown_datatype(name: &str) -> String {
    let known = DataType::ALL.map(DataType::name).join(", ");
    format!("'{name}' is no datatype; known are {known}")
}

fn shape(scanner: &mut Scanner<'_>) -> Result<Vec<i64>, Fault> {
    if scanner.peek() != b'[' {
        return Err(scanner.unexpected("an array of dims"));
    }
    scanner.open(b'[')?;
    let mut dims = Vec::with_capacity(4);
    let mut first = true;
    while scanner.next_item(&mut first)? {
        if dims.len() == check::MAX_DIMS {
            return Err(Fault::new(scanner.at(), format!("there are more than {} dims", check::MAX_DIMS)));
        }
        dims.push(dim(scanner)?);
    }
    Ok(dims)
}

fn dim(scanner: &mut Scanner<'_>) -> Result<i64, Fault> {
    const WANTED: &str = "a non-negative integer of at most 63 bits";
    if !matches!(scanner.peek(), b'-' | b'0'..=b'9') {
        return Err(scanner.unexpected(WANTED));
    }
    let number = scanner.number()?;
    let dim = number.to_u64().ok().and_then(|dim| i64::try_from(dim).ok());
    dim.ok_or_else(|| Fault::new(number.at, format!("expected {WANTED}, got {}", excerpt(number.text))))
}

fn take_binary_size(parameters: &mut Parameters, input: &str, start: usize) -> Result<Option<u64>, Fault> {
    match take(parameters, "binary_data_size") {
        None => Ok(None),
        Some(Parameter::Int(size)) if size >= 0 => Ok(Some(size.unsigned_abs())),
        Some(Parameter::Uint(size)) => Ok(Some(size)),
        Some(other) => Err(Fault::new(
            start,
            format!(
                "input '{input}', parameter 'binary_data_size' must be a non-negative integer, got {}",
                parameters::written(&other)
            ),
        )),
    }
}

/// Remove a parameter that the wire uses itself.
pub fn take(parameters: &mut Parameters, key: &str) -> Option<Parameter> {
    let index = parameters.iter().position(|(known, _)| known == key)?;
    Some(parameters.remove(index).1)
}

fn check_one_source(model: &str, input: &str, data: bool, binary: bool, shared: bool) -> Result<(), Failure> {
    if u8::from(data) + u8::from(binary) + u8::from(shared) == 1 {
        return Ok(());
    }
    let sources = [(data, "'data'"), (binary, "'binary_data_size'"), (shared, "'shared_memory_region'")];
    let set: Vec<&str> = sources.into_iter().filter(|(is_set, _)| *is_set).map(|(_, name)| name).collect();
    let got = if set.is_empty() { "none of them".to_owned() } else { set.join(" and ") };
    Err(check::invalid(format!(
        "input '{input}' for model '{model}' must set only one of 'data' and the parameters 'binary_data_size' and \
         'shared_memory_region'; it sets {got}"
    )))
}

fn check_count(model: &str, input: &str, shape: &[i64], got: u64) -> Result<(), Failure> {
    let expected = check::element_count(model, input, shape)?;
    if got == expected {
        return Ok(());
    }
    // Clients match on both phrases, which differ in their first letter.
    let phrase = if got < expected { "shape does not match true shape" } else { "Shape does not match true shape" };
    let shape = check::shape_text(shape);
    Err(check::invalid(format!(
        "{phrase} of 'data' field: input '{input}' for model '{model}' has shape {shape}, which is {expected} elements, \
         but 'data' holds {got}"
    )))
}
