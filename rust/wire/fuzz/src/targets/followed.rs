//! What is looked at beside HTTP's library is the same however its bytes are cut: where the heads of HTTP/1 requests
//! are. Mending authorities changes percent signs only. The first byte says how the bytes are cut.

use charonia_wire::authority::Authorities;
use charonia_wire::heads::Heads;

pub fn run(input: &[u8]) {
    let Some((&size, bytes)) = input.split_first() else { return };
    let size = usize::from(size).max(1);
    assert_eq!(heads(std::iter::once(bytes)), heads(bytes.chunks(size)));
    let mut mended = bytes.to_vec();
    let mut authorities = Authorities::default();
    mended.chunks_mut(size).for_each(|piece| authorities.mend(piece));
    assert_eq!(mended.len(), bytes.len());
    for (new, old) in mended.iter().zip(bytes) {
        assert!(new == old || (*old, *new) == (b'%', b'-'));
    }
}

fn heads<'a>(pieces: impl Iterator<Item = &'a [u8]>) -> Vec<Vec<u8>> {
    let mut heads = Heads::default();
    pieces.for_each(|piece| heads.received(piece));
    std::iter::from_fn(|| heads.take()).collect()
}
