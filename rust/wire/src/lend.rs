//! Memory that belongs to somebody else (a Python object), sent without a copy and given back where its owner wants it.

use std::sync::Arc;

use bytes::Bytes;

use crate::inbox::Inbox;

/// What keeps the memory alive. Dropped only by whoever empties the inbox's retired list, never on a network thread.
pub type Owner = Box<dyn Send>;

struct Lent {
    pointer: *const u8,
    len: usize,
    owner: Option<Owner>,
    inbox: Arc<Inbox>,
}

// SAFETY: the memory is not written while it is lent (the contract of `lend`), and the owner is `Send`.
unsafe impl Send for Lent {}

impl AsRef<[u8]> for Lent {
    fn as_ref(&self) -> &[u8] {
        // SAFETY: `lend`'s caller promised that pointer and length are valid until the owner is dropped.
        unsafe { std::slice::from_raw_parts(self.pointer, self.len) }
    }
}

impl Drop for Lent {
    fn drop(&mut self) {
        self.inbox.counters().pinned_output_bytes.sub(self.len as u64);
        if let Some(owner) = self.owner.take() {
            self.inbox.retire(owner);
        }
    }
}

/// Bytes over foreign memory; when the last clone is dropped, `owner` goes to the inbox's retired list.
///
/// # Safety
/// `pointer` is valid for `len` bytes (and not null), and nobody writes there, until `owner` is dropped.
pub unsafe fn lend(pointer: *const u8, len: usize, owner: Owner, inbox: &Arc<Inbox>) -> Bytes {
    inbox.counters().pinned_output_bytes.add(len as u64);
    Bytes::from_owner(Lent { pointer, len, owner: Some(owner), inbox: Arc::clone(inbox) })
}
