//! The host model's switches: `[host_model]` for all flows, and the table of
//! the same name in a flow.

use narrows_units::{Duration, WordError, Words, word_for};

use crate::document::{self, At, Besides, Grammar, Gros, Places, Scalar, Spelled, unless};
use crate::parts::{
    Gro, HostModel, MtuProbing, MtuProbingUse, PacingUse, ReceiveTuning, Segmentation, SendBuffer,
    SmallQueues,
};
use crate::refusal::Refusal;

const SEGMENTATION: &str = "`one` or `tso [min_segments N] [gso_max_bytes N] [defer TIME]`";
const GRO: &str = "`false`, `true` or `[hold TIME] [max_segments N]`";
const PACING: &str = "`as-algorithm`, `internal`, `fq`, `always` or `never`";
const SMALL_QUEUES: &str = "`off` or `unreported [segment_bytes N]`";
const SEND_BUFFER: &str = "`unlimited` or `auto [max BYTES]`";
const MTU_PROBING: &str = "`off`, `black-hole` or `always`, and behind the latter two `[base_mss \
                           BYTES] [floor BYTES] [interval TIME] [threshold BYTES]`";
const RECEIVE_TUNING: &str = "`v6.15` or `v6.18`";
/// Bytes of an MSS: `TCP_MIN_SND_MSS` to what the longest packet carries.
const MSS: std::ops::RangeInclusive<u32> = 48..=65_495;

/// 17 full segments make 64 KiB; 50 us is about how long a NAPI poll lasts at
/// a few Gbit/s (our choice).
const DEFAULT_GRO: Gro = Gro {
    hold: Duration::from_micros(50),
    max_segments: 17,
};

/// What `given` says, over `base`.
pub(super) fn read(
    places: &Places,
    given: &At<document::HostModel>,
    base: HostModel,
) -> Result<HostModel, Refusal> {
    Ok(HostModel {
        segmentation: *places
            .parsed(&given.segmentation)?
            .unwrap_or(&base.segmentation),
        gro: places.parsed(&given.gro)?.map_or(base.gro, |gro| gro.0),
        tick: given.tick.as_ref().map_or(base.tick, |at| at.0),
        pacing: *places.parsed(&given.pacing)?.unwrap_or(&base.pacing),
        compress_sacks: *given
            .compress_sacks
            .as_deref()
            .unwrap_or(&base.compress_sacks),
        small_queues: *places
            .parsed(&given.small_queues)?
            .unwrap_or(&base.small_queues),
        send_buffer: *places
            .parsed(&given.send_buffer)?
            .unwrap_or(&base.send_buffer),
        mtu_probing: *places
            .parsed(&given.mtu_probing)?
            .unwrap_or(&base.mtu_probing),
        receive_tuning: *places
            .parsed(&given.receive_tuning)?
            .unwrap_or(&base.receive_tuning),
    })
}

/// The switches of `model` that are not as they are when nothing is said.
pub(crate) fn document(model: &HostModel) -> Option<document::HostModel> {
    let usual = HostModel::default();
    (*model != usual).then(|| document::HostModel {
        segmentation: switch(model.segmentation, usual.segmentation, segmentation_words),
        gro: match model.gro {
            None => unless(
                usual.gro.is_none(),
                document::Words::plain(Gros(None), Scalar::Flag(false)),
            ),
            gro => switch(Gros(gro), Gros(usual.gro), |value| gro_words(value.0)),
        },
        tick: unless(model.tick == usual.tick, Spelled(model.tick)),
        pacing: switch(model.pacing, usual.pacing, pacing_words),
        compress_sacks: unless(
            model.compress_sacks == usual.compress_sacks,
            model.compress_sacks,
        ),
        small_queues: switch(model.small_queues, usual.small_queues, small_queues_words),
        send_buffer: switch(model.send_buffer, usual.send_buffer, send_buffer_words),
        mtu_probing: switch(model.mtu_probing, usual.mtu_probing, mtu_probing_words),
        receive_tuning: switch(
            model.receive_tuning,
            usual.receive_tuning,
            receive_tuning_words,
        ),
    })
}

