//! Seeds: what cloud-init finds on a volume called CIDATA (its NoCloud source), the same bytes for the
//! same scenario, program and tokens.

use std::io::{self, Cursor, Write};

use fatfs::{FatType, FileSystem, FormatVolumeOptions, FsOptions, format_volume};
use sha2::{Digest, Sha256};

use super::line::{Line, Role};
use super::orders::{DEVICES, FOLDER, Machine};
use super::packaged::Program;
use super::template::{DAY_0, INSTALL, META_DATA, UNIT, day_1, encoded, filled, quoted};
use super::{CONTROL, PORT};
use crate::secret::Secret;

/// The label by which cloud-init finds the volume.
const LABEL: [u8; 11] = *b"CIDATA     ";

/// Room beside the files on a volume, in bytes: tables and folders.
const BESIDE: usize = 4 << 20;

/// A file of a seed.
#[derive(Clone, PartialEq, Eq)]
pub struct SeedFile {
    /// Its name.
    pub name: &'static str,
    /// What is in it.
    pub bytes: Vec<u8>,
}

impl std::fmt::Debug for SeedFile {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "SeedFile({}, {} bytes)", self.name, self.bytes.len())
    }
}

/// The addresses of a machine's network devices: of the control network, near, far. QEMU's range
/// (52:54:00), then `NW` and who it is.
pub(super) fn hardware_addresses(place: usize) -> [String; 3] {
    [0, 1, 2].map(|device| format!("52:54:00:4e:57:{place}{device}"))
}

/// The files of a machine's seed. Of tokens, one lets requests to the machines in, and the other is
/// what the sink shows the source.
pub fn seed(
    line: &Line,
    machine: &Machine,
    program: &Program,
    webhook: &Secret,
    traffic: &Secret,
) -> Vec<SeedFile> {
    let role = machine.role();
    let files: Vec<String> = (machine.files.iter())
        .map(|(name, text)| {
            let path = quoted(&format!("{FOLDER}/{name}"));
            let content = encoded(text);
            format!(
                "  - path: {path}\n    permissions: \"0644\"\n    encoding: b64\n    content: {content}\n"
            )
        })
        .collect();
    let orders = serde_json::to_string_pretty(&machine.orders).unwrap_or_default();
    let user_data = filled(
        day_1(role),
        &[
            ("orders", &encoded(&orders)),
            ("webhook-token", &quoted(webhook.text())),
            ("traffic-token", &quoted(traffic.text())),
            ("files", files.concat().trim_end()),
        ],
    );
    let unit = filled(UNIT, &[("listen", &format!("{CONTROL}:{PORT}"))]);
    let network = network(line, role);
    // Another content is another instance, which cloud-init sets up anew.
    let mut hash = Sha256::new();
    for part in [
        user_data.as_str(),
        DAY_0,
        INSTALL,
        &unit,
        &network,
        &program.sha256,
    ] {
        hash.update(part);
    }
    let digest: String = hash.finalize()[..8]
        .iter()
        .map(|b| format!("{b:02x}"))
        .collect();
    let meta_data = filled(
        META_DATA,
        &[
            ("instance", &quoted(&format!("narrows-{role}-{digest}"))),
            ("hostname", &quoted(role.word())),
        ],
    );
    let sums = format!("{}  {}\n", program.sha256, program.file);
    let texts = [
        ("meta-data", meta_data),
        ("network-config", network),
        ("vendor-data", DAY_0.to_owned()),
        ("user-data", user_data),
        ("install", INSTALL.to_owned()),
        ("narrows-testbed.service", unit),
        ("SHA256SUMS", sums),
    ];
    let texts = texts.into_iter().map(|(name, text)| SeedFile {
        name,
        bytes: text.into_bytes(),
    });
    let program = SeedFile {
        name: program.file,
        bytes: program.bytes.clone(),
    };
    texts.chain([program]).collect()
}

/// The network by the version 2 of cloud-init's format: names of devices, and the control network's
/// address. What is between the machines is the role's.
fn network(line: &Line, role: Role) -> String {
    let at = line.index(role);
    let [control, near, far] = hardware_addresses(at);
    let mut text = format!(
        "version: 2\nethernets:\n  control:\n    match: {{macaddress: \"{control}\"}}\n    \
         set-name: control\n    dhcp4: false\n    dhcp6: false\n    addresses: [\"{CONTROL}/24\"]\n"
    );
    let last = line.places.len() - 1;
    for (device, address) in [(DEVICES[0], near), (DEVICES[1], far)] {
        if at == if device == DEVICES[0] { 0 } else { last } {
            continue;
        }
        text += &format!(
            "  {device}:\n    match: {{macaddress: \"{address}\"}}\n    set-name: {device}\n    \
             dhcp4: false\n    dhcp6: false\n    optional: true\n"
        );
    }
    text
}

/// A volume of FAT with these files, for a machine to be given as a disk.
///
/// # Errors
/// When the files do not fit, which takes more than 2 GiB.
pub fn volume(files: &[SeedFile]) -> io::Result<Vec<u8>> {
    let needed: usize = files.iter().map(|file| file.bytes.len() + (64 << 10)).sum();
    // Of 64 MiB at least, which FAT32 can be on with clusters of a sector.
    let size = (needed + needed / 64 + BESIDE)
        .max(64 << 20)
        .next_multiple_of(1 << 20);
    let mut disk = Cursor::new(vec![0_u8; size]);
    let options = FormatVolumeOptions::new()
        .fat_type(FatType::Fat32)
        .volume_label(LABEL)
        // The serial number, which else is a clock's.
        .volume_id(0x4e57_0001);
    format_volume(&mut disk, options)?;
    {
        // Without a clock: files are of 1980.
        let system = FileSystem::new(&mut disk, FsOptions::new())?;
        let root = system.root_dir();
        for file in files {
            root.create_file(file.name)?.write_all(&file.bytes)?;
        }
        drop(root);
        system.unmount()?;
    }
    Ok(disk.into_inner())
}

#[cfg(test)]
mod tests {
    use std::io::Read;

    use super::*;

    #[test]
    fn a_volume_has_its_files_by_their_whole_names() {
        let file = |name, text: &str| SeedFile {
            name,
            bytes: text.as_bytes().to_vec(),
        };
        let files = [
            file("meta-data", "one"),
            file("narrows-testbed.service", "two"),
            file("SHA256SUMS", "three"),
            file("install", "four"),
        ];
        let disk = Cursor::new(volume(&files).expect("they fit"));
        let system = FileSystem::new(disk, FsOptions::new()).expect("a file system");
        let read = |entry: std::io::Result<fatfs::DirEntry<'_, _>>| {
            let entry = entry.expect("an entry");
            let mut text = String::new();
            entry.to_file().read_to_string(&mut text).expect("a text");
            (entry.file_name(), text)
        };
        let found: Vec<_> = system.root_dir().iter().map(read).collect();
        let expected = files.map(|file| {
            let text = String::from_utf8(file.bytes).expect("a text");
            (file.name.to_owned(), text)
        });
        assert_eq!(found, expected);
    }
}
