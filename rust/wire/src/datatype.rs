//! The fourteen tensor datatypes of KServe v2.

/// A tensor's element type, as the protocol names it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum DataType {
    Bool,
    Uint8,
    Uint16,
    Uint32,
    Uint64,
    Int8,
    Int16,
    Int32,
    Int64,
    Fp16,
    Fp32,
    Fp64,
    Bytes,
    Bf16,
}

impl DataType {
    pub const ALL: [Self; 14] = [
        Self::Bool,
        Self::Uint8,
        Self::Uint16,
        Self::Uint32,
        Self::Uint64,
        Self::Int8,
        Self::Int16,
        Self::Int32,
        Self::Int64,
        Self::Fp16,
        Self::Fp32,
        Self::Fp64,
        Self::Bytes,
        Self::Bf16,
    ];

    /// The name on the wire, `FP32`.
    pub fn name(self) -> &'static str {
        match self {
            Self::Bool => "BOOL",
            Self::Uint8 => "UINT8",
            Self::Uint16 => "UINT16",
            Self::Uint32 => "UINT32",
            Self::Uint64 => "UINT64",
            Self::Int8 => "INT8",
            Self::Int16 => "INT16",
            Self::Int32 => "INT32",
            Self::Int64 => "INT64",
            Self::Fp16 => "FP16",
            Self::Fp32 => "FP32",
            Self::Fp64 => "FP64",
            Self::Bytes => "BYTES",
            Self::Bf16 => "BF16",
        }
    }

    /// The datatype of a wire name, upper case as the protocol has it.
    pub fn from_name(name: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|datatype| datatype.name() == name)
    }

    /// Bytes per element; 0 for BYTES, whose elements have no fixed size.
    pub fn item_size(self) -> usize {
        match self {
            Self::Bool | Self::Uint8 | Self::Int8 => 1,
            Self::Uint16 | Self::Int16 | Self::Fp16 | Self::Bf16 => 2,
            Self::Uint32 | Self::Int32 | Self::Fp32 => 4,
            Self::Uint64 | Self::Int64 | Self::Fp64 => 8,
            Self::Bytes => 0,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::DataType;

    #[test]
    fn every_name_leads_back_to_its_datatype() {
        for datatype in DataType::ALL {
            assert_eq!(DataType::from_name(datatype.name()), Some(datatype));
        }
        assert_eq!(DataType::from_name("fp32"), None);
    }
}
