//! The extension module `charonia._wire`.
