//! A congestion control in the kernel, by whichever build: the one that is compiled in,
//! where the kernel was built with our controls, otherwise a program.

use std::os::fd::BorrowedFd;

use narrows_cc::ControlSpec;

#[cfg(not(all(target_os = "linux", feature = "load", bpf_objects)))]
use crate::absent::{LoadedProgram, ProgramParameters, load_program};
use crate::built_in::{self, BuiltIn, BuiltInParameters};
#[cfg(all(target_os = "linux", feature = "load", bpf_objects))]
use crate::control::{LoadedProgram, ProgramParameters, load_program};
use crate::error::BpfError;
use crate::record::Record;
use crate::{EcnFlags, Trace, Transfer, TransferGoal, check_name};

/// Loads congestion controls.
#[derive(Debug)]
pub struct ControlLoader(());

impl ControlLoader {
    /// Loads `spec` and registers it as `name`, at most
    /// [`NAME_MAX`](crate::NAME_MAX) characters that no other control has.
    ///
    /// A control that needs ECN gives way to the kernel's Reno on a connection
    /// whose handshake ended without it.
    ///
    /// # Errors
    /// If the name does not do or is taken, the caller is not root, or the kernel, which
    /// was not built with the control, has no BTF or lacks what the program uses.
    pub fn load(
        spec: &ControlSpec,
        name: &str,
        ecn: EcnFlags,
        trace: Trace,
    ) -> Result<Loaded, BpfError> {
        check_name(name)?;
        let build = if built_in::has(spec) {
            Build::In(BuiltIn::load(spec, name, ecn, trace)?)
        } else {
            Build::Program(load_program(spec, name, ecn, trace)?)
        };
        Ok(Loaded {
            build,
            spec: spec.clone(),
            name: name.to_owned(),
        })
    }
}

#[derive(Debug)]
enum Build {
    In(BuiltIn),
    Program(LoadedProgram),
}

/// A registered congestion control. Dropping it takes the registration back;
/// sockets that use it keep it until they close.
#[derive(Debug)]
pub struct Loaded {
    build: Build,
    spec: ControlSpec,
    name: String,
}

impl Loaded {
    /// The name for `setsockopt(TCP_CONGESTION)`.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// What the kernel accepted: [`EcnFlags::Classic`] where Accurate ECN was
    /// asked of a kernel without it.
    pub fn ecn(&self) -> EcnFlags {
        match &self.build {
            Build::In(built_in) => built_in.ecn(),
            Build::Program(program) => program.ecn(),
        }
    }

    /// Whether the kernel sends ECT(1) by itself where the control asks for it; otherwise
    /// [`Ect1`](crate::Ect1) does.
    pub fn sends_ect1(&self) -> bool {
        matches!(self.build, Build::In(_))
    }

    /// What sets and reads the options of sockets that use this control, or are to.
    ///
    /// # Errors
    /// If the kernel gives no hold of what keeps them.
    pub fn socket_options(&self) -> Result<SocketOptions, BpfError> {
        Ok(SocketOptions {
            control: self.name.clone(),
            spec: self.spec.clone(),
            parameters: match &self.build {
                Build::In(built_in) => Parameters::In(built_in.parameters()),
                Build::Program(program) => Parameters::Program(program.parameters()?),
            },
        })
    }

    /// Has the connections that programs of `cgroup` (a folder of the second hierarchy of
    /// control groups) open from now on use this control, which is DA-LBE, and reach
    /// `goal` together.
    ///
    /// # Errors
    /// If it is another control, or one that is compiled into the kernel; if the kernel
    /// refuses, or the caller is not root.
    pub fn attach_transfer(
        &self,
        cgroup: BorrowedFd<'_>,
        goal: &TransferGoal,
    ) -> Result<Transfer, BpfError> {
        if self.spec.name() != "dalbe" {
            return Err(BpfError::Refused {
                what: format!("have a transfer by a deadline over `{}`", self.spec),
                why: "only dalbe has a deadline".to_owned(),
            });
        }
        match &self.build {
            Build::In(_) => Err(BpfError::Kernel {
                what: "dalbe is compiled into this kernel, where a control group's connections \
                       cannot be reached"
                    .to_owned(),
                hint: "its options can be set on sockets of scenarios only",
            }),
            Build::Program(program) => program.attach_transfer(&self.spec, cgroup, goal),
        }
    }

    /// Hands over the records since the last call, in order, and answers how many
    /// those were. Does not wait.
    ///
    /// # Errors
    /// If they cannot be read, or something is no record.
    pub fn poll(&mut self, each: impl FnMut(Record)) -> Result<usize, BpfError> {
        match &mut self.build {
            Build::In(built_in) => built_in.poll(each),
            Build::Program(program) => program.poll(each),
        }
    }

    /// How many records were lost because there was no room for them.
    ///
    /// # Errors
    /// If the counter cannot be read.
    pub fn dropped(&self) -> Result<u64, BpfError> {
        match &self.build {
            Build::In(built_in) => built_in.dropped(),
            Build::Program(program) => program.dropped(),
        }
    }
}

#[derive(Clone, Debug)]
enum Parameters {
    In(BuiltInParameters),
    Program(ProgramParameters),
}

/// Options of sockets that use a control.
#[derive(Clone, Debug)]
pub struct SocketOptions {
    control: String,
    spec: ControlSpec,
    parameters: Parameters,
}

impl SocketOptions {
    /// The registered name of the control.
    pub fn control(&self) -> &str {
        &self.control
    }

    /// Sets an option of a socket: before it connects or listens, or while it runs
    /// (`established`). Connections have the options that their listener had. The
    /// value is in the option's own unit, see
    /// [`ControlSpec::option`](narrows_cc::ControlSpec::option).
    ///
    /// # Errors
    /// If there is no such option, it does not take this value, or the kernel
    /// refuses, as for what is no socket.
    pub fn set(
        &self,
        socket: BorrowedFd<'_>,
        name: &str,
        value: u64,
        established: bool,
    ) -> Result<(), BpfError> {
        let mut spec = self.of(socket)?;
        match established {
            true => spec.change_option(name, value),
            false => spec.set_option(name, value),
        }?;
        let block = spec.parameter_block();
        match &self.parameters {
            Parameters::In(parameters) => parameters.write(socket, &block),
            Parameters::Program(parameters) => parameters.write(socket, &block),
        }
    }

    /// What a socket runs: the control with the options that were set on it.
    ///
    /// # Errors
    /// If the kernel refuses, as for what is no socket.
    pub fn of(&self, socket: BorrowedFd<'_>) -> Result<ControlSpec, BpfError> {
        let own = match &self.parameters {
            Parameters::In(parameters) => {
                parameters.read(socket, self.spec.parameter_block().len())
            }
            Parameters::Program(parameters) => parameters.read(socket),
        }?;
        Ok(own.map_or_else(
            || self.spec.clone(),
            |block| self.spec.with_parameter_block(&block),
        ))
    }
}
