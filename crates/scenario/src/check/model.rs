//! The host model's switches: `[host_model]` for all flows, and the table of
//! the same name in a flow.

use narrows_units::{Duration, WordError, Words};

use crate::fields::Fields;
use crate::parts::{Gro, HostModel, PacingUse, Segmentation, SendBuffer, SmallQueues};
use crate::refusal::Refusal;
use crate::tree::Node;

/// What a `host_model` may have.
pub(crate) const MODEL: &[&str] = &[
    "segmentation",
    "gro",
    "tick",
    "pacing",
    "compress_sacks",
    "small_queues",
    "send_buffer",
];

const SEGMENTATION: &str = "`one` or `tso [min_segments N] [gso_max_bytes N]`";
const GRO: &str = "`false`, `true` or `[hold TIME] [max_segments N]`";
const PACING: &str = "`as-algorithm`, `internal`, `fq`, `always` or `never`";
const SMALL_QUEUES: &str = "`off` or `unreported [segment_bytes N]`";
const SEND_BUFFER: &str = "`unlimited` or `auto [max BYTES]`";

/// 17 full segments make 64 KiB; 50 us is about how long a NAPI poll lasts at
/// a few Gbit/s (our choice).
const DEFAULT_GRO: Gro = Gro {
    hold: Duration::from_micros(50),
    max_segments: 17,
};

/// Reads `host_model` of `fields`, if there is one, over `base`.
pub(super) fn read(fields: &Fields<'_>, base: HostModel) -> Result<HostModel, Refusal> {
    let Some(node) = fields.get("host_model") else {
        return Ok(base);
    };
    let fields = Fields::of(node, &fields.name_of("host_model"), MODEL)?;
    let pacing = fields.words("pacing", PACING, |line| {
        let mut words = Words::new(line);
        let word = words.take().ok_or_else(|| words.ended(PACING))?;
        Ok(match word.text {
            "as-algorithm" => PacingUse::AsAlgorithm,
            "internal" => PacingUse::Internal,
            "fq" => PacingUse::Fq,
            "always" => PacingUse::Always,
            "never" => PacingUse::Never,
            other => return Err(WordError::new(word.span(), format!("`{other}`"), PACING)),
        })
    })?;
    Ok(HostModel {
        segmentation: fields
            .words("segmentation", SEGMENTATION, segmentation)?
            .unwrap_or(base.segmentation),
        gro: match fields.get("gro").and_then(Node::as_flag) {
            Some(false) => None,
            Some(true) => Some(DEFAULT_GRO),
            None => fields.words("gro", GRO, gro)?.or(base.gro),
        },
        tick: fields.spelled("tick")?.unwrap_or(base.tick),
        pacing: pacing.unwrap_or(base.pacing),
        compress_sacks: fields
            .flag("compress_sacks")?
            .unwrap_or(base.compress_sacks),
        small_queues: fields
            .words("small_queues", SMALL_QUEUES, small_queues)?
            .unwrap_or(base.small_queues),
        send_buffer: fields
            .words("send_buffer", SEND_BUFFER, send_buffer)?
            .unwrap_or(base.send_buffer),
    })
}

fn segmentation(line: &str) -> Result<Segmentation, WordError> {
    let mut words = Words::new(line);
    let word = words.take().ok_or_else(|| words.ended(SEGMENTATION))?;
    match word.text {
        "one" => {
            words.finish("the end of the line")?;
            Ok(Segmentation::OneSegment)
        }
        "tso" => {
            let Segmentation::Tso {
                mut min_segments,
                mut gso_max_bytes,
            } = HostModel::TSO
            else {
                return Ok(HostModel::TSO);
            };
            while let Some(key) = words.take() {
                match key.text {
                    "min_segments" => min_segments = above_zero(&mut words)?,
                    "gso_max_bytes" => gso_max_bytes = above_zero(&mut words)?,
                    other => {
                        let found = format!("`{other}`");
                        return Err(WordError::new(key.span(), found, SEGMENTATION));
                    }
                }
            }
            Ok(Segmentation::Tso {
                min_segments,
                gso_max_bytes,
            })
        }
        other => {
            let found = format!("`{other}`");
            Err(WordError::new(word.span(), found, SEGMENTATION))
        }
    }
}

