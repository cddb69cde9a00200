//! Cookies by which a client shows that it owns its address (RFC 8803 §4.2.7, §6).

use std::net::IpAddr;

use sha2::{Digest, Sha256};

/// Bytes of a cookie, whole words.
pub const COOKIE_LEN: usize = 16;

/// Makes and checks cookies. Nothing is kept of the clients: a cookie is a keyed hash of
/// the client's address.
#[derive(Clone)]
pub struct Cookies {
    key: [u8; 32],
}

impl Cookies {
    /// Cookies that only who has `key` can make.
    pub fn new(key: [u8; 32]) -> Self {
        Self { key }
    }

    /// The cookie of `client`: HMAC-SHA-256 (RFC 2104) of its address, cut.
    pub fn of(&self, client: IpAddr) -> [u8; COOKIE_LEN] {
        let address = match client.to_canonical() {
            IpAddr::V4(address) => address.to_ipv6_mapped(),
            IpAddr::V6(address) => address,
        };
        // The key is shorter than a block of 64 bytes: zeros fill it up.
        let pad = |with: u8| {
            let mut block = [with; 64];
            for (byte, key) in block.iter_mut().zip(self.key) {
                *byte ^= key;
            }
            block
        };
        let inner = Sha256::new()
            .chain_update(pad(0x36))
            .chain_update(address.octets())
            .finalize();
        let outer = Sha256::new()
            .chain_update(pad(0x5c))
            .chain_update(inner)
            .finalize();
        let mut cookie = [0; COOKIE_LEN];
        cookie.copy_from_slice(&outer[..COOKIE_LEN]);
        cookie
    }

    /// Whether `cookie` is that of `client`. It takes the same time whichever byte
    /// differs.
    pub fn accepts(&self, client: IpAddr, cookie: &[u8]) -> bool {
        let ours = self.of(client);
        let differs = ours.iter().zip(cookie).fold(0, |d, (a, b)| d | (a ^ b));
        cookie.len() == COOKIE_LEN && differs == 0
    }
}

impl std::fmt::Debug for Cookies {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Cookies")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn it_is_hmac_sha_256() {
        // RFC 4231 has no key of 32 bytes; this is what
        // Python's hmac makes of ::ffff:10.0.0.1 with a key of 32 bytes 0x0b.
        let cookie = Cookies::new([0x0b; 32]).of([10, 0, 0, 1].into());
        assert_eq!(cookie, GOLDEN);
    }

    #[test]
    fn a_cookie_is_good_for_its_address_alone() {
        let cookies = Cookies::new([7; 32]);
        let (one, other) = ([10, 0, 0, 1].into(), [10, 0, 0, 2].into());
        assert!(cookies.accepts(one, &cookies.of(one)));
        assert!(cookies.accepts("::ffff:10.0.0.1".parse().unwrap(), &cookies.of(one)));
        assert!(!cookies.accepts(other, &cookies.of(one)));
        assert!(!cookies.accepts(one, &cookies.of(one)[..15]));
        assert!(!cookies.accepts(one, &[]));
        assert!(!Cookies::new([8; 32]).accepts(one, &cookies.of(one)));
    }

    #[test]
    fn two_bytes_that_differ_alike_do_not_make_up_for_each_other() {
        let cookies = Cookies::new([7; 32]);
        let client = [10, 0, 0, 1].into();
        let mut forged = cookies.of(client);
        forged[0] ^= 0x40;
        forged[9] ^= 0x40;
        assert!(!cookies.accepts(client, &forged));
    }

    #[test]
    fn the_key_is_not_printed() {
        assert_eq!(format!("{:?}", Cookies::new([7; 32])), "Cookies");
    }

    const GOLDEN: [u8; COOKIE_LEN] = [
        0xb8, 0x17, 0x54, 0xbd, 0x6f, 0x73, 0xec, 0xf6, 0x0e, 0xf1, 0xa4, 0xb1, 0xbc, 0x19, 0x84,
        0x42,
    ];
}
