//! ECT(1) for controls that ask for it.

use crate::edit::{Change, Edit, What};

/// A bit of `struct tcp_congestion_ops`' flags that no tree uses.
const FLAG: &str = "/* narrows: packets of its connections carry ECT(1) */\n\
                    #define TCP_CONG_NW_ECT_1\t\tBIT(30)\n";

const XMIT: &str = "\
/* narrows: INET_ECN_xmit() with the codepoint that the control asks for */
static inline void nw_ecn_xmit(struct sock *sk)
{
	u8 ect = inet_csk(sk)->icsk_ca_ops->flags & TCP_CONG_NW_ECT_1 ?
		 INET_ECN_ECT_1 : INET_ECN_ECT_0;

	inet_sk(sk)->tos = (inet_sk(sk)->tos & ~INET_ECN_MASK) | ect;
	if (inet6_sk(sk))
		inet6_sk(sk)->tclass = (inet6_sk(sk)->tclass & ~INET_ECN_MASK) | ect;
}

";

pub(super) const CHANGE: Change = Change {
    name: "ECT(1)",
    reason: "packets carry ECT(1) where the congestion control asks for it; the tree \
             sends ECT(0) once a connection is established",
    only_where: None,
    edits: &[
        Edit {
            file: "include/net/tcp.h",
            function: None,
            what: What::After("#define TCP_CONG_NEEDS_ECN", FLAG),
        },
        Edit {
            file: "include/net/tcp.h",
            function: Some("tcp_ca_needs_ecn"),
            what: What::Precede(XMIT),
        },
        Edit {
            file: "net/ipv4/tcp_cong.c",
            function: Some("tcp_init_congestion_control"),
            what: What::Replace("INET_ECN_xmit(sk);", "nw_ecn_xmit(sk);"),
        },
        Edit {
            file: "net/ipv4/tcp_output.c",
            function: Some("tcp_ecn_send"),
            what: What::Replace("INET_ECN_xmit(sk);", "nw_ecn_xmit(sk);"),
        },
    ],
    config: &[],
};
