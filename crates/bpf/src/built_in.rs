//! A congestion control that was compiled into the kernel that runs
//! (built_in/registry.c): `/proc/narrows` registers it, hands out its records and keeps
//! the parameters of sockets.

use std::fs::{self, File};
use std::io;
use std::os::fd::{AsRawFd, BorrowedFd};
use std::os::unix::fs::FileExt;
use std::sync::Arc;

use narrows_cc::ControlSpec;

use crate::error::BpfError;
use crate::record::{RECORD_BYTES, Record};
use crate::registration::Registration;
use crate::{EcnFlags, Trace};

const FILE: &str = "/proc/narrows";
/// Places in the file, as in built_in/registry.c.
const AT_RECORDS: u64 = 0;
const AT_OPTIONS: u64 = 1 << 40;
const AT_COUNTERS: u64 = 1 << 41;

/// Bytes of a name in `struct nw_request`.
const NAME_BYTES: usize = 16;
/// `EOPNOTSUPP` (asm-generic/errno.h): the kernel does not know a flag.
const NOT_SUPPORTED: i32 = 95;
/// Records that are read at a time.
const AT_ONCE: usize = 256;

/// Whether the kernel that runs was compiled with this algorithm.
pub(crate) fn has(spec: &ControlSpec) -> bool {
    let names = fs::read_to_string(FILE).unwrap_or_default();
    names.lines().any(|name| name == spec.name())
}

/// A registered control. Dropping it takes the registration back; sockets that use it
/// keep it until they close.
#[derive(Debug)]
pub(crate) struct BuiltIn {
    file: Arc<File>,
    ecn: EcnFlags,
    /// Bytes of a record with its telemetry.
    record_bytes: usize,
    /// What is read at a time.
    buffer: Vec<u8>,
}

impl BuiltIn {
    /// Registers `spec` as `name`.
    ///
    /// # Errors
    /// If the name is taken, or the caller is not root.
    pub(crate) fn load(
        spec: &ControlSpec,
        name: &str,
        ecn: EcnFlags,
        trace: Trace,
    ) -> Result<Self, BpfError> {
        let refused = |e: io::Error| BpfError::Refused {
            what: format!("register the congestion control `{name}`, which is built in"),
            why: e.to_string(),
        };
        let file = File::options().read(true).write(true).open(FILE);
        let file = file.map_err(refused)?;
        let register = |ecn| {
            let request = request(spec, name, Registration::of(spec, ecn, trace));
            file.write_at(&request, 0).map(|_| ecn)
        };
        let registered = match (register(ecn), ecn) {
            (Err(e), EcnFlags::AccEcn) if e.raw_os_error() == Some(NOT_SUPPORTED) => {
                register(EcnFlags::Classic)
            }
            (first, _) => first,
        };
        let ecn = registered.map_err(refused)?;
        Ok(Self {
            file: Arc::new(file),
            ecn,
            record_bytes: RECORD_BYTES + spec.telemetry().len() * size_of::<i64>(),
            buffer: Vec::new(),
        })
    }

    /// What the kernel accepted.
    pub(crate) fn ecn(&self) -> EcnFlags {
        self.ecn
    }

    /// Hands over the records since the last call, in order.
    ///
    /// # Errors
    /// If they cannot be read.
    pub(crate) fn poll(&mut self, mut each: impl FnMut(Record)) -> Result<usize, BpfError> {
        self.buffer.resize(self.record_bytes * AT_ONCE, 0);
        let mut count = 0;
        loop {
            let read = self.file.read_at(&mut self.buffer, AT_RECORDS)?;
            for bytes in self.buffer[..read].chunks(self.record_bytes) {
                each(Record::from_bytes(bytes)?);
                count += 1;
            }
            if read < self.buffer.len() {
                return Ok(count);
            }
        }
    }

    /// Records that found no room.
    ///
    /// # Errors
    /// If the counter cannot be read.
    pub(crate) fn dropped(&self) -> Result<u64, BpfError> {
        let mut dropped = [0; 8];
        self.file.read_exact_at(&mut dropped, AT_COUNTERS)?;
        Ok(u64::from_ne_bytes(dropped))
    }

    /// The parameters of sockets.
    pub(crate) fn parameters(&self) -> BuiltInParameters {
        BuiltInParameters(Arc::clone(&self.file))
    }
}

/// Parameter blocks of sockets that use a control, by socket.
#[derive(Clone, Debug)]
pub(crate) struct BuiltInParameters(Arc<File>);

impl BuiltInParameters {
    /// Sets those of `socket`.
    ///
    /// # Errors
    /// If it does not use the control, or is no socket.
    pub(crate) fn write(&self, socket: BorrowedFd<'_>, block: &[u8]) -> Result<(), BpfError> {
        let written = self.0.write_at(block, place(socket));
        written.map(drop).map_err(BpfError::Io)
    }

    /// Those of `socket`, if it has some of its own.
    ///
    /// # Errors
    /// As [`write`](Self::write).
    pub(crate) fn read(
        &self,
        socket: BorrowedFd<'_>,
        bytes: usize,
    ) -> Result<Option<Vec<u8>>, BpfError> {
        let mut block = vec![0; bytes];
        let read = self.0.read_at(&mut block, place(socket))?;
        Ok((read == bytes).then_some(block))
    }
}

/// Where the parameters of a socket are in the file.
fn place(socket: BorrowedFd<'_>) -> u64 {
    // No descriptor that is borrowed is negative.
    AT_OPTIONS + u64::try_from(socket.as_raw_fd()).unwrap_or(u64::from(u32::MAX))
}

/// `struct nw_request` with the parameters behind it.
fn request(spec: &ControlSpec, name: &str, registration: Registration) -> Vec<u8> {
    let block = spec.parameter_block();
    let mut request = Vec::new();
    for text in [spec.name(), name] {
        let mut field = [0; NAME_BYTES];
        let length = text.len().min(NAME_BYTES - 1);
        field[..length].copy_from_slice(&text.as_bytes()[..length]);
        request.extend_from_slice(&field);
    }
    let size = u32::try_from(block.len()).expect("parameters are a few words");
    let words = [registration.flags, size].into_iter();
    for word in words.chain(registration.settings) {
        request.extend_from_slice(&word.to_ne_bytes());
    }
    request.extend_from_slice(&block);
    request
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_request_is_what_the_registry_reads() {
        let spec = ControlSpec::parse("prague").unwrap();
        let block = spec.parameter_block();
        let registration = Registration::of(&spec, EcnFlags::AccEcn, Trace::State);
        let bytes = request(&spec, "nw7k2qa_prague", registration);
        assert_eq!(&bytes[..7], b"prague\0");
        assert_eq!(&bytes[16..31], b"nw7k2qa_prague\0");
        let word = |at: usize| u32::from_ne_bytes(*bytes[at..].first_chunk().unwrap());
        assert_eq!(word(32), 7);
        assert_eq!(word(36) as usize, block.len());
        assert_eq!([40, 44, 48, 52].map(word), [1, 16, 0, 1]);
        assert_eq!(bytes[56..], block);
    }
}
