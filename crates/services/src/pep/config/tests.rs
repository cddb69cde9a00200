//! What a configuration may say.

use narrows_units::Rate;

use super::*;

const LISTENER: &str = "[[listener]]\nlisten = \"10.0.0.1:8803\"\n\
    clients = [\"10.0.0.0/8\"]\ndestinations = [\"0.0.0.0/0 ports 80-443\"]\n";

#[test]
fn what_is_written_is_what_is_meant() {
    let text = format!(
        "version = 1\nuser = \"nobody\"\nthreads = 3\nmetrics = \"127.0.0.1:9464\"\ndrain = \"5s\"\n\
         [limits]\nbudget = \"1gb\"\ntunnels = 10\nidle = \"2h\"\nread_ahead = \"0s\"\n{LISTENER}\
         replay_safe = true\nnear = {{ cc = \"bbr\" }}\n\
         parent = {{ proxy = \"10.0.0.9\", or_directly = true }}\n"
    );
    let text = text + "far = { cc = \"narrows:quickstart\", hint = \"70Mbit\" }\n";
    let config = Config::read("pep.toml", &text).unwrap();
    assert_eq!(config.user.as_deref(), Some("nobody"));
    assert_eq!((config.threads, config.threads()), (Some(3), 3));
    assert_eq!(config.drain, Duration::from_secs(5));
    assert_eq!(config.limits.budget, 1 << 30);
    assert_eq!(config.read_ahead, Duration::ZERO);
    assert_eq!(config.limits.idle, Duration::from_secs(7_200));
    let [listener] = &config.listeners[..] else {
        panic!("{config:?}");
    };
    assert_eq!(listener.near.options.control.as_deref(), Some("bbr"));
    assert_eq!((&listener.near.own, listener.near.hint), (&None, None));
    let far = &listener.far;
    assert_eq!(
        far.own.as_ref().map(ToString::to_string).as_deref(),
        Some("quickstart")
    );
    assert_eq!(
        (&far.options.control, far.hint),
        (&None, Some(Rate::from_mbit(70)))
    );
    assert!(far.options.fast_open && listener.near.options.fast_open);
    assert_eq!(listener.policy.destinations[0].ports, 80..=443);
    let parent = listener.parent.unwrap();
    assert_eq!(parent.proxy, "10.0.0.9:8803".parse().unwrap());
    assert_eq!((parent.patience, parent.or_directly), (PATIENCE, true));
}

#[test]
fn what_cannot_be_meant_is_refused_with_its_place() {
    for (text, place, said) in [
        ("version = 2\n".to_owned() + LISTENER, "1:11", "version = 1"),
        ("version = 1\n".to_owned(), "1:1", "[[listener]]"),
        (
            format!("version = 1\nuserr = \"x\"\n{LISTENER}"),
            "2:1",
            "did you mean `user`",
        ),
        (
            format!("version = 1\n{LISTENER}thesis = 1\n"),
            "6:10",
            "boolean",
        ),
        (
            format!("version = 1\n{LISTENER}{LISTENER}"),
            "7:10",
            "one listener",
        ),
        (
            format!("version = 1\nmetrics = \"0.0.0.0:1\"\n{LISTENER}"),
            "2:11",
            "loopback",
        ),
        (
            format!("version = 1\ndrain = \"soon\"\n{LISTENER}"),
            "2:9",
            "10ms",
        ),
        (
            format!("version = 1\n[limits]\ntunnels = 0\n{LISTENER}"),
            "3:11",
            "at least 1",
        ),
        (
            format!("version = 1\nthreads = 0\n{LISTENER}"),
            "2:11",
            "from 1 to 64",
        ),
        (
            format!("version = 1\nthreads = 65\n{LISTENER}"),
            "2:11",
            "from 1 to 64",
        ),
        (
            format!("version = 1\nthreads = \"all\"\n{LISTENER}"),
            "2:11",
            "usize",
        ),
        (
            "version = 1\n[[listener]]\nlisten = \"10.0.0.1:1\"\nclients = [\"10.0.0.1/8\"]\n\
             destinations = []\n"
                .to_owned(),
            "4:12",
            "192.0.2.0/24",
        ),
        (
            "version = 1\n[[listener]]\nlisten = \"10.0.0.1:1\"\nclients = []\n\
             destinations = [\"0.0.0.0/0 port\"]\n"
                .to_owned(),
            "5:17",
            "ports 80-443",
        ),
        (
            "version = 1\n[[listener]]\nlisten = \"10.0.0.1:1\"\nclients = []\n".to_owned(),
            "2:1",
            "no `destinations`",
        ),
        (
            format!("version = 1\n{LISTENER}far = {{ cc = \"narrows:quikstart\" }}\n"),
            "6:23",
            "did you mean `quickstart`",
        ),
        (
            format!("version = 1\n{LISTENER}far = {{ cc = \"narrows:prague\" }}\n"),
            "6:14",
            "ECT(1)",
        ),
        (
            format!(
                "version = 1\n{LISTENER}near = {{ cc = \"narrows:cubic\", hint = \"1Mbit\" }}\n"
            ),
            "6:39",
            "narrows:quickstart",
        ),
        (
            format!("version = 1\n{LISTENER}near = {{ hint = \"1Mbit\" }}\n"),
            "6:17",
            "narrows:quickstart",
        ),
        (
            format!(
                "version = 1\n{LISTENER}far = {{ cc = \"narrows:quickstart\", hint = \"2Tbit\" }}\n"
            ),
            "6:43",
            "1Tbit",
        ),
        (
            format!(
                "version = 1\n{LISTENER}far = {{ cc = \"narrows:quickstart\", hint = \"fast\" }}\n"
            ),
            "6:43",
            "50Mbit",
        ),
        ("version = 1\n[[".to_owned(), "2:", ""),
    ] {
        let refusal = Config::read("pep.toml", &text).expect_err(&text).to_line();
        let begins = format!("pep.toml:{place}");
        assert!(
            refusal.starts_with(&begins) && refusal.contains(said),
            "{refusal}"
        );
    }
}

#[test]
fn where_nothing_is_said_it_has_as_many_threads_as_processors() {
    let config = Config::read("pep.toml", &format!("version = 1\n{LISTENER}")).unwrap();
    assert_eq!(config.threads, None);
    let processors = std::thread::available_parallelism().unwrap().get();
    assert_eq!(config.threads(), processors.min(MOST_THREADS));
}

#[test]
fn where_nothing_is_said_tunnels_and_kernel_buffers_have_half_of_the_memory() {
    let memory = Memory::of_process();
    let config = Config::read("pep.toml", &format!("version = 1\n{LISTENER}")).unwrap();
    assert_eq!(config.memory(&memory), memory.limit / 2);
    let text = format!("version = 1\n[limits]\nmemory = \"64mb\"\n{LISTENER}");
    let config = Config::read("pep.toml", &text).unwrap();
    assert_eq!(config.memory(&memory), 64 << 20);
}
