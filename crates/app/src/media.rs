//! What a call sends: frames of speech or pictures at constant times, each as a burst of
//! packets.

use std::fmt;

use narrows_units::{Duration, Rate, WordError, Words};

use crate::spec::above_zero;

/// Time of a G.711 packet's speech (RFC 3551 §4.2: the default packetisation).
const VOICE_PERIOD: Duration = Duration::from_millis(20);

/// Its payload over UDP in bytes: 64 kbit/s for that time, and RTP's header.
const VOICE_BYTES: u32 = 160 + 12;

/// The largest payload of a packet in bytes: what WebRTC splits frames into, so that every path
/// carries them.
const PACKET: u64 = 1_200;

/// The smallest frame in bytes (our choice): the head of its packet and something behind it.
const SMALLEST: u64 = 64;

/// Bit rate of video by default: the upper end of the Skype call of l4s-tests (1.8 to 2.3 Mbit/s by its
/// captures), payload over UDP.
const VIDEO_RATE: Rate = Rate::from_bits(2_300_000);

/// The highest bit rate (our choice): that of uncompressed pictures of 4K.
const FASTEST: Rate = Rate::from_mbit(10_000);

/// Most packets of a frame, which has their numbers in 16 bits.
const MOST_PACKETS: u64 = 1 << 16;

/// Frames a second by default: what webcams give.
const FPS: u32 = 30;

/// From one key frame to the next by default (our choice).
const KEY: Duration = Duration::from_secs(10);

/// How many times larger than others a key frame is by default (our choice).
const KEY_TIMES: u32 = 5;

pub(crate) const MEDIA: &str = "voice, or video [rate RATE] [fps NUMBER] [key TIME] [times NUMBER]";

/// What is sent: speech or pictures.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Media {
    /// G.711: a packet each 20 ms.
    Voice,
    Video(Video),
}

/// Pictures.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Video {
    /// Mean rate of payload over UDP.
    rate: Rate,
    fps: u32,
    /// From one key frame to the next.
    key: Duration,
    /// How many times larger a key frame is.
    times: u32,
}

impl Default for Video {
    fn default() -> Self {
        Self {
            rate: VIDEO_RATE,
            fps: FPS,
            key: KEY,
            times: KEY_TIMES,
        }
    }
}

impl Media {
    /// Reads its words.
    ///
    /// # Errors
    /// When they are none.
    pub(crate) fn parse(words: &mut Words<'_>) -> Result<Self, WordError> {
        let word = words.needed(MEDIA)?;
        match word.text {
            "voice" => return Ok(Self::Voice),
            "video" => {}
            _ => return Err(word.refused(MEDIA)),
        }
        let mut video = Video::default();
        while let Some(key) = words.peek() {
            words.take();
            match key.text {
                "rate" => {
                    let fits = |rate: &Rate| (1..=FASTEST.as_bits()).contains(&rate.as_bits());
                    video.rate = words.checked_value("above zero, up to 10Gbit", fits)?;
                }
                "fps" => {
                    video.fps = words.checked_value("1 to 240", |n| (1..=240).contains(n))?;
                }
                "key" => video.key = above_zero(words, Duration::as_nanos)?,
                "times" => {
                    video.times = words.checked_value("1 to 100", |n| (1..=100).contains(n))?;
                }
                _ => return Err(key.refused("rate RATE, fps NUMBER, key TIME or times NUMBER")),
            }
        }
        let least = video.total(2) - video.total(1);
        if least < SMALLEST {
            let found = format!("frames of {least} bytes");
            let allowed = format!("a rate that gives each frame at least {SMALLEST} bytes");
            return Err(WordError::new(word.span(), found, allowed));
        }
        let most = video.total(1);
        if most > MOST_PACKETS * PACKET {
            let found = format!("key frames of {most} bytes");
            let allowed = format!("key frames of at most {} bytes", MOST_PACKETS * PACKET);
            return Err(WordError::new(word.span(), found, allowed));
        }
        Ok(Self::Video(video))
    }

    /// From the start to frame `n`: without drift.
    pub(crate) fn due(self, n: u64) -> Duration {
        match self {
            Self::Voice => VOICE_PERIOD * n,
            Self::Video(video) => {
                let nanos = u128::from(n) * 1_000_000_000 / u128::from(video.fps);
                Duration::from_nanos(u64::try_from(nanos).unwrap_or(u64::MAX))
            }
        }
    }

    /// Frames that are due in `time`.
    pub(crate) fn frames_in(self, time: Duration) -> u64 {
        let nanos = u128::from(time.as_nanos());
        let frames = match self {
            Self::Voice => nanos.div_ceil(u128::from(VOICE_PERIOD.as_nanos())),
            Self::Video(video) => (nanos * u128::from(video.fps)).div_ceil(1_000_000_000),
        };
        u64::try_from(frames).unwrap_or(u64::MAX)
    }

