//! Answers that are given again without anybody being asked: to calls that say the same as one that was answered so.
//!
//! Whoever publishes a model may publish a shelf with it, puts answers on it, and takes each away again. What lies there
//! is given on the thread that has read the call. Only plain calls come to it, which differ by name, version, inputs and
//! requested outputs and by nothing else.

use std::collections::hash_map::Entry;
use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError};

use blake3::{Hash, Hasher};

use crate::call::{Parameter, ParsedCall, Protocol, Request, EMPTY_FINAL_PARAMETER};
use crate::reply::Response;
use crate::wire::monotonic_ns;

/// A call with more bytes of tensors is not looked up: it would hold up the calls of others while it is hashed.
const MAX_BYTES: usize = 256 << 10;

/// Of an answer that is written as JSON, which takes longer.
const MAX_JSON_BYTES: usize = 8 << 10;

/// Classes of durations: the highest bit of their nanoseconds.
const CLASSES: usize = 64;

/// What was given within one class of durations.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Given {
    pub count: u64,
    /// From arrival to answer, in sum.
    pub total_ns: u64,
    /// To find it, in sum.
    pub lookup_ns: u64,
}

struct Answer {
    response: Arc<Response>,
    /// Given since somebody asked last.
    used: bool,
}

struct State {
    answers: HashMap<Hash, Answer>,
    given: [Given; CLASSES],
}

impl State {
    fn count(&mut self, arrival_ns: u64, start_ns: u64) {
        let now_ns = monotonic_ns();
        let total_ns = now_ns.saturating_sub(arrival_ns);
        let class = &mut self.given[total_ns.checked_ilog2().unwrap_or(0) as usize];
        class.count += 1;
        class.total_ns += total_ns;
        class.lookup_ns += now_ns.saturating_sub(start_ns);
    }
}

/// Of one model version.
pub struct Shelf(Mutex<State>);

impl Default for Shelf {
    fn default() -> Self {
        Self(Mutex::new(State { answers: HashMap::new(), given: [Given::default(); CLASSES] }))
    }
}

impl Shelf {
    /// Put it there for all calls that say the same. None where `parsed` is not plain, for an answer that would not be
    /// given either, and where there is one.
    pub fn keep(self: &Arc<Self>, parsed: &ParsedCall, response: Response) -> Option<Kept> {
        let hash = hash_of(parsed).filter(|_| bytes_of(&response) <= MAX_BYTES)?;
        match self.lock().answers.entry(hash) {
            Entry::Occupied(_) => return None,
            Entry::Vacant(place) => place.insert(Answer { response: Arc::new(response), used: false }),
        };
        Some(Kept { shelf: Arc::clone(self), hash })
    }

    /// The answer to `request`, if there is one. It counts as given.
    pub fn find(&self, request: &Request) -> Option<Response> {
        if self.lock().answers.is_empty() {
            return None;
        }
        let start_ns = monotonic_ns();
        let hash = hash_of(&request.parsed)?;
        let mut state = self.lock();
        let answer = state.answers.get_mut(&hash).filter(|answer| is_quick(request, &answer.response))?;
        answer.used = true;
        let response = Arc::clone(&answer.response);
        state.count(request.arrival_ns, start_ns);
        drop(state);
        Some(Response::clone(&response))
    }

    /// What was given since the last time, by classes of durations; those without any are left out.
    pub fn take_given(&self) -> Vec<Given> {
        let given = std::mem::replace(&mut self.lock().given, [Given::default(); CLASSES]);
        given.into_iter().filter(|class| class.count > 0).collect()
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// One answer on a shelf. It is taken away when this is dropped.
pub struct Kept {
    shelf: Arc<Shelf>,
    hash: Hash,
}

impl Kept {
    /// Whether it was given since the last time that this was asked.
    pub fn take_used(&self) -> bool {
        let mut state = self.shelf.lock();
        state.answers.get_mut(&self.hash).is_some_and(|answer| std::mem::take(&mut answer.used))
    }
}

impl Drop for Kept {
    fn drop(&mut self) {
        let taken = self.shelf.lock().answers.remove(&self.hash);
        drop(taken); // its memory may belong to somebody, who is told outside the lock
    }
}

/// Whether the answer is written soon, on the thread that serves other connections too.
fn is_quick(request: &Request, response: &Response) -> bool {
    let is_json = |name: &str| request.protocol == Protocol::Http && !request.parsed.wants_binary(name);
    let limit = if response.outputs.iter().any(|output| is_json(&output.name)) { MAX_JSON_BYTES } else { MAX_BYTES };
    bytes_of(response) <= limit
}

fn bytes_of(response: &Response) -> usize {
    response.outputs.iter().map(|output| output.data.len()).sum()
}

/// Equal for calls that have the same answer; None for those that say more than what is hashed here.
fn hash_of(parsed: &ParsedCall) -> Option<Hash> {
    // Keyed per process, so that nobody outside can prepare two calls that are equal here.
    static KEY: OnceLock<[u8; 32]> = OnceLock::new();
    let is_plain = parsed.defect.is_none()
        && !parsed.raw
        && parsed.parameters.iter().all(is_of_no_consequence)
        && parsed.forwarded.is_empty()
        && parsed.outputs.iter().all(|output| output.classification == 0)
        && !parsed.has_tensor_parameters();
    if !is_plain || parsed.inputs.iter().map(|input| input.data.len()).sum::<usize>() > MAX_BYTES {
        return None;
    }
    let mut hasher = Hasher::new_keyed(KEY.get_or_init(random_key));
    let mut head = Vec::with_capacity(256);
    // Each part with its length before it, so that no two calls have the same head.
    let text = |head: &mut Vec<u8>, text: &str| {
        head.extend_from_slice(&text.len().to_le_bytes());
        head.extend_from_slice(text.as_bytes());
    };
    text(&mut head, &parsed.model_name);
    text(&mut head, &parsed.model_version);
    head.extend_from_slice(&parsed.inputs.len().to_le_bytes());
    for input in &parsed.inputs {
        text(&mut head, &input.name);
        text(&mut head, input.datatype.name());
        head.extend_from_slice(&input.shape.len().to_le_bytes());
        input.shape.iter().for_each(|dim| head.extend_from_slice(&dim.to_le_bytes()));
        head.extend_from_slice(&input.data.len().to_le_bytes());
    }
    head.extend_from_slice(&parsed.outputs.len().to_le_bytes());
    parsed.outputs.iter().for_each(|output| text(&mut head, &output.name));
    hasher.update(&head);
    parsed.inputs.iter().for_each(|input| {
        hasher.update(&input.data);
    });
    Some(hasher.finalize())
}

fn is_of_no_consequence((name, value): &(String, Parameter)) -> bool {
    name == EMPTY_FINAL_PARAMETER && matches!(value, Parameter::Bool(_))
}

/// From the seeds that the standard library takes from the system.
fn random_key() -> [u8; 32] {
    use std::hash::{BuildHasher, Hasher as _, RandomState};
    let mut key = [0; 32];
    for (number, part) in key.chunks_exact_mut(8).enumerate() {
        let mut hasher = RandomState::new().build_hasher();
        hasher.write_usize(number);
        part.copy_from_slice(&hasher.finish().to_le_bytes());
    }
    key
}

#[cfg(test)]
mod tests;
