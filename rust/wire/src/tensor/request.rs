//! A `KServe` v2 inference request over HTTP: a JSON header, and the binary tail behind it.

use bytes::Bytes;

use super::aligned;
use super::check;
use super::input::{self, HeaderInput, Trouble};
use super::json_scan::{Fault, Scanner};
use super::parameters;
use crate::call::{InputTensor, Parameter, Parameters, ParsedCall, RequestedOutput};
use crate::datatype::DataType;
use crate::options::RequestLimits;
use crate::reply::Failure;

/// What models must not be sent by clients.
const RESERVED_PREFIX: &str = "triton_";

/// Some clients of Windows write it before their JSON.
const BYTE_ORDER_MARK: &[u8] = b"\xef\xbb\xbf";

/// The largest item of any datatype, for bytes whose datatype is not known yet.
const WIDEST_ITEM: usize = 8;

/// Decode a body whose first `json_length` bytes are the JSON header; what follows are binary inputs.
///
/// Never fails: what is wrong with the body is the call's `defect`. Binary inputs are slices of `body`, copied once only
/// where their address does not suit their datatype.
pub fn decode_request(
    model_name: &str,
    model_version: &str,
    body: &Bytes,
    json_length: usize,
    limits: RequestLimits,
) -> ParsedCall {
    let mut call = empty_call(model_name, model_version);
    let json = &body[..json_length.min(body.len())];
    let tail = body.slice(json.len()..);
    let text = json.strip_prefix(BYTE_ORDER_MARK).unwrap_or(json);
    call.defect = fill(&mut call, model_name, Scanner::new(text, limits), tail).err();
    call
}

/// Decode a raw binary request: the whole body is the one input, whose name, datatype and shape the config tells.
pub fn decode_raw_request(model_name: &str, model_version: &str, body: Bytes) -> ParsedCall {
    let mut call = empty_call(model_name, model_version);
    let data = aligned::ensure(body, WIDEST_ITEM);
    let (name, parameters) = (String::new(), Parameters::new());
    call.inputs.push(InputTensor { name, datatype: DataType::Bytes, shape: Vec::new(), data, parameters });
    call.raw = true;
    call.binary_default = true;
    call
}

fn empty_call(model_name: &str, model_version: &str) -> ParsedCall {
    let (model_name, model_version) = (model_name.to_owned(), model_version.to_owned());
    ParsedCall { model_name, model_version, ..ParsedCall::default() }
}

fn fill(call: &mut ParsedCall, model: &str, json: Scanner<'_>, tail: Bytes) -> Result<(), Failure> {
    let mut header = Header { call, model, binary: Vec::new() };
    header.read(json).map_err(|trouble| failure_of(model, trouble))?;
    let binary = header.binary;
    attach_tail(model, &mut call.inputs, &binary, tail)
}

fn failure_of(model: &str, trouble: Trouble) -> Failure {
    match trouble {
        Trouble::Tensor(failure) => failure,
        Trouble::Syntax(Fault { at, what }) => {
            check::invalid(format!("the JSON of the request to model '{model}' is wrong: {what}, at byte {at}"))
        }
    }
}

/// Reads the header's members into the call.
struct Header<'c> {
    call: &'c mut ParsedCall,
    model: &'c str,
    /// Which inputs have their bytes in the tail, and how many.
    binary: Vec<(usize, u64)>,
}

