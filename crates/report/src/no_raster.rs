//! In a program built without PNG pictures: the SVG ones stand alone.

/// Rasterises nothing.
pub(crate) struct Rasteriser;

impl Rasteriser {
    /// Creates it.
    pub(crate) fn new() -> Self {
        Self
    }
    /// No file.
    #[expect(clippy::unused_self, reason = "the verbs of the rasteriser that draws")]
    pub(crate) fn png(&self, _svg: &str) -> Result<Option<Vec<u8>>, String> {
        Ok(None)
    }
}
