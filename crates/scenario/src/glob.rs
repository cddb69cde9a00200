//! Patterns over names.

use globset::{GlobBuilder, GlobMatcher};

use crate::refusal::Refusal;

/// A pattern. `*` matches any letters, `/` among them, so that `50Mbit/*`
/// is all that starts with `50Mbit/`; `?` for one; `{a,b}` for `a` or `b`.
/// Everything else, brackets too, is literal.
#[derive(Clone, Debug)]
pub struct Glob {
    text: String,
    matcher: GlobMatcher,
}

impl Glob {
    /// Reads a pattern.
    ///
    /// # Errors
    /// If a brace is not closed, or the pattern is too long.
    pub fn parse(text: &str) -> Result<Self, Refusal> {
        let glob = GlobBuilder::new(&text.replace('[', "[[]"))
            .backslash_escape(false)
            .empty_alternates(true)
            .build()
            .map_err(|error| {
                use globset::ErrorKind::{UnclosedAlternates, UnopenedAlternates};
                let found = format!("`{}`", crate::tree::clipped(text));
                match error.kind() {
                    UnclosedAlternates | UnopenedAlternates => {
                        Refusal::new("pattern", found, "a `}` for each `{`")
                    }
                    other => Refusal::new("pattern", found, "a shorter pattern")
                        .with_help(crate::tree::clipped(&other.to_string())),
                }
            })?;
        Ok(Self {
            text: text.to_owned(),
            matcher: glob.compile_matcher(),
        })
    }

    /// Whether the whole of `name` fits.
    pub fn matches(&self, name: &str) -> bool {
        self.matcher.is_match(name)
    }

    /// The pattern as it was written.
    pub fn as_str(&self) -> &str {
        &self.text
    }
}

impl PartialEq for Glob {
    fn eq(&self, other: &Self) -> bool {
        self.text == other.text
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn matches(pattern: &str, name: &str) -> bool {
        Glob::parse(pattern).is_ok_and(|g| g.matches(name))
    }

    #[test]
    fn a_star_crosses_slashes_and_brackets_stand_for_themselves() {
        assert!(matches("50Mbit/*", "50Mbit/160-10/dualpi2/prague-cubic"));
        assert!(matches(
            "50Mbit/*/pfifo/*",
            "50Mbit/160-10/pfifo/prague-cubic"
        ));
        assert!(!matches(
            "50Mbit/*/pfifo/*",
            "50Mbit/160-10/fq_codel/prague-cubic"
        ));
        assert!(matches("fq_codel(1q)/*", "fq_codel(1q)/prague-cubic-noecn"));
        assert!(!matches("fq_codel(1q)/*", "fq_codel(1q,1ms/20ms)/prague"));
        assert!(!matches("50Mbit", "50Mbit/x"));
        assert!(matches("a[b]\\", "a[b]\\") && !matches("a[b]", "ab"));
    }

    #[test]
    fn braces_choose() {
        assert!(matches("a/{b,c}/d", "a/b/d"));
        assert!(matches("a/{b,c}/d", "a/c/d"));
        assert!(!matches("a/{b,c}/d", "a/x/d"));
        assert!(matches("{a,b}{1,2}?", "b2z"));
        assert!(matches("a{,b}", "a") && matches("a{,b}", "ab"));
        assert!(Glob::parse("a{b").is_err());
    }

    #[test]
    fn many_stars_end_in_time() {
        let pattern = "*a".repeat(40) + "b";
        assert!(!matches(&pattern, &"a".repeat(400)));
    }
}
