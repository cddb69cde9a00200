//! Compresses plotly.js once, so that no run has to.
//!
//! The script is in the crate `plotly`, which offers it as HTML tags.

use std::env;
use std::error::Error;
use std::fs;
use std::io::Write;
use std::path::PathBuf;

use base64::Engine;
use base64::prelude::BASE64_STANDARD;
use flate2::Compression;
use flate2::write::GzEncoder;

fn main() -> Result<(), Box<dyn Error>> {
    println!("cargo::rerun-if-changed=build.rs");
    let tags = plotly::Plot::offline_js_sources();
    // plotly.js is first; behind it is a script for formulas, which charts here
    // do not use.
    let script = tags
        .split_once('>')
        .and_then(|(_, rest)| rest.split_once("</script>"))
        .map(|(script, _)| script)
        .ok_or("the crate plotly offers no script tag")?;
    let mut gzip = GzEncoder::new(Vec::new(), Compression::best());
    gzip.write_all(script.as_bytes())?;
    let out = PathBuf::from(env::var_os("OUT_DIR").ok_or("cargo sets OUT_DIR")?);
    let packed = BASE64_STANDARD.encode(gzip.finish()?);
    fs::write(out.join("plotly.min.js.gz.base64"), packed)?;
    Ok(())
}