fn gro(line: &str) -> Result<Gro, WordError> {
    let mut words = Words::new(line);
    let mut gro = DEFAULT_GRO;
    while let Some(key) = words.take() {
        match key.text {
            "hold" => gro.hold = words.value()?,
            "max_segments" => gro.max_segments = above_zero(&mut words)?,
            other => return Err(WordError::new(key.span(), format!("`{other}`"), GRO)),
        }
    }
    Ok(gro)
}

fn small_queues(line: &str) -> Result<SmallQueues, WordError> {
    match option_of(line, ["off", "unreported"], "segment_bytes", SMALL_QUEUES)? {
        (0, _) => Ok(SmallQueues::Off),
        (_, None) => Ok(HostModel::UNREPORTED),
        (_, Some(segment_bytes)) => Ok(SmallQueues::Unreported { segment_bytes }),
    }
}

fn send_buffer(line: &str) -> Result<SendBuffer, WordError> {
    match option_of(line, ["unlimited", "auto"], "max", SEND_BUFFER)? {
        (0, _) => Ok(SendBuffer::Unlimited),
        (_, None) => Ok(HostModel::AUTO_SEND_BUFFER),
        (_, Some(max)) => Ok(SendBuffer::Auto {
            max: u64::from(max),
        }),
    }
}

/// One of two words, the second of which may be followed by `key` and a number
/// above zero: which word, and the number.
fn option_of(
    line: &str,
    [plain, rich]: [&str; 2],
    key: &str,
    allowed: &'static str,
) -> Result<(usize, Option<u32>), WordError> {
    let mut words = Words::new(line);
    let word = words.take().ok_or_else(|| words.ended(allowed))?;
    if word.text == plain {
        words.finish("the end of the line")?;
        return Ok((0, None));
    }
    if word.text != rich {
        let found = format!("`{}`", word.text);
        return Err(WordError::new(word.span(), found, allowed));
    }
    let mut number = None;
    while let Some(word) = words.take() {
        if word.text != key {
            let found = format!("`{}`", word.text);
            return Err(WordError::new(word.span(), found, allowed));
        }
        number = Some(above_zero(&mut words)?);
    }
    Ok((1, number))
}

fn above_zero(words: &mut Words<'_>) -> Result<u32, WordError> {
    let word = words.peek();
    let number = words.value::<u32>()?;
    match word {
        Some(word) if number == 0 => {
            let allowed = "a whole number above zero";
            Err(WordError::new(word.span(), "`0`", allowed))
        }
        _ => Ok(number),
    }
}

/// `model` in the words of a file: the switches that are not the default's.
pub(crate) fn write(model: &HostModel) -> Vec<(&'static str, String)> {
    let default = HostModel::default();
    let mut lines = Vec::new();
    if model.segmentation != default.segmentation {
        let words = match model.segmentation {
            Segmentation::OneSegment => "one".to_owned(),
            Segmentation::Tso {
                min_segments,
                gso_max_bytes,
            } => format!("tso min_segments {min_segments} gso_max_bytes {gso_max_bytes}"),
        };
        lines.push(("segmentation", format!("\"{words}\"")));
    }
    if model.gro != default.gro {
        let words = match model.gro {
            None => "false".to_owned(),
            Some(gro) => format!("\"hold {} max_segments {}\"", gro.hold, gro.max_segments),
        };
        lines.push(("gro", words));
    }
    if model.tick != default.tick {
        lines.push(("tick", format!("\"{}\"", model.tick)));
    }
    if model.pacing != default.pacing {
        let word = match model.pacing {
            PacingUse::AsAlgorithm => "as-algorithm",
            PacingUse::Internal => "internal",
            PacingUse::Fq => "fq",
            PacingUse::Always => "always",
            PacingUse::Never => "never",
        };
        lines.push(("pacing", format!("\"{word}\"")));
    }
    if model.compress_sacks != default.compress_sacks {
        lines.push(("compress_sacks", model.compress_sacks.to_string()));
    }
    if model.small_queues != default.small_queues {
        let words = match model.small_queues {
            SmallQueues::Off => "off".to_owned(),
            SmallQueues::Unreported { segment_bytes } => {
                format!("unreported segment_bytes {segment_bytes}")
            }
        };
        lines.push(("small_queues", format!("\"{words}\"")));
    }
    if model.send_buffer != default.send_buffer {
        let words = match model.send_buffer {
            SendBuffer::Unlimited => "unlimited".to_owned(),
            SendBuffer::Auto { max } => format!("auto max {max}"),
        };
        lines.push(("send_buffer", format!("\"{words}\"")));
    }
    lines
}
