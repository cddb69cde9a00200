//! The script that makes charts interactive: plotly.js, from the crate
//! `plotly`, compressed by the build script.
//!
//! It is 4.7 MB. A campaign's folder holds it once and its pages name it; the
//! page of a single run must be self-contained, so it holds the script compressed,
//! a third of that, and the browser unpacks it (`DecompressionStream`: Chrome
//! 80, Firefox 113, Safari 16.4). Where that fails, the static figures stay.

use std::io::Read;

use base64::Engine;
use base64::prelude::BASE64_STANDARD;
use flate2::read::GzDecoder;

/// Where a campaign's folder keeps the script.
pub const SHARED: &str = "assets/plotly.min.js";

/// What the licence of plotly.js asks for, in one line.
pub const NOTICE: &str = "Interactive charts: plotly.js, © Plotly, Inc., MIT licence.";

/// The script compressed with gzip, in base64: text that a page can hold.
pub const PACKED: &str = include_str!(concat!(env!("OUT_DIR"), "/plotly.min.js.gz.base64"));

/// The script's text.
pub fn library() -> String {
    let mut text = String::new();
    // What the build script packed can be unpacked.
    if let Ok(gzip) = BASE64_STANDARD.decode(PACKED) {
        GzDecoder::new(&gzip[..]).read_to_string(&mut text).ok();
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
    fn the_packed_library_is_a_third_of_it() {
        assert!(PACKED.len() < library().len() / 2);
    }
}
