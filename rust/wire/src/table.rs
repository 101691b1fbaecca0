//! What Python published: who is ready, where a model's calls may be waited for, and how they are answered.

use std::collections::HashMap;
use std::sync::Arc;

use tokio::sync::watch;

use crate::shelf::Shelf;

/// An opaque key chosen by the publisher; 0 goes to `take` always.
pub type Route = u64;

#[derive(Clone, Default)]
pub struct Entry {
    pub ready: bool,
    pub route: Route,
    /// A request may get any number of responses.
    pub decoupled: bool,
    /// Answers that are given at once, where there are any.
    pub shelf: Option<Arc<Shelf>>,
}

/// A published state; replaced as a whole.
#[derive(Default)]
pub struct Published {
    pub live: bool,
    pub ready: bool,
    /// Models are to be asked whether they are ready, and with them the server: the control plane does that.
    pub asks: bool,
    models: HashMap<String, HashMap<String, Entry>>,
}

impl Published {
    pub fn new(live: bool, ready: bool, entries: impl IntoIterator<Item = (String, String, Entry)>) -> Self {
        let mut models: HashMap<String, HashMap<String, Entry>> = HashMap::new();
        for (name, version, entry) in entries {
            models.entry(name).or_default().insert(version, entry);
        }
        Self { live, ready, asks: false, models }
    }

    #[must_use]
    pub fn asking(self, asks: bool) -> Self {
        Self { asks, ..self }
    }

    /// The entry of a model version; "" asks for the default version.
    pub fn model(&self, name: &str, version: &str) -> Option<Entry> {
        self.models.get(name)?.get(plain_number(version)).cloned()
    }

    pub fn routes(&self) -> impl Iterator<Item = Route> + '_ {
        self.models.values().flat_map(HashMap::values).map(|entry| entry.route)
    }
}

/// Clients may write version 1 as "01".
fn plain_number(version: &str) -> &str {
    match version.trim_start_matches('0') {
        "" if !version.is_empty() => "0",
        plain => plain,
    }
}

/// Nothing is live or ready before the first `publish`.
#[derive(Default)]
pub struct Table(watch::Sender<Arc<Published>>);

impl Table {
    pub fn publish(&self, published: Published) {
        self.0.send_replace(Arc::new(published));
    }

    pub fn read(&self) -> Arc<Published> {
        Arc::clone(&self.0.borrow())
    }

    /// For those who wait for the next change.
    pub fn subscribe(&self) -> watch::Receiver<Arc<Published>> {
        self.0.subscribe()
    }
}
