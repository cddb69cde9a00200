//! What a packet counts on the wire for which CAKE shapes.
//!
//! Keywords from tc-cake(8) and iproute2 tc/q_cake.c; arithmetic from Linux
//! net/sched/sch_cake.c v6.17 (`cake_calc_overhead`).

use narrows_core::Packet;

/// Cells or code words that packets are put into.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Cells {
    /// None.
    #[default]
    None,
    /// ATM: cells of 53 bytes with 48 of the packet, ITU-T I.361.
    Atm,
    /// PTM: 65 bytes for each 64, or part of 64, ITU-T G.992.3 Annex N. That is what Linux
    /// counts; on the wire code words go on across packets.
    Ptm,
}

/// The words for them.
pub(super) const CELLS: &[(&str, Cells)] = &[
    ("noatm", Cells::None),
    ("atm", Cells::Atm),
    ("ptm", Cells::Ptm),
];

/// What a keyword stands for, in words of tc-cake(8).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Preset {
    pub name: &'static str,
    /// Bytes that it adds to those of the keywords before it.
    pub adds: i16,
    /// A length in bytes below which no packet is.
    pub mpu: Option<u16>,
    pub cells: Option<Cells>,
}

impl Preset {
    const fn of(name: &'static str, adds: i16, cells: Option<Cells>) -> Self {
        Self {
            name,
            adds,
            mpu: None,
            cells,
        }
    }

    const fn with_mpu(self, mpu: u16) -> Self {
        Self {
            mpu: Some(mpu),
            ..self
        }
    }
}

/// The keywords that add up.
pub(super) const PRESETS: &[Preset] = &[
    // tc-cake(8) calls it `noatm`; tc leaves the cells as they are.
    Preset::of("ethernet", 38, None).with_mpu(84),
    Preset::of("ether-vlan", 4, None),
    Preset::of("docsis", 18, Some(Cells::None)).with_mpu(64),
    Preset::of("pppoa-vcmux", 10, Some(Cells::Atm)),
    Preset::of("pppoa-llc", 14, Some(Cells::Atm)),
    Preset::of("pppoe-vcmux", 32, Some(Cells::Atm)),
    Preset::of("pppoe-llcsnap", 40, Some(Cells::Atm)),
    Preset::of("bridged-vcmux", 24, Some(Cells::Atm)),
    Preset::of("bridged-llcsnap", 32, Some(Cells::Atm)),
    Preset::of("ipoa-vcmux", 8, Some(Cells::Atm)),
    Preset::of("ipoa-llcsnap", 16, Some(Cells::Atm)),
    Preset::of("pppoe-ptm", 30, Some(Cells::Ptm)),
    Preset::of("bridged-ptm", 22, Some(Cells::Ptm)),
];

/// Bytes of `conservative`: a whole cell.
pub(super) const CONSERVATIVE: i16 = 48;

/// What is counted for each packet.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Framing {
    /// Bytes added, from −64 to 256.
    pub overhead: i16,
    /// Whether they are added to the IP packet; otherwise to what the link counts for it.
    pub from_ip: bool,
    /// A length in bytes below which no packet is, from 0 to 256.
    pub mpu: u16,
    /// What is then divided into cells.
    pub cells: Cells,
}

impl Framing {
    /// Bytes that `packet` counts, for which the link counts `link_overhead` bytes beside
    /// the IP packet.
    pub(super) fn length(self, packet: &Packet, link_overhead: u32) -> u32 {
        let counted = match self.from_ip {
            true => packet.len(),
            false => packet.len() + link_overhead,
        };
        // A packet shorter than a negative overhead counts nothing; Linux wraps round.
        let length = counted.saturating_add_signed(self.overhead.into());
        let length = length.max(self.mpu.into());
        match self.cells {
            Cells::None => length,
            Cells::Atm => length.div_ceil(48) * 53,
            Cells::Ptm => length + length.div_ceil(64),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn packet(length: u32) -> Packet {
        Packet {
            zero_tail: length,
            ..Packet::default()
        }
    }

    /// Bytes on the wire, counted cell by cell and code word by code word.
    fn counted(length: u32, overhead: i32, mpu: u32, cells: Cells) -> u32 {
        let mut left = (length as i32 + overhead).max(mpu as i32);
        let mut wire = 0;
        match cells {
            Cells::None => wire = left,
            Cells::Atm => {
                while left > 0 {
                    left -= 48;
                    wire += 5 + 48;
                }
            }
            Cells::Ptm => {
                wire = left;
                while left > 0 {
                    left -= 64;
                    wire += 1;
                }
            }
        }
        wire as u32
    }

    #[test]
    fn framing_is_that_of_cells_and_code_words_counted_one_by_one() {
        for cells in [Cells::None, Cells::Atm, Cells::Ptm] {
            for overhead in [-14, 0, 10, 22, 40, 256] {
                for mpu in [0, 64, 84, 256] {
                    let framing = Framing {
                        overhead,
                        from_ip: true,
                        mpu,
                        cells,
                    };
                    for length in 20..=1_500 {
                        assert_eq!(
                            framing.length(&packet(length), 14),
                            counted(length, overhead.into(), mpu.into(), cells),
                            "{framing:?} {length}"
                        );
                    }
                }
            }
        }
    }

    #[test]
    fn framing_counts_from_the_ip_packet_unless_raw() {
        let framing = |from_ip| Framing {
            overhead: 4,
            from_ip,
            ..Framing::default()
        };
        assert_eq!(framing(true).length(&packet(1_000), 14), 1_004);
        assert_eq!(framing(false).length(&packet(1_000), 14), 1_018);
        let short = Framing {
            overhead: -64,
            from_ip: true,
            ..Framing::default()
        };
        assert_eq!(short.length(&packet(40), 14), 0);
    }

    #[test]
    fn some_lengths_by_hand() {
        let of = |name: &str, length| {
            let preset = PRESETS.iter().find(|p| p.name == name).unwrap();
            let framing = Framing {
                overhead: preset.adds,
                from_ip: true,
                mpu: preset.mpu.unwrap_or(0),
                cells: preset.cells.unwrap_or_default(),
            };
            framing.length(&packet(length), 14)
        };
        // 1500 + 40 = 1540, 32.08 cells.
        assert_eq!(of("pppoe-llcsnap", 1_500), 33 * 53);
        // 40 + 8 = 48, one cell; one byte more needs two.
        assert_eq!(of("ipoa-vcmux", 40), 53);
        assert_eq!(of("ipoa-vcmux", 41), 106);
        // 1500 + 30 = 1530, 24 code words: 23 full ones and one of 58 bytes.
        assert_eq!(of("pppoe-ptm", 1_500), 1_530 + 24);
        assert_eq!(of("docsis", 40), 64);
        assert_eq!(of("ethernet", 1_500), 1_538);
        assert_eq!(of("ethernet", 40), 84);
    }
}