/// Every switch of `model` and how it stands, as `[host_model]` has them: `segmentation` and
/// `one`, for instance.
pub fn host_model_words(model: &HostModel) -> [(&'static str, String); 9] {
    [
        ("segmentation", segmentation_words(model.segmentation)),
        ("gro", gro_words(model.gro)),
        ("tick", model.tick.to_string()),
        ("pacing", pacing_words(model.pacing)),
        ("compress_sacks", model.compress_sacks.to_string()),
        ("small_queues", small_queues_words(model.small_queues)),
        ("send_buffer", send_buffer_words(model.send_buffer)),
        ("mtu_probing", mtu_probing_words(model.mtu_probing)),
        ("receive_tuning", receive_tuning_words(model.receive_tuning)),
    ]
}

fn segmentation_words(value: Segmentation) -> String {
    match value {
        Segmentation::OneSegment => "one".to_owned(),
        Segmentation::Tso {
            min_segments,
            gso_max_bytes,
            defer,
        } => {
            format!("tso min_segments {min_segments} gso_max_bytes {gso_max_bytes} defer {defer}")
        }
    }
}

fn gro_words(value: Option<Gro>) -> String {
    match value {
        None => "false".to_owned(),
        Some(gro) => format!("hold {} max_segments {}", gro.hold, gro.max_segments),
    }
}

fn pacing_words(value: PacingUse) -> String {
    word_for(&PACINGS, &value).to_owned()
}

fn receive_tuning_words(value: ReceiveTuning) -> String {
    word_for(&RECEIVE_TUNINGS, &value).to_owned()
}

fn small_queues_words(value: SmallQueues) -> String {
    match value {
        SmallQueues::Off => "off".to_owned(),
        SmallQueues::Unreported { segment_bytes } => {
            format!("unreported segment_bytes {segment_bytes}")
        }
    }
}

fn send_buffer_words(value: SendBuffer) -> String {
    match value {
        SendBuffer::Unlimited => "unlimited".to_owned(),
        SendBuffer::Auto { max } => format!("auto max {max}"),
    }
}

fn mtu_probing_words(value: MtuProbing) -> String {
    let MtuProbing {
        when,
        base_mss,
        floor,
        interval,
        threshold,
    } = value;
    match word_for(&MTU_PROBINGS, &when) {
        "off" => "off".to_owned(),
        when => format!(
            "{when} base_mss {base_mss} floor {floor} interval {interval} threshold {threshold}"
        ),
    }
}

fn switch<T: Copy + PartialEq>(
    value: T,
    usual: T,
    words: impl Fn(T) -> String,
) -> document::Optional<document::Words<T>> {
    (value != usual).then(|| document::Words::of(value, words(value)).into())
}

const PACINGS: [(&str, PacingUse); 5] = [
    ("as-algorithm", PacingUse::AsAlgorithm),
    ("internal", PacingUse::Internal),
    ("fq", PacingUse::Fq),
    ("always", PacingUse::Always),
    ("never", PacingUse::Never),
];

const RECEIVE_TUNINGS: [(&str, ReceiveTuning); 2] = [
    ("v6.15", ReceiveTuning::V6_15),
    ("v6.18", ReceiveTuning::V6_18),
];

const MTU_PROBINGS: [(&str, MtuProbingUse); 3] = [
    ("off", MtuProbingUse::Off),
    ("black-hole", MtuProbingUse::BlackHole),
    ("always", MtuProbingUse::Always),
];

fn mtu_probing(line: &str) -> Result<MtuProbing, WordError> {
    let mut words = Words::new(line);
    let word = words.needed(MTU_PROBING)?;
    let known = MTU_PROBINGS.iter().find(|(name, _)| *name == word.text);
    let Some((_, when)) = known else {
        return Err(word.refused(MTU_PROBING));
    };
    let mut probing = MtuProbing {
        when: *when,
        ..MtuProbing::default()
    };
    if *when == MtuProbingUse::Off {
        words.finish("the end of the line")?;
        return Ok(probing);
    }
    let mss = |words: &mut Words<'_>| {
        words.checked_value("48 to 65495 bytes", |bytes| MSS.contains(bytes))
    };
    while let Some(key) = words.take() {
        match key.text {
            "base_mss" => probing.base_mss = mss(&mut words)?,
            "floor" => probing.floor = mss(&mut words)?,
            "interval" => probing.interval = words.value()?,
            "threshold" => probing.threshold = above_zero(&mut words)?,
            _ => return Err(key.refused(MTU_PROBING)),
        }
    }
    Ok(probing)
}

