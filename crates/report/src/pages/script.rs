//! The script that makes charts interactive: plotly.js, from the crate
//! `plotly`, which carries it.
//!
//! It is 4.7 MB. A campaign's folder holds it once and its pages name it; the
//! page of a single run must stand alone, so it holds the script compressed,
//! a third of that, and the browser unpacks it (`DecompressionStream`: Chrome
//! 80, Firefox 113, Safari 16.4). Where that fails, the static figures stay.

use std::io::Write;
use std::sync::OnceLock;

/// Where a campaign's folder keeps the script.
pub const SHARED: &str = "assets/plotly.min.js";

/// What the licence of plotly.js asks for, in one line.
pub const NOTICE: &str = "Interactive charts: plotly.js, © Plotly, Inc., MIT licence.";

/// The script's text.
pub fn library() -> &'static str {
    static LIBRARY: OnceLock<String> = OnceLock::new();
    LIBRARY.get_or_init(|| {
        // The crate offers its scripts as tags, plotly.js first and then one
        // for formulas, which charts here do not use.
        let tags = plotly::Plot::offline_js_sources();
        let first = tags.split_once('>').map_or("", |(_, rest)| rest);
        let end = first.find("</script>").unwrap_or(first.len());
        first[..end].to_owned()
    })
}

/// The script compressed, as text that a page can hold.
pub fn packed() -> &'static str {
    static PACKED: OnceLock<String> = OnceLock::new();
    PACKED.get_or_init(|| {
        let mut gzip = flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::new(6));
        // A vector takes all that is written to it.
        let bytes = gzip
            .write_all(library().as_bytes())
            .and_then(|()| gzip.finish())
            .unwrap_or_default();
        base64(&bytes)
    })
}

/// RFC 4648 §4, with padding.
fn base64(bytes: &[u8]) -> String {
    const ALPHABET: &[u8; 64] = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
    let mut text = String::with_capacity(bytes.len().div_ceil(3) * 4);
    for group in bytes.chunks(3) {
        let word = group.iter().enumerate().fold(0u32, |word, (i, byte)| {
            word | u32::from(*byte) << (16 - 8 * i)
        });
        for place in 0..4 {
            if place <= group.len() {
                text.push(char::from(
                    ALPHABET[(word >> (18 - 6 * place)) as usize & 63],
                ));
            } else {
                text.push('=');
            }
        }
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_library_is_plotly_and_nothing_else() {
        let script = library();
        assert!(script.starts_with("/**\n* plotly.js v"));
        assert!(!script.contains("</script") && !script.contains("MathJax.js"));
        assert!((4_000_000..5_500_000).contains(&script.len()));
    }

    #[test]
    fn base64_is_that_of_rfc_4648() {
        let vectors = [
            "", "Zg==", "Zm8=", "Zm9v", "Zm9vYg==", "Zm9vYmE=", "Zm9vYmFy",
        ];
        for (length, encoded) in vectors.iter().enumerate() {
            assert_eq!(base64(&b"foobar"[..length]), *encoded);
        }
    }

    #[test]
    fn the_packed_library_is_a_third_of_it() {
        assert!(packed().len() < library().len() / 2);
    }
}
