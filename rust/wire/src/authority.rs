//! Makes good the authority that gRPC's own clients give to calls over a Unix socket: the path of the socket, with `%2F`
//! for its slashes. The HTTP library takes that for malformed and would reset each call. Nobody reads the authority, so
//! its percent signs are overwritten before the library sees them.
//!
//! These clients write it without Huffman's code, in the first HEADERS frame. What is not found changes nothing.

use std::ops::Range;

use crate::frames::{Frames, HEADERS};

const PREFACE_BYTES: usize = 24;
const PADDED: u8 = 0x8;
const PRIORITY: u8 = 0x20;

/// The place of `:authority` in HPACK's table.
const INDEX: usize = 1;
const NAME: &[u8] = b":authority";

/// Looks at what one connection receives.
pub struct Authorities {
    preface_left: usize,
    frames: Frames,
}

impl Default for Authorities {
    fn default() -> Self {
        Self { preface_left: PREFACE_BYTES, frames: Frames::default() }
    }
}

impl Authorities {
    /// Only frames that came in one piece are looked at.
    pub fn mend(&mut self, bytes: &mut [u8]) {
        let preface = self.preface_left.min(bytes.len());
        self.preface_left -= preface;
        let bytes = &mut bytes[preface..];
        let mut walked = 0;
        loop {
            let mut rest = &bytes[walked..];
            let Some(frame) = self.frames.next(&mut rest) else { return };
            walked = bytes.len() - rest.len();
            if frame.kind == HEADERS && !self.frames.is_inside() && frame.length <= walked {
                mend_payload(&mut bytes[walked - frame.length..walked], frame.flags);
            }
        }
    }
}

/// Nothing happens to a payload that is cut or none.
fn mend_payload(payload: &mut [u8], flags: u8) -> Option<()> {
    let padding = if flags & PADDED > 0 { usize::from(*payload.first()?) } else { 0 };
    let mut at = usize::from(flags & PADDED > 0) + if flags & PRIORITY > 0 { 5 } else { 0 };
    let end = payload.len().checked_sub(padding)?;
    let block = &mut payload[..end];
    while at < block.len() {
        let (bits, is_literal) = match block[at] {
            0x80.. => (7, false),
            0x40.. => (6, true),
            0x20.. => (5, false),
            _ => (4, true),
        };
        let index = integer(block, &mut at, bits)?;
        if is_literal {
            let is_authority = match index {
                0 => {
                    let name = string(block, &mut at)?;
                    !name.is_coded && block.get(name.place) == Some(NAME)
                }
                index => index == INDEX,
            };
            let value = string(block, &mut at)?;
            if is_authority && !value.is_coded {
                let value = block.get_mut(value.place)?;
                value.iter_mut().filter(|byte| **byte == b'%').for_each(|byte| *byte = b'-');
            }
        }
    }
    Some(())
}

/// HPACK's integer with a prefix of so many bits.
fn integer(block: &[u8], at: &mut usize, bits: u32) -> Option<usize> {
    let most = (1 << bits) - 1;
    let mut value = usize::from(*block.get(*at)?) & most;
    *at += 1;
    if value < most {
        return Some(value);
    }
    for shift in [0, 7, 14, 21] {
        let byte = *block.get(*at)?;
        *at += 1;
        value += usize::from(byte & 0x7f) << shift;
        if byte & 0x80 == 0 {
            return Some(value);
        }
    }
    None
}

/// Where the bytes of HPACK's string are, and whether they are in Huffman's code.
struct Text {
    place: Range<usize>,
    is_coded: bool,
}

fn string(block: &[u8], at: &mut usize) -> Option<Text> {
    let is_coded = *block.get(*at)? & 0x80 > 0;
    let length = integer(block, at, 7)?;
    let place = *at..at.checked_add(length)?;
    *at = place.end;
    Some(Text { place, is_coded })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn frame(flags: u8, payload: &[u8]) -> Vec<u8> {
        let length = u8::try_from(payload.len()).unwrap();
        [&[0, 0, length, HEADERS, flags, 0, 0, 0, 1][..], payload].concat()
    }

    fn mended(sent: &[u8], size: usize) -> Vec<u8> {
        let mut authorities = Authorities::default();
        let mut bytes = [&[b'P'; PREFACE_BYTES][..], sent].concat();
        bytes.chunks_mut(size).for_each(|piece| authorities.mend(piece));
        bytes[PREFACE_BYTES..].to_vec()
    }

    const AS_NAME: &[u8] = b"@\x05:path\x06/a%2Fb@\x0a:authority\x07t%2Fsoc\x83\x86";
    const AS_INDEX: &[u8] = b"\x83A\x07t%2Fsoc\x01\x03%2F\x04\x02%2";

    #[test]
    fn the_authority_is_mended_and_nothing_else() {
        let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
        let by_name = frame(4, AS_NAME);
        assert_eq!(text(&mended(&by_name, 1000)), text(&by_name).replace("t%2Fsoc", "t-2Fsoc"));
        let by_index = frame(4, AS_INDEX);
        let wanted = text(&by_index).replace("t%2Fsoc", "t-2Fsoc").replace("\x03%2F", "\x03-2F");
        assert_eq!(text(&mended(&by_index, 1000)), wanted);
        let padded = frame(4 | PADDED | PRIORITY, &[&[3, 0, 0, 0, 0, 9], AS_NAME, &[0; 3]].concat());
        assert!(text(&mended(&padded, 1000)).contains("t-2Fsoc"));
    }

    #[test]
    fn what_is_no_list_of_headers_stays() {
        for payload in [&b"A\x7f"[..], b"A\xff\xff\xff\xff\xff\xff", b"@\x8a%%%%%%%%%%", b"\x7f%", b"", b"@"] {
            for flags in [0, 4, PADDED, PRIORITY] {
                let sent = frame(flags, payload);
                for size in [1, 3, 1000] {
                    assert_eq!(mended(&sent, size), sent);
                }
            }
        }
        let data = [&[0, 0, 8, 0, 0, 0, 0, 0, 1][..], b"A\x06a%2Fbc"].concat();
        assert_eq!(mended(&data, 1000), data);
    }
}
