//! What a kernel is configured to have.

/// The committed list, see its head.
pub(crate) const LIST: &str = include_str!("kernel.config");

/// The line above which a symbol has to be there.
const MARK: &str = "# ---- where the tree has them ----";

/// The list for `make allnoconfig` (KCONFIG_ALLCONFIG), with the `more` that changes ask
/// for.
pub(crate) fn wanted(more: &[&str]) -> String {
    let lines = symbols(LIST).chain(more.iter().copied());
    lines.map(|line| format!("{line}\n")).collect()
}

fn symbols(text: &str) -> impl Iterator<Item = &str> {
    text.lines()
        .filter(|line| !line.is_empty() && !line.starts_with('#'))
}

/// The lines that have to be in a configuration and are not in `config`.
pub(crate) fn lacks<'a>(config: &str, more: &[&'a str]) -> Vec<&'a str> {
    let (needed, _) = LIST.split_once(MARK).unwrap_or((LIST, ""));
    let needed = symbols(needed).chain(more.iter().copied());
    needed
        .filter(|wanted| !config.lines().any(|line| line == *wanted))
        .collect()
}

/// The compiler that `config` was made for, as it names itself; empty where it is not named.
pub(crate) fn compiler(config: &str) -> String {
    let named = config
        .lines()
        .find_map(|line| line.strip_prefix("CONFIG_CC_VERSION_TEXT="));
    named.unwrap_or_default().trim_matches('"').to_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_a_tree_may_lack_stands_below_the_mark() {
        let (needed, optional) = LIST.split_once(MARK).unwrap();
        assert!(needed.contains("CONFIG_UML_TIME_TRAVEL_SUPPORT=y"));
        assert!(optional.contains("CONFIG_NET_SCH_DUALPI2=y"));
        let all = wanted(&["CONFIG_HZ=1000"]);
        assert!(all.contains("CONFIG_NET_SCH_DUALPI2=y\n") && !all.contains('#'));
        assert!(lacks(&all, &["CONFIG_HZ=1000"]).is_empty());
        let without = all.replace("CONFIG_TUN=y", "# CONFIG_TUN is not set");
        assert_eq!(lacks(&without, &[]), ["CONFIG_TUN=y"]);
        let without = all.replace("CONFIG_NET_SCH_DUALPI2=y", "");
        assert!(lacks(&without, &[]).is_empty());
    }

    #[test]
    fn the_compiler_is_the_one_that_the_configuration_names() {
        let config = "CONFIG_X=y\nCONFIG_CC_VERSION_TEXT=\"gcc (Debian 12.2.0-14) 12.2.0\"\n";
        assert_eq!(compiler(config), "gcc (Debian 12.2.0-14) 12.2.0");
        assert_eq!(compiler("CONFIG_X=y\n"), "");
    }

    #[test]
    fn every_line_is_a_symbol_once() {
        let mut lines: Vec<_> = symbols(LIST).collect();
        for line in &lines {
            let (name, value) = line.split_once('=').unwrap();
            assert!(
                name.starts_with("CONFIG_") && matches!(value, "y" | "\"\"" | "\"null\""),
                "{line}"
            );
        }
        let all = lines.len();
        lines.sort_unstable();
        lines.dedup();
        assert_eq!(lines.len(), all);
    }
}
