//! The canonical status codes and the one mapping to HTTP. gRPC uses the numbers as they are.

/// A canonical (gRPC) status code.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Code(pub i32);

impl Code {
    pub const OK: Self = Self(0);
    pub const CANCELLED: Self = Self(1);
    pub const UNKNOWN: Self = Self(2);
    pub const INVALID_ARGUMENT: Self = Self(3);
    pub const DEADLINE_EXCEEDED: Self = Self(4);
    pub const NOT_FOUND: Self = Self(5);
    pub const ALREADY_EXISTS: Self = Self(6);
    pub const RESOURCE_EXHAUSTED: Self = Self(8);
    pub const UNIMPLEMENTED: Self = Self(12);
    pub const INTERNAL: Self = Self(13);
    pub const UNAVAILABLE: Self = Self(14);

    /// The HTTP status of this code; codes that Charonia does not use are server errors.
    pub fn http_status(self) -> u16 {
        match self {
            Self::OK => 200,
            Self::CANCELLED | Self::UNKNOWN | Self::INVALID_ARGUMENT | Self::ALREADY_EXISTS => 400,
            Self::NOT_FOUND => 404,
            Self::RESOURCE_EXHAUSTED => 429,
            Self::UNIMPLEMENTED => 501,
            Self::UNAVAILABLE => 503,
            Self::DEADLINE_EXCEEDED => 504,
            _ => 500,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::Code;

    #[test]
    fn codes_map_as_clients_expect() {
        let pairs = [(3, 400), (6, 400), (5, 404), (14, 503), (12, 501), (13, 500), (4, 504), (8, 429), (99, 500)];
        for (code, status) in pairs {
            assert_eq!(Code(code).http_status(), status);
        }
    }
}
