//! The heads of HTTP/2's frames are the same however their bytes are cut. The first byte says how.

use charonia_wire::frames::{Frame, Frames};

pub fn run(input: &[u8]) {
    let Some((&size, bytes)) = input.split_first() else { return };
    let (whole, inside) = walk(std::iter::once(bytes));
    assert_eq!((whole.clone(), inside), walk(bytes.chunks(usize::from(size).max(1))));
    let (expected, unfinished) = expected(bytes);
    assert_eq!((whole, inside), (expected, unfinished));
}

fn walk<'a>(pieces: impl Iterator<Item = &'a [u8]>) -> (Vec<Frame>, bool) {
    let mut frames = Frames::default();
    let mut seen = Vec::new();
    for mut piece in pieces {
        while let Some(frame) = frames.next(&mut piece) {
            seen.push(frame);
        }
        assert!(piece.is_empty(), "all of it is used");
    }
    (seen, frames.is_inside())
}

fn expected(mut bytes: &[u8]) -> (Vec<Frame>, bool) {
    let mut frames = Vec::new();
    while let Some((&[a, b, c, kind, flags, _, _, _, _], rest)) = bytes.split_first_chunk::<9>() {
        let length = u32::from_be_bytes([0, a, b, c]) as usize;
        frames.push(Frame { kind, flags, length });
        if length > rest.len() {
            return (frames, true);
        }
        bytes = &rest[length..];
    }
    (frames, !bytes.is_empty())
}
