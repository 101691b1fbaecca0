//! Memory for long request bodies, used again: fresh pages from the kernel cost more than the copy into them.
//!
//! A body of 4 MiB in new memory takes a thousand page faults. A few buffers are kept for the next bodies; what is
//! larger than `MAX_KEPT_BYTES`, or comes back when enough are kept, is freed.

use std::sync::{Arc, Mutex, PoisonError};

use bytes::Bytes;

/// Shorter bodies fit into memory that the allocator keeps anyway.
pub const MIN_BYTES: usize = 128 << 10;

const MAX_KEPT_BYTES: usize = 16 << 20;
const MAX_KEPT: usize = 4;

/// Tensors start at addresses like these where we can choose, which suits every item size and vector unit.
const ALIGNMENT: usize = 64;

#[derive(Default)]
pub struct Pool(Mutex<Vec<Vec<u8>>>);

impl Pool {
    /// A buffer for `size` bytes, of which byte `align_at` will lie at an aligned address.
    pub fn buffer(self: &Arc<Self>, size: usize, align_at: usize) -> Buffer {
        let mut memory = if size < MIN_BYTES { Vec::new() } else { self.kept(size + ALIGNMENT) };
        memory.clear();
        memory.reserve(size + ALIGNMENT);
        let address = memory.as_ptr().addr() + align_at % ALIGNMENT;
        let start = address.next_multiple_of(ALIGNMENT) - address;
        memory.resize(start, 0);
        Buffer { memory, start, align_at, pool: Arc::clone(self) }
    }

    /// The smallest kept buffer that is large enough, or none.
    fn kept(&self, capacity: usize) -> Vec<u8> {
        let mut kept = self.lock();
        let fits = kept.iter().enumerate().filter(|(_, memory)| memory.capacity() >= capacity);
        let best = fits.min_by_key(|(_, memory)| memory.capacity()).map(|(index, _)| index);
        best.map_or_else(Vec::new, |index| kept.swap_remove(index))
    }

    fn keep(&self, memory: Vec<u8>) {
        let mut kept = self.lock();
        if kept.len() < MAX_KEPT && (MIN_BYTES..=MAX_KEPT_BYTES).contains(&memory.capacity()) {
            kept.push(memory);
        }
    }

    fn lock(&self) -> std::sync::MutexGuard<'_, Vec<Vec<u8>>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// A body in the making.
pub struct Buffer {
    memory: Vec<u8>,
    start: usize,
    align_at: usize,
    pool: Arc<Pool>,
}

impl Buffer {
    pub fn filled(&self) -> usize {
        self.memory.len() - self.start
    }

    pub fn extend(&mut self, piece: &[u8]) {
        if self.memory.capacity() - self.memory.len() < piece.len() {
            self.grow(piece.len());
        }
        self.memory.extend_from_slice(piece);
    }

    /// Move to a larger buffer, aligned again: bodies of unknown length only.
    fn grow(&mut self, more: usize) {
        let mut larger = self.pool.buffer((self.filled() + more) * 2, self.align_at);
        larger.memory.extend_from_slice(&self.memory[self.start..]);
        *self = larger;
    }

    pub fn freeze(self) -> Bytes {
        let start = self.start;
        Bytes::from_owner(self).slice(start..)
    }
}

impl AsRef<[u8]> for Buffer {
    fn as_ref(&self) -> &[u8] {
        &self.memory
    }
}

impl Drop for Buffer {
    fn drop(&mut self) {
        self.pool.keep(std::mem::take(&mut self.memory));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bodies_are_whole_and_aligned_also_after_growing() {
        let pool = Arc::new(Pool::default());
        for (size, align_at) in [(10, 3), (300_000, 3), (1, 100), (200_000, 64)] {
            let bytes: Vec<u8> = (0..300_000_u32).map(|index| (index % 251) as u8).collect();
            let mut buffer = pool.buffer(size, align_at);
            bytes.chunks(70_001).for_each(|piece| buffer.extend(piece));
            let body = buffer.freeze();
            assert_eq!(body, bytes);
            assert_eq!(body[align_at..].as_ptr().addr() % ALIGNMENT, 0);
        }
    }

    #[test]
    fn long_buffers_are_used_again_when_the_last_reader_has_gone() {
        let pool = Arc::new(Pool::default());
        let mut buffer = pool.buffer(1 << 20, 0);
        buffer.extend(&vec![1; 1 << 20]);
        let body = buffer.freeze();
        let reader = body.slice(..);
        drop(body);
        assert_eq!(pool.lock().len(), 0);
        drop(reader);
        assert_eq!(pool.lock().len(), 1);
        let again = pool.buffer(1 << 19, 0);
        assert_eq!(pool.lock().len(), 0);
        drop(again);
        assert_eq!(pool.lock().len(), 1);
    }

    #[test]
    fn only_a_few_buffers_are_kept() {
        let pool = Arc::new(Pool::default());
        let sizes = [1 << 20, 1 << 20, 1 << 20, 1 << 20, 1 << 20, MAX_KEPT_BYTES * 2, 100];
        let buffers: Vec<Buffer> = sizes.iter().map(|&size| pool.buffer(size, 0)).collect();
        drop(buffers);
        assert_eq!(pool.lock().len(), MAX_KEPT);
    }
}
