//! The script that makes charts interactive: plotly.js, from the crate
//! `plotly`, which carries it.
//!
//! It is 4.7 MB. A campaign's folder holds it once and its pages name it; the
//! page of a single run must be self-contained, so it holds the script compressed,
//! a third of that, and the browser unpacks it (`DecompressionStream`: Chrome
//! 80, Firefox 113, Safari 16.4). Where that fails, the static figures stay.

use std::io::Write;
use std::sync::OnceLock;

use base64::Engine;
use base64::prelude::BASE64_STANDARD;
use flate2::Compression;
use flate2::write::GzEncoder;

/// Where a campaign's folder keeps the script.
pub const SHARED: &str = "assets/plotly.min.js";

/// What the licence of plotly.js asks for, in one line.
pub const NOTICE: &str = "Interactive charts: plotly.js, © Plotly, Inc., MIT licence.";

/// The script's text.
pub fn library() -> &'static str {
    static TAGS: OnceLock<String> = OnceLock::new();
    // The crate offers its scripts as tags, plotly.js first and then one
    // for formulas, which charts here do not use.
    let tags = TAGS.get_or_init(plotly::Plot::offline_js_sources);
    let first = tags.split_once('>').map_or("", |(_, rest)| rest);
    first
        .split_once("</script>")
        .map_or(first, |(text, _)| text)
}

/// The script compressed, as text that a page can hold.
pub fn packed() -> &'static str {
    static PACKED: OnceLock<String> = OnceLock::new();
    PACKED.get_or_init(|| {
        let mut gzip = GzEncoder::new(Vec::new(), Compression::new(6));
        // A vector takes all that is written to it.
        let bytes = gzip
            .write_all(library().as_bytes())
            .and_then(|()| gzip.finish())
            .unwrap_or_default();
        BASE64_STANDARD.encode(bytes)
    })
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
    fn the_packed_library_is_a_third_of_it() {
        assert!(packed().len() < library().len() / 2);
    }
}
