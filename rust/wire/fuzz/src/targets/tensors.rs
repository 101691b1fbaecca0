//! Tensors, most of them right, and a second opinion on which of them are.

use arbitrary::{Result, Unstructured};
use charonia_wire::datatype::DataType;

/// A tensor as a client may describe it; its bytes need not fit.
#[derive(Debug)]
pub struct Made {
    pub name: String,
    pub datatype: DataType,
    pub shape: Vec<i64>,
    pub data: Vec<u8>,
}

/// Tensors of more elements come without their bytes.
const MAX_COUNT: u128 = 48;

impl Made {
    pub fn arbitrary(from: &mut Unstructured<'_>) -> Result<Self> {
        let name = (*from.choose(&["X", "é\u{1f600}", "", "a\"b\\\n\0"])?).to_owned();
        let datatype = *from.choose(&DataType::ALL)?;
        let rank = from.int_in_range(0..=4)?;
        let shape: Vec<i64> = (0..rank).map(|_| dim(from)).collect::<Result<_>>()?;
        let mut data = data(from, datatype, count(datatype, &shape).filter(|&count| count <= MAX_COUNT).unwrap_or(0))?;
        if from.ratio(1, 4)? {
            damage(from, &mut data)?;
        }
        Ok(Self { name, datatype, shape, data })
    }

    pub fn some(from: &mut Unstructured<'_>) -> Result<Vec<Self>> {
        let count = from.int_in_range(1..=4)?;
        (0..count).map(|_| Self::arbitrary(from)).collect()
    }

    pub fn is_whole(&self) -> bool {
        is_whole(self.datatype, &self.shape, &self.data)
    }
}

fn dim(from: &mut Unstructured<'_>) -> Result<i64> {
    match from.ratio(1, 16)? {
        true => from.choose(&[-1, i64::MIN, i64::MAX, 1 << 62, 1 << 32, 65]).copied(),
        false => from.int_in_range(0..=4),
    }
}

fn data(from: &mut Unstructured<'_>, datatype: DataType, count: u128) -> Result<Vec<u8>> {
    let mut data = Vec::new();
    for _ in 0..count {
        let size = if datatype == DataType::Bytes { from.int_in_range(0..=6)? } else { datatype.item_size() };
        if datatype == DataType::Bytes {
            data.extend_from_slice(&u32::try_from(size).unwrap_or_default().to_le_bytes());
        }
        let start = data.len();
        data.resize(start + size, 0);
        from.fill_buffer(&mut data[start..])?;
    }
    Ok(data)
}

fn damage(from: &mut Unstructured<'_>, data: &mut Vec<u8>) -> Result<()> {
    match from.int_in_range(0..=2)? {
        0 => data.push(from.arbitrary()?),
        1 => drop(data.pop()),
        _ if data.is_empty() => {}
        _ => data[0] = from.arbitrary()?,
    }
    Ok(())
}

/// Elements; None when the dims are none, or their product (zeros left out) is beyond 63 bits in bytes.
///
/// A string counts as a pointer: that is what it takes in an array.
fn count(datatype: DataType, shape: &[i64]) -> Option<u128> {
    let item = if datatype == DataType::Bytes { 8 } else { datatype.item_size() as u128 };
    let most = u128::from(i64::MAX.unsigned_abs()) / item;
    let mut product = 1_u128;
    for &dim in shape {
        let dim = u128::try_from(dim).ok()?;
        product = product.checked_mul(dim.max(1)).filter(|&product| product <= most)?;
    }
    Some(if shape.contains(&0) { 0 } else { product })
}

pub fn is_whole(datatype: DataType, shape: &[i64], data: &[u8]) -> bool {
    let Some(count) = count(datatype, shape) else { return false };
    match datatype {
        DataType::Bytes => strings(data).is_some_and(|strings| strings.len() as u128 == count),
        _ => count * datatype.item_size() as u128 == data.len() as u128,
    }
}

/// The elements of BYTES data; None when their lengths do not add up.
pub fn strings(mut data: &[u8]) -> Option<Vec<&[u8]>> {
    let mut found = Vec::new();
    while !data.is_empty() {
        let length = u32::from_le_bytes(data.get(..4)?.try_into().ok()?) as usize;
        found.push(data.get(4..4 + length)?);
        data = &data[4 + length..];
    }
    Some(found)
}
