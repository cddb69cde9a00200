//! Wrong rules can be asked for only in builds that keep them.

use narrows_aqm::QueueSpec;

#[test]
fn mutants_exist_only_with_their_feature() {
    for words in [
        "pfifo mutant zero-delay-limit",
        "bfifo mutant zero-delay-limit",
        "dualpi2 variant linux-2020 mutant ungated-step",
        "dualpi2 mutant newest-delay",
        "dualpi2 mutant unsquared",
        "dualpi2 mutant uncoupled",
    ] {
        let kept = cfg!(feature = "mutants");
        assert_eq!(QueueSpec::parse(words).is_ok(), kept, "{words}");
    }
}
