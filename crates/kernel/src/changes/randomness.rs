//! A seed decides everything that the kernel draws.

use crate::edit::{Change, Edit, What};

/// Reads the seed where user-mode Linux reads its own parameters, so that it does not
/// become one of init's.
const SEED: &str = "\
/* narrows: all randomness follows from a seed */
static unsigned long long narrows_random;

static int __init narrows_seed_param(char *str, int *add)
{
	narrows_random = strtoull(str, NULL, 0);
	*add = 0;
	return 0;
}

__uml_setup(\"narrows_seed=\", narrows_seed_param,
\"narrows_seed=<number>\\n\"
\"    What all random numbers of this kernel follow from.\\n\\n\");

";

/// splitmix64 (Steele, Lea and Flood, 2014).
const DRAW: &str = "\
	unsigned char *to = buf;
	unsigned long long z = 0;
	size_t i;

	(void)flags;
	for (i = 0; i < len; i++) {
		if (i % 8 == 0) {
			narrows_random += 0x9e3779b97f4a7c15ULL;
			z = narrows_random;
			z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9ULL;
			z = (z ^ (z >> 27)) * 0x94d049bb133111ebULL;
			z ^= z >> 31;
		}
		to[i] = z >> (i % 8 * 8);
	}
	return len;
";

pub(super) const CHANGE: Change = Change {
    name: "seeded randomness",
    reason: "`narrows_seed=` on the command line decides every random number; the host's \
             generator is not asked, and neither the command line, the kernel's name, times \
             nor interrupts are mixed in",
    only_where: None,
    edits: &[
        Edit {
            file: "arch/um/os-Linux/util.c",
            function: Some("os_getrandom"),
            what: What::Replace("return getrandom(buf, len, flags);", DRAW),
        },
        Edit {
            file: "arch/um/os-Linux/util.c",
            function: Some("os_getrandom"),
            what: What::Precede(SEED),
        },
        Edit {
            file: "drivers/char/random.c",
            function: Some("_mix_pool_bytes"),
            what: What::Enter("\tif (narrows_sealed)\n\t\treturn;\n"),
        },
        Edit {
            file: "drivers/char/random.c",
            function: Some("_mix_pool_bytes"),
            what: What::Precede(
                "/* narrows: the pool holds what the seed gave, and takes no more */\n\
                 static bool narrows_sealed;\n\n",
            ),
        },
        Edit {
            file: "drivers/char/random.c",
            function: Some("random_init_early"),
            what: What::Before(
                "_mix_pool_bytes(init_utsname(), sizeof(*(init_utsname())));",
                "\tnarrows_sealed = true;\n",
            ),
        },
    ],
    config: &[],
};
