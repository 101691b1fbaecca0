//! Server reflection, versions v1 and v1alpha, over the descriptors that the options bring.
//!
//! The two versions differ in their names alone, so their messages are the same bytes.

use std::collections::{BTreeMap, HashMap, HashSet};
use std::sync::Arc;

use bytes::Bytes;
use http::request::Parts;
use prost::{DecodeError, Message};
use prost_types::{DescriptorProto, EnumDescriptorProto, FileDescriptorProto, FileDescriptorSet};
use tonic_reflection::pb::v1::server_reflection_request::MessageRequest;
use tonic_reflection::pb::v1::server_reflection_response::MessageResponse;
use tonic_reflection::pb::v1::{
    ErrorResponse, ExtensionNumberResponse, FileDescriptorResponse, ListServiceResponse, ServerReflectionRequest,
    ServerReflectionResponse, ServiceResponse,
};
use tonic_reflection::pb::{v1, v1alpha};

use super::answer::Answer;
use super::encode::Framed;
use super::frame::MessageReader;
use super::service::Front;
use super::{compression, driven, timeout};
use crate::access::Incoming;
use crate::reply::Failure;
use crate::status::Code;
use crate::tensor::check::invalid;

/// What the server says about itself.
pub struct Reflection {
    services: Vec<ServiceResponse>,
    files: HashMap<String, File>,
    /// The file of each symbol, by its full name.
    symbols: HashMap<String, String>,
    /// The file of each extension, by the full name of what it extends and its number.
    extensions: BTreeMap<(String, i32), String>,
}

struct File {
    serialised: Vec<u8>,
    imports: Vec<String>,
}

impl Reflection {
    /// None when there are no descriptors, or when they are none.
    pub fn of(file_descriptor_set: &[u8]) -> Option<Self> {
        if file_descriptor_set.is_empty() {
            return None;
        }
        Self::build(file_descriptor_set).ok()
    }

    fn build(file_descriptor_set: &[u8]) -> Result<Self, DecodeError> {
        let mut known =
            Self { services: Vec::new(), files: HashMap::new(), symbols: HashMap::new(), extensions: BTreeMap::new() };
        for set in [file_descriptor_set, v1::FILE_DESCRIPTOR_SET, v1alpha::FILE_DESCRIPTOR_SET] {
            for file in FileDescriptorSet::decode(set)?.file {
                known.add(&file);
            }
        }
        Ok(known)
    }

    fn add(&mut self, file: &FileDescriptorProto) {
        let mut symbols = Symbols { file: file.name(), known: self };
        let package = file.package();
        for message in &file.message_type {
            symbols.add_message(package, message);
        }
        for kind in &file.enum_type {
            symbols.add_enum(package, kind);
        }
        for extension in &file.extension {
            symbols.add_extension(package, extension.extendee(), extension.name(), extension.number());
        }
        for service in &file.service {
            let name = symbols.add(package, service.name());
            for method in &service.method {
                symbols.add(&name, method.name());
            }
            symbols.known.services.push(ServiceResponse { name });
        }
        let known = File { serialised: file.encode_to_vec(), imports: file.dependency.clone() };
        self.files.insert(file.name().to_owned(), known);
    }

    fn respond(&self, request: ServerReflectionRequest) -> ServerReflectionResponse {
        let response = match &request.message_request {
            Some(asked) => self.look_up(asked),
            None => Err(invalid("the request asks for nothing")),
        };
        let response = response.unwrap_or_else(|failure| {
            MessageResponse::ErrorResponse(ErrorResponse { error_code: failure.code.0, error_message: failure.message })
        });
        let valid_host = request.host.clone();
        ServerReflectionResponse { valid_host, original_request: Some(request), message_response: Some(response) }
    }

    fn look_up(&self, asked: &MessageRequest) -> Result<MessageResponse, Failure> {
        match asked {
            MessageRequest::ListServices(_) => {
                Ok(MessageResponse::ListServicesResponse(ListServiceResponse { service: self.services.clone() }))
            }
            MessageRequest::FileByFilename(name) => self.with_imports(name),
            MessageRequest::FileContainingSymbol(name) => {
                let file = self.symbols.get(name.trim_start_matches('.'));
                self.with_imports(file.ok_or_else(|| not_found(format!("there is no symbol '{name}'")))?)
            }
            MessageRequest::FileContainingExtension(extension) => {
                let (extended, number) = (&extension.containing_type, extension.extension_number);
                let file = self.extensions.get(&(extended.clone(), number));
                let missing = || not_found(format!("'{extended}' has no extension {number}"));
                self.with_imports(file.ok_or_else(missing)?)
            }
            MessageRequest::AllExtensionNumbersOfType(name) => self.extension_numbers(name),
        }
    }

