//! What BPF programs report: a ring buffer of records, and counters.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use libbpf_rs::{MapCore, MapFlags, Object, RingBuffer, RingBufferBuilder};

use crate::error::BpfError;
use crate::libbpf::refused;

/// Records as they came.
type Arrived = Arc<Mutex<Vec<Vec<u8>>>>;

/// An object's ring buffer.
pub(crate) struct Ring {
    ring: RingBuffer<'static>,
    arrived: Arrived,
    /// The step that fails when it cannot be read.
    what: &'static str,
}

impl Ring {
    /// The ring buffer `name` of `object`; `what` is the step that fails if it
    /// cannot be read.
    ///
    /// # Errors
    /// If the kernel does not map it.
    pub(crate) fn of(object: &Object, name: &str, what: &'static str) -> Result<Self, BpfError> {
        let arrived = Arrived::default();
        let maps: Vec<_> = object.maps().filter(|m| m.name() == name).collect();
        let mut builder = RingBufferBuilder::new();
        for map in &maps {
            let arrived = Arc::clone(&arrived);
            builder
                .add(map, move |bytes| {
                    lock(&arrived).push(bytes.to_vec());
                    0
                })
                .map_err(|e| refused(what, &e))?;
        }
        let ring = builder.build().map_err(|e| refused(what, &e))?;
        Ok(Self {
            ring,
            arrived,
            what,
        })
    }

    /// Hands over what came since the last call, in order and as `read` reads
    /// it, and answers how many records that were. Does not wait.
    ///
    /// # Errors
    /// If it cannot be read, or holds what `read` refuses.
    pub(crate) fn poll<T>(
        &self,
        read: impl Fn(&[u8]) -> Result<T, BpfError>,
        mut each: impl FnMut(T),
    ) -> Result<usize, BpfError> {
        let consumed = self.ring.consume();
        let records = std::mem::take(&mut *lock(&self.arrived));
        for record in &records {
            each(read(record)?);
        }
        consumed.map_err(|e| refused(self.what, &e))?;
        Ok(records.len())
    }
}

fn lock(arrived: &Arrived) -> MutexGuard<'_, Vec<Vec<u8>>> {
    // What is inside stays usable if a thread died with it.
    arrived.lock().unwrap_or_else(PoisonError::into_inner)
}

/// The first 64 bits of the first entry of `object`'s map `name`.
///
/// # Errors
/// If the kernel does not answer, or there is no such entry.
pub(crate) fn counter(object: &Object, name: &str, what: &str) -> Result<u64, BpfError> {
    let map = object.maps().find(|m| m.name() == name);
    let value = map
        .map(|m| m.lookup(&0u32.to_ne_bytes(), MapFlags::ANY))
        .transpose()
        .map_err(|e| refused(what, &e))?
        .flatten();
    let bytes = value.and_then(|v| v.first_chunk::<8>().copied());
    bytes.map(u64::from_ne_bytes).ok_or(BpfError::Refused {
        what: what.to_owned(),
        why: "the map has no such entry".to_owned(),
    })
}
