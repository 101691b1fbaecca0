//! Byte buffers whose start is aligned to the items they hold.

use bytemuck::Pod;
use bytes::Bytes;

const LARGEST_ITEM: usize = 8;

/// Typed memory seen as bytes; it keeps the alignment of `T`.
struct Typed<T>(Vec<T>);

impl<T: Pod> AsRef<[u8]> for Typed<T> {
    fn as_ref(&self) -> &[u8] {
        bytemuck::cast_slice(&self.0)
    }
}

/// The vector's own memory as bytes, without a copy.
pub fn from_vec<T: Pod + Send>(items: Vec<T>) -> Bytes {
    Bytes::from_owner(Typed(items))
}

/// `bytes` itself when its address suits items of `item_size` bytes (a power of two up to 8), else one aligned copy.
pub fn ensure(bytes: Bytes, item_size: usize) -> Bytes {
    if item_size <= 1 || bytes.is_empty() || (bytes.as_ptr() as usize).is_multiple_of(item_size) {
        return bytes;
    }
    // Into memory with some room, from an address that suits: zeroing words first would cost as much as the copy.
    let mut memory = Vec::<u8>::with_capacity(bytes.len() + LARGEST_ITEM);
    let start = memory.as_ptr().addr().wrapping_neg() % LARGEST_ITEM;
    memory.resize(start, 0);
    memory.extend_from_slice(&bytes);
    Bytes::from(memory).slice(start..)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn aligned_bytes_are_not_copied() {
        let bytes = from_vec(vec![1_u64, 2]);
        assert_eq!(ensure(bytes.clone(), 8).as_ptr(), bytes.as_ptr());
    }

    #[test]
    fn misaligned_bytes_are_copied_once() {
        let bytes = from_vec(vec![1_u64, 2, 3]).slice(1..17);
        let fixed = ensure(bytes.clone(), 8);
        assert_eq!(fixed, bytes);
        assert_eq!(fixed.as_ptr() as usize % 8, 0);
        assert_eq!(ensure(bytes.clone(), 1).as_ptr(), bytes.as_ptr());
    }
}
