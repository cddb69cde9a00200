//! Patterns over names: `*`, `?` and `{a,b}`.

use crate::refusal::Refusal;

/// A pattern. `*` stands for any letters, `/` among them, so that `50Mbit/*`
/// is all that starts with `50Mbit/`; `?` for one; `{a,b}` for `a` or `b`.
/// Everything else, brackets too, stands for itself.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Glob {
    text: String,
    /// The pattern without braces: one for each choice.
    plain: Vec<Vec<char>>,
}

/// More choices than any list of names needs.
const MOST_CHOICES: usize = 256;

impl Glob {
    /// Reads a pattern.
    ///
    /// # Errors
    /// If a brace is not closed, or the braces make too many choices.
    pub fn parse(text: &str) -> Result<Self, Refusal> {
        let refusal = |allowed: &str| {
            Refusal::new(
                "pattern",
                format!("`{}`", crate::tree::clipped(text)),
                allowed,
            )
        };
        let mut plain = vec![Vec::new()];
        let mut rest = text;
        while let Some(open) = rest.find('{') {
            let close = rest[open..]
                .find('}')
                .ok_or_else(|| refusal("a `}` for each `{`"))?;
            let choices: Vec<&str> = rest[open + 1..open + close].split(',').collect();
            if plain.len() * choices.len() > MOST_CHOICES {
                return Err(refusal("fewer choices in braces"));
            }
            plain = plain
                .iter()
                .flat_map(|before| {
                    choices.iter().map(move |choice| {
                        let mut pattern = before.clone();
                        pattern.extend(rest[..open].chars());
                        pattern.extend(choice.chars());
                        pattern
                    })
                })
                .collect();
            rest = &rest[open + close + 1..];
        }
        for pattern in &mut plain {
            pattern.extend(rest.chars());
        }
        Ok(Self {
            text: text.to_owned(),
            plain,
        })
    }

    /// Whether the whole of `name` fits.
    pub fn matches(&self, name: &str) -> bool {
        let name: Vec<char> = name.chars().collect();
        self.plain.iter().any(|pattern| fits(pattern, &name))
    }

    /// The pattern as it was written.
    pub fn as_str(&self) -> &str {
        &self.text
    }
}

/// Greedy matching that goes back to the last star only: linear in the name
/// for each star.
fn fits(pattern: &[char], name: &[char]) -> bool {
    let (mut p, mut n) = (0, 0);
    let mut star: Option<(usize, usize)> = None;
    while n < name.len() {
        match pattern.get(p) {
            Some('*') => {
                star = Some((p, n));
                p += 1;
            }
            Some(c) if *c == '?' || *c == name[n] => {
                p += 1;
                n += 1;
            }
            _ => match star {
                Some((at, eaten)) => {
                    star = Some((at, eaten + 1));
                    p = at + 1;
                    n = eaten + 1;
                }
                None => return false,
            },
        }
    }
    pattern[p..].iter().all(|c| *c == '*')
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
    }

    #[test]
    fn braces_choose() {
        assert!(matches("a/{b,c}/d", "a/b/d"));
        assert!(matches("a/{b,c}/d", "a/c/d"));
        assert!(!matches("a/{b,c}/d", "a/x/d"));
        assert!(matches("{a,b}{1,2}?", "b2z"));
        assert!(Glob::parse("a{b").is_err());
        assert!(Glob::parse(&"{a,b}".repeat(9)).is_err());
    }

    #[test]
    fn many_stars_end_in_time() {
        let pattern = "*a".repeat(40) + "b";
        assert!(!matches(&pattern, &"a".repeat(400)));
    }
}