impl Header<'_> {
    fn read(&mut self, mut scanner: Scanner<'_>) -> Result<(), Trouble> {
        let mut seen = Seen::default();
        if scanner.peek() != b'{' {
            return Err(scanner.unexpected("an object with 'inputs'").into());
        }
        scanner.open(b'{')?;
        let mut first = true;
        while let Some(key) = scanner.next_key(&mut first)? {
            match &*key {
                b"inputs" if seen.first(Seen::INPUTS) => self.inputs(&mut scanner)?,
                b"outputs" if seen.first(Seen::OUTPUTS) => self.outputs(&mut scanner)?,
                b"parameters" if seen.first(Seen::PARAMETERS) => self.parameters(&mut scanner)?,
                b"id" if seen.first(Seen::ID) => self.id(&mut scanner)?,
                _ => scanner.skip_value()?,
            }
        }
        scanner.finish()?;
        if seen.first(Seen::INPUTS) {
            return Err(Fault::new(scanner.at(), "'inputs' is missing").into());
        }
        Ok(())
    }

    fn id(&mut self, scanner: &mut Scanner<'_>) -> Result<(), Fault> {
        self.call.id = input::string(scanner).map_err(|fault| in_field(&fault, "'id'"))?;
        Ok(())
    }

    fn inputs(&mut self, scanner: &mut Scanner<'_>) -> Result<(), Trouble> {
        open_array(scanner, "'inputs'")?;
        let mut first = true;
        while scanner.next_item(&mut first)? {
            let index = self.call.inputs.len();
            check_room(scanner, index, "inputs")?;
            expect_object(scanner, "inputs", index)?;
            let HeaderInput { tensor, binary_size } = input::read(scanner, self.model, index)?;
            self.call.inputs.push(tensor);
            self.binary.extend(binary_size.map(|size| (index, size)));
        }
        Ok(())
    }

    fn outputs(&mut self, scanner: &mut Scanner<'_>) -> Result<(), Fault> {
        open_array(scanner, "'outputs'")?;
        let mut first = true;
        while scanner.next_item(&mut first)? {
            let index = self.call.outputs.len();
            check_room(scanner, index, "outputs")?;
            expect_object(scanner, "outputs", index)?;
            let output = output(scanner).map_err(|fault| in_field(&fault, &format!("outputs[{index}]")))?;
            self.call.outputs.push(output);
        }
        Ok(())
    }

    fn parameters(&mut self, scanner: &mut Scanner<'_>) -> Result<(), Fault> {
        scanner.peek();
        let at = scanner.at();
        let mut parameters = parameters::read(scanner).map_err(|fault| in_field(&fault, "'parameters'"))?;
        if let Some((key, _)) = parameters.iter().find(|(key, _)| key.starts_with(RESERVED_PREFIX)) {
            let what =
                format!("parameter '{key}': keys that begin with '{RESERVED_PREFIX}' are reserved for Triton usage");
            return Err(Fault::new(at, what));
        }
        self.call.binary_default = take_bool(&mut parameters, "binary_data_output", at)?.unwrap_or(false);
        self.call.parameters = parameters;
        Ok(())
    }
}

/// Which members have come; later ones of the same name are skipped.
#[derive(Default)]
struct Seen(u8);

impl Seen {
    const ID: u8 = 1;
    const PARAMETERS: u8 = 2;
    const OUTPUTS: u8 = 4;
    const INPUTS: u8 = 8;

    fn first(&mut self, member: u8) -> bool {
        let is_first = self.0 & member == 0;
        self.0 |= member;
        is_first
    }
}

fn open_array(scanner: &mut Scanner<'_>, field: &str) -> Result<(), Fault> {
    if scanner.peek() != b'[' {
        return Err(in_field(&scanner.unexpected("an array"), field));
    }
    scanner.open(b'[')
}

fn check_room(scanner: &Scanner<'_>, count: usize, field: &str) -> Result<(), Fault> {
    let limit = scanner.limits.max_tensors;
    if count < limit {
        return Ok(());
    }
    Err(Fault::new(scanner.at(), too_many_tensors(field, limit)))
}

/// A sentence for more inputs or outputs than may be.
#[cold]
pub fn too_many_tensors(field: &str, limit: usize) -> String {
    format!("there are more than {limit} {field}. Use --request-max-tensors to increase the limit.")
}

