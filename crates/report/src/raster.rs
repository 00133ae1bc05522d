//! Converts SVG to PNG with an embedded font, so that pictures look the same on a machine without fonts.

use resvg::{tiny_skia, usvg};
use std::sync::Arc;

/// Pixels per SVG unit: sharp on paper and on dense screens.
const SCALE: f32 = 1.5;

/// Rasterises pictures; holds the parsed font.
pub(crate) struct Rasteriser {
    options: usvg::Options<'static>,
}

impl Rasteriser {
    /// Creates a rasteriser with DejaVu Sans (Bitstream Vera licence, changes in the public domain) as the only font.
    pub(crate) fn new() -> Self {
        let mut fonts = usvg::fontdb::Database::new();
        fonts.load_font_data(dejavu::sans::regular().to_vec());
        fonts.set_sans_serif_family("DejaVu Sans");
        let options = usvg::Options { fontdb: Arc::new(fonts), ..usvg::Options::default() };
        Self { options }
    }
    /// The PNG file's bytes; `None` in a program built without them.
    pub(crate) fn png(&self, svg: &str) -> Result<Option<Vec<u8>>, String> {
        let tree = usvg::Tree::from_str(svg, &self.options).map_err(|e| e.to_string())?;
        let size = tree.size().to_int_size().scale_by(SCALE).ok_or("the picture is empty")?;
        let mut pixels = tiny_skia::Pixmap::new(size.width(), size.height()).ok_or("the picture is too large")?;
        resvg::render(&tree, tiny_skia::Transform::from_scale(SCALE, SCALE), &mut pixels.as_mut());
        pixels.encode_png().map(Some).map_err(|e| e.to_string())
    }
}
