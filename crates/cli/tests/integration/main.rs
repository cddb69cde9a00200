//! The command line as a user has it: one program, so that it is linked once.

#[cfg(target_os = "linux")]
mod by;
#[cfg(target_os = "linux")]
mod cluster;
mod collection;
mod command_line;
mod compiled;
mod completion;
mod descriptors;
#[cfg(target_os = "linux")]
mod device_gone;
mod guide;
mod help;
mod house;
#[cfg(target_os = "linux")]
mod interrupted;
#[cfg(target_os = "linux")]
mod kernel;
mod kernel_store;
#[cfg(target_os = "linux")]
mod live;
#[cfg(target_os = "linux")]
mod live_killed;
#[cfg(target_os = "linux")]
mod live_refused;
#[cfg(target_os = "linux")]
mod live_unprivileged;
#[cfg(target_os = "linux")]
mod machine_rig;
#[cfg(target_os = "linux")]
mod mark;
mod mmb;
#[cfg(target_os = "linux")]
mod mmb_attach;
#[cfg(target_os = "linux")]
mod mmb_detect;
#[cfg(target_os = "linux")]
mod mmb_reload;
mod observe;
mod observe_captures;
#[cfg(target_os = "linux")]
mod observe_live;
mod observing;
mod oldest_compiler;
#[cfg(target_os = "linux")]
mod ownership;
#[cfg(target_os = "linux")]
mod packages;
#[cfg(target_os = "linux")]
mod pair;
#[cfg(target_os = "linux")]
mod pmtud;
mod program;
#[cfg(target_os = "linux")]
mod readme;
mod refusals;
#[cfg(target_os = "linux")]
mod rights;
#[cfg(target_os = "linux")]
mod setup;
#[cfg(target_os = "linux")]
mod shell;
#[cfg(target_os = "linux")]
mod shell_names;
#[cfg(target_os = "linux")]
mod slurm;
#[cfg(target_os = "linux")]
mod store;
#[cfg(target_os = "linux")]
mod sweep;
#[cfg(target_os = "linux")]
mod testbed;
#[cfg(target_os = "linux")]
mod traffic;
mod tree;
#[cfg(target_os = "linux")]
mod up;
#[cfg(target_os = "linux")]
mod up_status;
#[cfg(target_os = "linux")]
mod up_unprivileged;
mod version;
#[cfg(target_os = "linux")]
mod web;
#[cfg(target_os = "linux")]
mod web_page;
mod words_of_the_field;
#[cfg(target_os = "linux")]
mod written_whole;
