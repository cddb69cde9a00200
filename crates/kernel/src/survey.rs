//! The programs that a build runs, and the headers that programs of the kernel's tree are
//! compiled with.

use std::env;
use std::path::PathBuf;

/// A program, or a header, that a build needs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Tool {
    /// What it is called.
    pub name: &'static str,
    /// The package of Debian that has it.
    pub package: &'static str,
    /// Needed for sources in Debian's packages alone.
    pub for_packages: bool,
}

const fn tool(name: &'static str, package: &'static str, for_packages: bool) -> Tool {
    Tool {
        name,
        package,
        for_packages,
    }
}

/// All of them. The kernel's own list is Documentation/process/changes.rst; user-mode
/// Linux without modules needs these of it.
pub const TOOLS: [Tool; 14] = [
    tool("make", "make", false),
    tool("gcc", "gcc", false),
    tool("ld", "binutils", false),
    tool("flex", "flex", false),
    tool("bison", "bison", false),
    tool("bc", "bc", false),
    tool("gzip", "gzip", false),
    // For the types of the kernel (BTF).
    tool("pahole", "dwarves", false),
    tool("gelf.h", "libelf-dev", false),
    tool("zlib.h", "zlib1g-dev", false),
    tool("tar", "tar", true),
    tool("xz", "xz-utils", true),
    tool("apt-get", "apt", true),
    tool("dpkg-deb", "dpkg", true),
];

/// Where the compiler looks for headers.
const INCLUDES: [&str; 2] = ["/usr/include", "/usr/local/include"];

/// Those that are not there.
pub fn missing() -> Vec<Tool> {
    let path = env::var_os("PATH").unwrap_or_default();
    let programs: Vec<PathBuf> = env::split_paths(&path).collect();
    let headers = INCLUDES.map(PathBuf::from);
    let is_there = |name: &str| {
        let folders: &[_] = match name.ends_with(".h") {
            true => &headers,
            false => &programs,
        };
        folders.iter().any(|folder| folder.join(name).is_file())
    };
    let absent = TOOLS.iter().filter(|tool| !is_there(tool.name));
    absent.copied().collect()
}

/// The command that installs `tools` on Debian.
pub fn remedy(tools: &[Tool]) -> String {
    let packages: Vec<_> = tools.iter().map(|tool| tool.package).collect();
    format!("apt-get install {}", packages.join(" "))
}