fn pacing(line: &str) -> Result<PacingUse, WordError> {
    one_of(&PACINGS, line, PACING)
}

fn receive_tuning(line: &str) -> Result<ReceiveTuning, WordError> {
    one_of(&RECEIVE_TUNINGS, line, RECEIVE_TUNING)
}

/// What the one word of `line` means.
fn one_of<T: Copy>(words: &[(&str, T)], line: &str, allowed: &'static str) -> Result<T, WordError> {
    let found = words.iter().find(|(name, _)| *name == line.trim());
    let found = found.map(|(_, value)| *value);
    found.ok_or_else(|| document::no_such(line, allowed))
}

fn gros(line: &str) -> Result<Gros, WordError> {
    Ok(Gros(match line {
        "false" | "off" => None,
        "true" | "on" => Some(DEFAULT_GRO),
        _ => Some(gro(line)?),
    }))
}

macro_rules! grammars {
    ($($type:ty, $read:ident, $allowed:ident, $besides:ident;)*) => {$(
        impl Grammar for $type {
            const ALLOWED: &'static str = $allowed;
            const BESIDES: Besides = Besides::$besides;

            fn read(line: &str) -> Result<Self, WordError> {
                $read(line)
            }
        }
    )*};
}

grammars! {
    Segmentation, segmentation, SEGMENTATION, Nothing;
    Gros, gros, GRO, Flag;
    PacingUse, pacing, PACING, Nothing;
    SmallQueues, small_queues, SMALL_QUEUES, Nothing;
    SendBuffer, send_buffer, SEND_BUFFER, Nothing;
    MtuProbing, mtu_probing, MTU_PROBING, Nothing;
    ReceiveTuning, receive_tuning, RECEIVE_TUNING, Nothing;
}

fn segmentation(line: &str) -> Result<Segmentation, WordError> {
    let mut words = Words::new(line);
    let word = words.needed(SEGMENTATION)?;
    match word.text {
        "one" => {
            words.finish("the end of the line")?;
            Ok(Segmentation::OneSegment)
        }
        "tso" => {
            let Segmentation::Tso {
                mut min_segments,
                mut gso_max_bytes,
                mut defer,
            } = HostModel::TSO
            else {
                return Ok(HostModel::TSO);
            };
            while let Some(key) = words.take() {
                match key.text {
                    "min_segments" => min_segments = above_zero(&mut words)?,
                    "gso_max_bytes" => gso_max_bytes = above_zero(&mut words)?,
                    "defer" => defer = words.value()?,
                    _ => return Err(key.refused(SEGMENTATION)),
                }
            }
            Ok(Segmentation::Tso {
                min_segments,
                gso_max_bytes,
                defer,
            })
        }
        _ => Err(word.refused(SEGMENTATION)),
    }
}

