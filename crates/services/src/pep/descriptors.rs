//! How many tunnels the file descriptors of the process are enough for.

use narrows_pep::Limits;
use tracing::warn;

use super::config::Config;
use super::names;

/// Descriptors that a daemon has beside those of its tunnels, with one thread: its listeners,
/// its log and files, requests for its state and for metrics.
const OWN_DESCRIPTORS: u64 = 64;

/// Descriptors that are kept for names, of which each being found takes one, and one for each of
/// those that are overdue.
const NAME_DESCRIPTORS: u64 = 2 * names::AT_ONCE as u64;

/// Those of each further thread beside its listeners: an epoll, a pipe, its mailbox and its names.
const THREAD_DESCRIPTORS: u64 = 5;

/// How many tunnels `descriptors` are enough for, of which each has two connections. Where they are
/// few, half of them are kept for other purposes at most.
pub(super) fn most_tunnels(descriptors: u64, threads: usize, listeners: usize) -> usize {
    let (threads, listeners) = (threads as u64, listeners as u64);
    let further = (threads - 1) * (THREAD_DESCRIPTORS + listeners);
    let kept = OWN_DESCRIPTORS + further + NAME_DESCRIPTORS;
    let tunnels = descriptors.saturating_sub(kept.min(descriptors / 2)) / 2;
    usize::try_from(tunnels).unwrap_or(usize::MAX).max(1)
}

/// The limits of `config`, with no more tunnels than the `most` that there are descriptors for.
pub(super) fn limits(config: &Config, most: usize) -> Limits {
    let asked = config.limits.tunnels;
    // The default asks for as many as possible: fewer is nothing to warn of.
    if asked > most && asked != Limits::default().tunnels {
        warn!(
            tunnels = most,
            "there are descriptors for fewer tunnels than {asked} (ulimit -n, LimitNOFILE=)"
        );
    }
    Limits {
        tunnels: asked.min(most),
        ..config.limits
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn two_descriptors_are_a_tunnel_and_the_daemon_its_names_and_threads_have_their_own() {
        // 64 of its own and 128 for names; then 3 threads with an epoll, a pipe, a mailbox, names
        // and 2 listeners each.
        assert_eq!(most_tunnels(10_192, 1, 2), 5_000);
        assert_eq!(most_tunnels(10_192 + 3 * 7, 4, 2), 5_000);
        // Where there are few, tunnels have half of them.
        assert_eq!(most_tunnels(200, 1, 2), 50);
        assert_eq!(most_tunnels(1, 1, 1), 1);
    }

    #[test]
    fn no_more_tunnels_are_promised_than_there_are_descriptors_for() {
        let mut config = Config::default();
        assert_eq!(limits(&config, 500).tunnels, 500);
        config.limits.tunnels = 40;
        assert_eq!(limits(&config, 500).tunnels, 40);
        config.limits.tunnels = 501;
        assert_eq!(limits(&config, 500).tunnels, 500);
    }
}
