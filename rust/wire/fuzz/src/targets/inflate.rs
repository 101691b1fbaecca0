//! Compressed bytes, right ones and bombs among them, within a limit.

use std::io::Write;

use arbitrary::{Result, Unstructured};
use bytes::Bytes;
use charonia_wire::http::compress::{self, Coding, Effort, Fault};
use flate2::write::{GzEncoder, ZlibEncoder};
use flate2::Compression;

use super::measure;
use super::pieces::wait_for;

/// What zlib takes for itself.
const INFLATER_BYTES: usize = 256 << 10;

pub fn run(input: &[u8]) {
    let _ = check(&mut Unstructured::new(input));
}

fn check(from: &mut Unstructured<'_>) -> Result<()> {
    let coding = *from.choose(&[Coding::Gzip, Coding::Deflate])?;
    let limit = from.int_in_range(0..=4096)?;
    if from.arbitrary()? {
        return bomb(from, coding, limit);
    }
    let bytes = Bytes::copy_from_slice(from.bytes(from.len())?);
    let given = bytes.len();
    if let Ok(plain) = inflate(coding, bytes, limit) {
        assert!(plain.len() <= limit);
        // Deflate makes no more than this of a byte.
        assert!(plain.len() <= 1032 * given + 64);
    }
    Ok(())
}

/// One piece again and again: all of it comes back, or none.
fn bomb(from: &mut Unstructured<'_>, coding: Coding, limit: usize) -> Result<()> {
    let times = from.int_in_range(1..=2000)?;
    let plain = from.bytes(from.len().min(64))?.repeat(times);
    let packed = match coding {
        Coding::Gzip => pack(GzEncoder::new(Vec::new(), Compression::fast()), &plain, GzEncoder::finish),
        Coding::Deflate => pack(ZlibEncoder::new(Vec::new(), Compression::fast()), &plain, ZlibEncoder::finish),
    };
    match inflate(coding, packed, limit) {
        Ok(inflated) => assert_eq!(&inflated[..], &plain[..]),
        Err(Fault::TooLong) => assert!(plain.len() > limit),
        Err(Fault::Broken(why)) => panic!("what is whole is not broken: {why}"),
    }
    let again = wait_for(compress::deflate(coding, Effort::Low, vec![plain.clone().into()]));
    assert_eq!(inflate(coding, again, plain.len()).ok().as_deref(), Some(&plain[..]));
    Ok(())
}

fn pack<W: Write>(mut encoder: W, plain: &[u8], finish: fn(W) -> std::io::Result<Vec<u8>>) -> Bytes {
    encoder.write_all(plain).expect("memory takes all");
    finish(encoder).expect("memory takes all").into()
}

fn inflate(coding: Coding, bytes: Bytes, limit: usize) -> std::result::Result<Bytes, Fault> {
    measure::bounded(4 * limit + INFLATER_BYTES, || wait_for(compress::inflate(coding, bytes, limit)))
}