fn gro(line: &str) -> Result<Gro, WordError> {
    let mut words = Words::new(line);
    let mut gro = DEFAULT_GRO;
    while let Some(key) = words.take() {
        match key.text {
            "hold" => gro.hold = words.value()?,
            "max_segments" => gro.max_segments = above_zero(&mut words)?,
            _ => return Err(key.refused(GRO)),
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
    let word = words.needed(allowed)?;
    if word.text == plain {
        words.finish("the end of the line")?;
        return Ok((0, None));
    }
    if word.text != rich {
        return Err(word.refused(allowed));
    }
    let mut number = None;
    while let Some(word) = words.take() {
        if word.text != key {
            return Err(word.refused(allowed));
        }
        number = Some(above_zero(&mut words)?);
    }
    Ok((1, number))
}

fn above_zero(words: &mut Words<'_>) -> Result<u32, WordError> {
    words.checked_value("a whole number above zero", |number| *number > 0)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Draft, Refusal};

    /// The host model of the flow of a scenario with these lines in `[host_model]`, and these
    /// keys in the flow.
    fn check(lines: &str, keys: &str) -> Result<HostModel, Refusal> {
        let text = format!(
            "version = 1\nname = \"x\"\nduration = \"9s\"\n[host_model]\n{lines}\n\
             [[link]]\nname = \"l\"\nends = [\"a\", \"b\"]\n\
             [[flow]]\nname = \"f\"\nfrom = \"a\"\nto = \"b\"\ncc = \"cubic\"\n{keys}\n"
        );
        let plan = Draft::read("x.toml", text.as_bytes())?.check()?;
        Ok(plan.flows[0].transport.tcp().expect("TCP").host)
    }

    fn model(lines: &str, keys: &str) -> HostModel {
        check(lines, keys).unwrap_or_else(|e| panic!("{}", e.to_line()))
    }

    #[test]
    fn the_words_of_a_switch_mean_what_they_are_called() {
        let usual = HostModel::default();
        let pacing = |pacing| HostModel { pacing, ..usual };
        let tuning = |receive_tuning| HostModel {
            receive_tuning,
            ..usual
        };
        let probing = |mtu_probing| HostModel {
            mtu_probing,
            ..usual
        };
        let when = |when| MtuProbing {
            when,
            ..MtuProbing::default()
        };
        for (key, words, model_of_them) in [
            ("pacing", "as-algorithm", pacing(PacingUse::AsAlgorithm)),
            ("pacing", "internal", pacing(PacingUse::Internal)),
            ("pacing", "fq", pacing(PacingUse::Fq)),
            ("pacing", "always", pacing(PacingUse::Always)),
            ("pacing", " never ", pacing(PacingUse::Never)),
            ("receive_tuning", "v6.15", tuning(ReceiveTuning::V6_15)),
            ("receive_tuning", "v6.18", tuning(ReceiveTuning::V6_18)),
            ("mtu_probing", "off", probing(when(MtuProbingUse::Off))),
            (
                "mtu_probing",
                "black-hole",
                probing(when(MtuProbingUse::BlackHole)),
            ),
            (
                "mtu_probing",
                "always base_mss 512 floor 100 interval 30s threshold 16",
                probing(MtuProbing {
                    when: MtuProbingUse::Always,
                    base_mss: 512,
                    floor: 100,
                    interval: Duration::from_secs(30),
                    threshold: 16,
                }),
            ),
        ] {
            let found = model(&format!("{key} = \"{words}\""), "");
            assert_eq!(found, model_of_them, "{key} = {words}");
        }
        for (key, words) in [
            ("pacing", "sometimes"),
            ("receive_tuning", "v6.16"),
            ("mtu_probing", "on"),
            ("mtu_probing", "off floor 100"),
            ("mtu_probing", "always ceiling 100"),
            ("mtu_probing", "always floor 47"),
            ("mtu_probing", "always threshold 0"),
        ] {
            let refusal = check(&format!("{key} = \"{words}\""), "").expect_err(words);
            assert_eq!(refusal.key(), format!("host_model/{key}"));
        }
    }

    #[test]
    fn the_switches_of_a_flow_lie_over_those_of_the_scenario() {
        let keys = "host_model = { pacing = \"fq\" }";
        let both = model("tick = \"1ms\"\npacing = \"never\"", keys);
        let over = HostModel {
            tick: Duration::from_millis(1),
            pacing: PacingUse::Fq,
            ..HostModel::default()
        };
        assert_eq!(both, over);
        let alone = HostModel {
            pacing: PacingUse::Fq,
            ..HostModel::default()
        };
        assert_eq!(model("", keys), alone);
    }
}
