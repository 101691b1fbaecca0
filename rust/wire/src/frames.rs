//! The heads of HTTP/2 frames in a stream of bytes, cut anywhere.

pub const DATA: u8 = 0;
pub const HEADERS: u8 = 1;
pub const PING: u8 = 6;
pub const GOAWAY: u8 = 7;
pub const CONTINUATION: u8 = 9;

/// Of PING and SETTINGS.
pub const ACK: u8 = 1;
/// Of HEADERS and CONTINUATION.
pub const END_HEADERS: u8 = 4;

const HEAD_BYTES: usize = 9;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Frame {
    pub kind: u8,
    pub flags: u8,
    pub length: usize,
}

/// Walks from frame to frame.
#[derive(Default)]
pub struct Frames {
    head: [u8; HEAD_BYTES],
    filled: usize,
    /// Bytes of the payload that are still to come.
    left: usize,
}

impl Frames {
    /// The next frame whose head ends in `bytes`, which are used up to there; None when they are used up.
    pub fn next(&mut self, bytes: &mut &[u8]) -> Option<Frame> {
        skip(bytes, &mut self.left);
        let part = bytes.len().min(HEAD_BYTES - self.filled);
        self.head[self.filled..][..part].copy_from_slice(&bytes[..part]);
        *bytes = &bytes[part..];
        self.filled += part;
        if self.filled < HEAD_BYTES {
            return None;
        }
        self.filled = 0;
        let [a, b, c, kind, flags, ..] = self.head;
        self.left = u32::from_be_bytes([0, a, b, c]) as usize;
        let frame = Frame { kind, flags, length: self.left };
        skip(bytes, &mut self.left);
        Some(frame)
    }

    /// Whether a frame has begun and not ended.
    pub fn is_inside(&self) -> bool {
        self.filled > 0 || self.left > 0
    }
}

fn skip(bytes: &mut &[u8], left: &mut usize) {
    let part = bytes.len().min(*left);
    *bytes = &bytes[part..];
    *left -= part;
}

/// The bytes of a GOAWAY frame that says to calm down.
pub fn calm_down(why: &str) -> Vec<u8> {
    const ENHANCE_YOUR_CALM: u32 = 0xb;
    let length = u32::try_from(8 + why.len()).unwrap_or(8).to_be_bytes();
    let mut frame = vec![length[1], length[2], length[3], GOAWAY, 0, 0, 0, 0, 0];
    // Which of its calls were looked at the client cannot know: none of them is safe to send again.
    frame.extend_from_slice(&i32::MAX.to_be_bytes());
    frame.extend_from_slice(&ENHANCE_YOUR_CALM.to_be_bytes());
    frame.extend_from_slice(why.as_bytes());
    frame
}

#[cfg(test)]
mod tests {
    use super::*;

    fn walk(frames: &mut Frames, mut bytes: &[u8]) -> Vec<Frame> {
        std::iter::from_fn(|| frames.next(&mut bytes)).collect()
    }

    #[test]
    fn frames_are_found_however_the_bytes_are_cut() {
        let bytes =
            [&[0, 0, 3, DATA, 1, 0, 0, 0, 1, 7, 7, 7][..], &[0, 0, 0, PING, ACK, 0, 0, 0, 0], &calm_down("why")];
        let bytes = bytes.concat();
        let expected = [(DATA, 1, 3), (PING, ACK, 0), (GOAWAY, 0, 11)];
        let expected = expected.map(|(kind, flags, length)| Frame { kind, flags, length });
        for size in 1..=bytes.len() {
            let mut frames = Frames::default();
            let seen: Vec<_> = bytes.chunks(size).flat_map(|piece| walk(&mut frames, piece)).collect();
            assert_eq!(seen, expected, "in pieces of {size}");
            assert!(!frames.is_inside());
        }
    }

    #[test]
    fn an_unfinished_frame_is_known() {
        let mut frames = Frames::default();
        walk(&mut frames, &[0, 0, 3]);
        assert!(frames.is_inside());
        walk(&mut frames, &[DATA, 1, 0, 0, 0, 1, 7]);
        assert!(frames.is_inside());
        walk(&mut frames, &[7, 7]);
        assert!(!frames.is_inside());
    }
}