    /// The file, and those that it imports, which not every client asks for.
    fn with_imports(&self, name: &str) -> Result<MessageResponse, Failure> {
        let mut names = vec![name];
        let (mut seen, mut files) = (HashSet::new(), Vec::new());
        while let Some(name) = names.pop() {
            if let Some(file) = self.files.get(name).filter(|_| seen.insert(name)) {
                files.push(file.serialised.clone());
                names.extend(file.imports.iter().map(String::as_str));
            }
        }
        if files.is_empty() {
            return Err(not_found(format!("there is no file '{name}'")));
        }
        Ok(MessageResponse::FileDescriptorResponse(FileDescriptorResponse { file_descriptor_proto: files }))
    }

    fn extension_numbers(&self, name: &str) -> Result<MessageResponse, Failure> {
        if !self.symbols.contains_key(name) {
            return Err(not_found(format!("there is no message '{name}'")));
        }
        let all = self.extensions.range((name.to_owned(), i32::MIN)..=(name.to_owned(), i32::MAX));
        let (base_type_name, extension_number) = (name.to_owned(), all.map(|((_, number), _)| *number).collect());
        Ok(MessageResponse::AllExtensionNumbersResponse(ExtensionNumberResponse { base_type_name, extension_number }))
    }
}

/// Collects the symbols of one file.
struct Symbols<'a> {
    file: &'a str,
    known: &'a mut Reflection,
}

impl Symbols<'_> {
    /// The full name.
    fn add(&mut self, scope: &str, name: &str) -> String {
        let full = if scope.is_empty() { name.to_owned() } else { format!("{scope}.{name}") };
        self.known.symbols.insert(full.clone(), self.file.to_owned());
        full
    }

    fn add_message(&mut self, scope: &str, message: &DescriptorProto) {
        let name = self.add(scope, message.name());
        for field in &message.field {
            self.add(&name, field.name());
        }
        for oneof in &message.oneof_decl {
            self.add(&name, oneof.name());
        }
        for kind in &message.enum_type {
            self.add_enum(&name, kind);
        }
        for extension in &message.extension {
            self.add_extension(&name, extension.extendee(), extension.name(), extension.number());
        }
        for nested in &message.nested_type {
            self.add_message(&name, nested);
        }
    }

    /// Its values are siblings of the enum by protobuf's rules; clients look for them inside it as well.
    fn add_enum(&mut self, scope: &str, kind: &EnumDescriptorProto) {
        let name = self.add(scope, kind.name());
        for value in &kind.value {
            self.add(scope, value.name());
            self.add(&name, value.name());
        }
    }

    fn add_extension(&mut self, scope: &str, base: &str, name: &str, number: i32) {
        self.add(scope, name);
        let base = base.trim_start_matches('.').to_owned();
        self.known.extensions.insert((base, number), self.file.to_owned());
    }
}

fn not_found(message: String) -> Failure {
    Failure::new(Code::NOT_FOUND, message)
}

/// Whether the path is the method of this service.
pub fn serves(path: &str) -> bool {
    path == "/grpc.reflection.v1.ServerReflection/ServerReflectionInfo"
        || path == "/grpc.reflection.v1alpha.ServerReflection/ServerReflectionInfo"
}

/// Every message is answered; one that asks for what is not there by a message that says so.
pub fn answer(front: Arc<Front>, parts: &Parts, body: Incoming) -> Answer {
    let coding = match compression::of_request(&parts.headers) {
        Ok(coding) => coding,
        Err(failure) => return super::answer::failed(&failure),
    };
    driven::answer(timeout::of_request(&parts.headers), None, move |out| async move {
        let wire = &front.wire;
        let mut phase = wire.phase.subscribe();
        let mut reader = MessageReader::new(wire, body);
        loop {
            let received = tokio::select! {
                () = driven::draining(&mut phase) => return Err(driven::shutting_down()),
                received = reader.next(wire) => received?,
            };
            let Some(received) = received else { return Ok(()) };
            let (message, _permit) = received.inflated(coding, wire).await?;
            let response = front.respond(message)?;
            out.send(Framed::of_message(&response)?).await;
        }
    })
}

impl Front {
    fn respond(&self, message: Bytes) -> Result<Bytes, Failure> {
        let request = ServerReflectionRequest::decode(message);
        let request =
            request.map_err(|error| invalid(format!("the message is no ServerReflectionRequest: {error}")))?;
        let Some(reflection) = &self.reflection else { return Err(not_found("nothing is known".to_owned())) };
        Ok(reflection.respond(request).encode_to_vec().into())
    }
}
