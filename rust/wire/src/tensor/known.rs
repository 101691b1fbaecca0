//! Where a key stands in a list of parameters, in a time that does not grow with the list.

use std::collections::HashMap;

use crate::call::Parameters;

/// So few keys are looked through faster than they are hashed; hardly a request has more.
const MAX_SEARCHED: usize = 16;

/// The places of the keys of one list, which only grows.
#[derive(Default)]
pub struct Known(HashMap<String, usize>);

impl Known {
    /// The place of `key` in `parameters`, always the same list.
    pub fn place(&mut self, parameters: &Parameters, key: &str) -> Option<usize> {
        if parameters.len() <= MAX_SEARCHED {
            return parameters.iter().position(|(known, _)| known == key);
        }
        for (key, _) in &parameters[self.0.len()..] {
            self.0.insert(key.clone(), self.0.len());
        }
        self.0.get(key).copied()
    }
}