    /// Bytes of payload of each packet of frame `n`.
    pub(crate) fn packets(self, n: u64) -> impl ExactSizeIterator<Item = u32> {
        let bytes = match self {
            Self::Voice => u64::from(VOICE_BYTES),
            Self::Video(video) => video.total(n + 1) - video.total(n),
        };
        // As evenly as they go, as WebRTC's packetisers have it.
        let count = bytes.div_ceil(PACKET).max(1);
        let count = u32::try_from(count).unwrap_or(u32::MAX);
        let (each, more) = (bytes / u64::from(count), bytes % u64::from(count));
        (0..count).map(move |i| each as u32 + u32::from(u64::from(i) < more))
    }

    /// Time of the speech in a packet, which waits for all of it; `None` of pictures.
    pub(crate) const fn speech(self) -> Option<Duration> {
        match self {
            Self::Voice => Some(VOICE_PERIOD),
            Self::Video(_) => None,
        }
    }
}

impl Video {
    /// Bytes of the first `n` frames: of each `period` of them the first weighs `times` as much
    /// as another, and together they have the mean rate.
    fn total(&self, n: u64) -> u64 {
        let (n, times) = (u128::from(n), u128::from(self.times));
        let period = u128::from(self.key.as_nanos()) * u128::from(self.fps) / 1_000_000_000;
        let period = period.max(1);
        let weight = n + (times - 1) * n.div_ceil(period);
        let bytes = u128::from(self.rate.as_bits()) * weight * period;
        let bytes = bytes / (8 * u128::from(self.fps) * (period - 1 + times));
        u64::try_from(bytes).unwrap_or(u64::MAX)
    }
}

impl fmt::Display for Media {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Voice => f.write_str("voice"),
            Self::Video(Video {
                rate,
                fps,
                key,
                times,
            }) => {
                write!(f, "video rate {rate} fps {fps} key {key} times {times}")
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn media(line: &str) -> Media {
        Media::parse(&mut Words::new(line)).unwrap_or_else(|e| panic!("{line}: {e}"))
    }

    #[test]
    fn speech_is_a_packet_of_172_bytes_each_20_ms() {
        let voice = media("voice");
        assert_eq!(voice.due(50), Duration::from_secs(1));
        assert_eq!(voice.packets(7).collect::<Vec<_>>(), [172]);
        assert_eq!(voice.frames_in(Duration::from_millis(21)), 2);
        assert_eq!(voice.speech(), Some(Duration::from_millis(20)));
    }

    #[test]
    fn video_has_its_mean_rate_in_frames_of_packets_up_to_1200_bytes() {
        let video = media("video");
        // 20 s: 600 frames, two of which are key frames.
        assert_eq!(video.due(600), Duration::from_secs(20));
        let sizes: Vec<u64> = (0..600)
            .map(|n| video.packets(n).map(u64::from).sum())
            .collect();
        let total: u64 = sizes.iter().sum();
        assert_eq!(total, 20 * 2_300_000 / 8);
        // An ordinary frame has 300 / 304 of the mean, 9583 bytes; a key frame five times that.
        for (n, size) in sizes.iter().enumerate() {
            let expected = if n % 300 == 0 { 47_286 } else { 9_457 };
            assert!(size.abs_diff(expected) <= 1, "{n}: {size}");
        }
        let packets: Vec<u32> = video.packets(1).collect();
        assert_eq!(packets.len(), 8);
        assert!(
            packets.iter().all(|p| (1_182..=1_183).contains(p)),
            "{packets:?}"
        );
        assert_eq!(video.speech(), None);
    }

    #[test]
    fn frames_do_not_drift() {
        let video = media("video fps 30");
        assert_eq!(video.due(1).as_nanos(), 33_333_333);
        assert_eq!(video.due(30_000), Duration::from_secs(1_000));
        assert_eq!(video.frames_in(Duration::from_secs(1_000)), 30_000);
    }

    #[test]
    fn words_print_back_and_wrong_ones_are_refused_at_their_place() {
        let words = "video rate 1Mbit fps 25 key 4s times 3";
        assert_eq!(media(words).to_string(), words);
        assert_eq!(
            media("video fps 25 rate 1Mbit times 3 key 4s"),
            media(words)
        );
        for (line, at) in [
            ("", ""),
            ("fax", "fax"),
            ("video rate 0bit", "0bit"),
            ("video fps 0", "0"),
            ("video fps 241", "241"),
            ("video key 0s", "0s"),
            ("video times 0", "0"),
            ("video 2Mbit", "2Mbit"),
            ("video rate 1Kbit", "video"),
            ("video rate 1000Gbit", "1000Gbit"),
            ("video rate 10Gbit fps 1 times 100", "video"),
        ] {
            let error = Media::parse(&mut Words::new(line)).expect_err(line);
            assert_eq!(&line[error.span.clone()], at, "{line}: {error}");
        }
    }
}
