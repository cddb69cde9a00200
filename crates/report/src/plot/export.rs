//! PNG and PDF of static figures.
//!
//! Text is set in a face that comes with the program, so that a machine
//! without any font gives a complete figure, and the same one everywhere.

use std::sync::Arc;

use svg2pdf::usvg;

/// The face that text is set in: DejaVu Sans Condensed 2.37 of the crate
/// `dejavu` (free: Bitstream Vera's licence and the public domain). It has
/// Latin, Greek, Cyrillic and the signs of mathematics.
fn face() -> &'static [u8] {
    dejavu::sans_condensed::regular()
}

/// Why a figure could not be converted.
#[derive(Debug, thiserror::Error)]
pub enum ExportError {
    /// The SVG is not what this program draws.
    #[error("figure cannot be read as SVG: {0}")]
    Svg(#[from] usvg::Error),
    /// Larger than memory allows, or empty.
    #[error("figure of {0} x {1} pixels cannot be drawn")]
    Size(u32, u32),
    /// The PNG could not be written.
    #[error("PNG: {0}")]
    Png(String),
    /// The PDF could not be written.
    #[error("PDF: {0}")]
    Pdf(String),
}

/// Reads a figure with all of its text resolved to the built-in face.
fn tree(svg: &str) -> Result<usvg::Tree, ExportError> {
    let mut fonts = usvg::fontdb::Database::new();
    fonts.load_font_source(usvg::fontdb::Source::Binary(Arc::new(face())));
    let family = fonts
        .faces()
        .next()
        .and_then(|face| face.families.first())
        .map(|(name, _)| name.clone())
        .unwrap_or_default();
    fonts.set_sans_serif_family(family);
    let options = usvg::Options {
        fontdb: Arc::new(fonts),
        // CSS points: 72 to the inch, so that a user unit is a point.
        dpi: 72.0,
        ..Default::default()
    };
    Ok(usvg::Tree::from_str(svg, &options)?)
}

/// The figure as PNG at `dpi` dots per inch, on white.
pub fn png(svg: &str, dpi: f64) -> Result<Vec<u8>, ExportError> {
    use resvg::tiny_skia;
    let tree = tree(svg)?;
    let scale = (dpi / 72.0) as f32;
    let size = tree.size();
    let (width, height) = (
        (size.width() * scale).ceil() as u32,
        (size.height() * scale).ceil() as u32,
    );
    let mut picture =
        tiny_skia::Pixmap::new(width, height).ok_or(ExportError::Size(width, height))?;
    picture.fill(tiny_skia::Color::WHITE);
    let scale = tiny_skia::Transform::from_scale(scale, scale);
    resvg::render(&tree, scale, &mut picture.as_mut());
    picture
        .encode_png()
        .map_err(|error| ExportError::Png(error.to_string()))
}

/// The figure as a PDF of one page of its own size, text as text.
pub fn pdf(svg: &str) -> Result<Vec<u8>, ExportError> {
    let tree = tree(svg)?;
    let page = svg2pdf::PageOptions { dpi: 72.0 };
    svg2pdf::to_pdf(&tree, svg2pdf::ConversionOptions::default(), page)
        .map_err(|error| ExportError::Pdf(error.to_string()))
}