fn expect_object(scanner: &mut Scanner<'_>, field: &str, index: usize) -> Result<(), Fault> {
    if scanner.peek() == b'{' {
        return Ok(());
    }
    Err(in_field(&scanner.unexpected("an object"), &format!("{field}[{index}]")))
}

#[cold]
fn in_field(fault: &Fault, field: &str) -> Fault {
    Fault::new(fault.at, format!("{field}: {}", fault.what))
}

fn output(scanner: &mut Scanner<'_>) -> Result<RequestedOutput, Fault> {
    let start = scanner.at();
    let (mut name, mut parameters) = (None, None);
    scanner.open(b'{')?;
    let mut first = true;
    while let Some(key) = scanner.next_key(&mut first)? {
        match &*key {
            b"name" if name.is_none() => {
                name = Some(input::string(scanner).map_err(|fault| in_field(&fault, "'name'"))?);
            }
            b"parameters" if parameters.is_none() => {
                parameters = Some(parameters::read(scanner).map_err(|fault| in_field(&fault, "'parameters'"))?);
            }
            _ => scanner.skip_value()?,
        }
    }
    let name = name.ok_or_else(|| Fault::new(start, "'name' is missing"))?;
    let mut parameters = parameters.unwrap_or_default();
    let binary = take_bool(&mut parameters, "binary_data", start)?.unwrap_or(false);
    let classification = take_classification(&mut parameters, start)?;
    if binary && parameters.iter().any(|(key, _)| key == "shared_memory_region") {
        let message = format!("output '{name}' can't set both 'shared_memory_region' and 'binary_data'");
        return Err(Fault::new(start, message));
    }
    Ok(RequestedOutput { name, classification, binary, parameters })
}

fn take_bool(parameters: &mut Parameters, key: &str, at: usize) -> Result<Option<bool>, Fault> {
    match input::take(parameters, key) {
        None => Ok(None),
        Some(Parameter::Bool(value)) => Ok(Some(value)),
        Some(other) => Err(Fault::new(
            at,
            format!("parameter '{key}' has invalid type: expected a bool, got {}", parameters::written(&other)),
        )),
    }
}

fn take_classification(parameters: &mut Parameters, at: usize) -> Result<u32, Fault> {
    let wrong = |other: &Parameter| {
        Fault::new(
            at,
            format!(
                "parameter 'classification' must be a non-negative 32-bit integer, got {}",
                parameters::written(other)
            ),
        )
    };
    match input::take(parameters, "classification") {
        None => Ok(0),
        Some(Parameter::Int(classes)) => u32::try_from(classes).map_err(|_| wrong(&Parameter::Int(classes))),
        Some(other) => Err(wrong(&other)),
    }
}

/// Cut the tail into the binary inputs' bytes, in the inputs' order, and check those.
fn attach_tail(
    model: &str,
    inputs: &mut [InputTensor],
    binary: &[(usize, u64)],
    mut tail: Bytes,
) -> Result<(), Failure> {
    for &(index, size) in binary {
        let input = &mut inputs[index];
        let data = take_front(model, &input.name, &mut tail, size)?;
        input.data = aligned::ensure(data, input.datatype.item_size());
    }
    if !tail.is_empty() {
        return Err(surplus(model, tail.len()));
    }
    binary.iter().try_for_each(|&(index, _)| check::input(model, &inputs[index]))
}

fn take_front(model: &str, input: &str, tail: &mut Bytes, size: u64) -> Result<Bytes, Failure> {
    let available = tail.len() as u64;
    match usize::try_from(size) {
        Ok(size) if size <= tail.len() => Ok(tail.split_to(size)),
        _ => Err(check::invalid(format!(
            "unexpected size for input '{input}', expecting {} additional bytes for model '{model}': \
             'binary_data_size' says {size}, {available} are left",
            size - available
        ))),
    }
}

#[cold]
fn surplus(model: &str, left: usize) -> Failure {
    check::invalid(format!(
        "unexpected additional input data for model '{model}': {left} bytes follow those that the inputs announce"
    ))
}
