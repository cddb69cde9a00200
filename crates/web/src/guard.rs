//! Who may ask for what: the one gate that every request passes.

use std::net::SocketAddr;
use std::sync::atomic::{AtomicBool, Ordering};

use axum::extract::{Request, State};
use axum::http::{HeaderMap, HeaderValue, Method, StatusCode, header};
use axum::middleware::Next;
use axum::response::{IntoResponse, Response};
use narrows::Secret;

use crate::error::ApiError;
use crate::results;
use crate::state::Shared;

/// What the page may do: its own files and its own server, nothing inline.
const POLICY: &str = "default-src 'self'; img-src 'self' data:; object-src 'none'; base-uri 'none'; \
    form-action 'none'; frame-ancestors 'none'; frame-src 'self'";

/// Keys and names by which requests are let in.
pub(crate) struct Gate {
    /// In the address that is printed, and behind `Bearer`.
    token: Secret,
    /// In the address that a browser is opened with, and whether it was used.
    once: Secret,
    used: AtomicBool,
    /// In the cookie.
    cookie: Secret,
    /// In the addresses of results, whose pages may see it.
    pub(crate) results: Secret,
    /// What `Host` may say.
    hosts: Vec<String>,
    /// The cookie's name: that of a server on another port of the machine is another.
    cookie_name: String,
}

impl Gate {
    /// Of a server that listens at `address`, and is also called by `names`.
    pub(crate) fn new(address: SocketAddr, names: &[String]) -> std::io::Result<Self> {
        let port = address.port();
        let mut hosts = vec![address.to_string()];
        if address.ip().is_loopback() {
            hosts.extend(["127.0.0.1", "localhost", "[::1]"].map(|host| format!("{host}:{port}")));
        }
        for name in names {
            let has_port = name
                .rsplit_once(':')
                .is_some_and(|(_, port)| port.parse::<u16>().is_ok());
            hosts.push(match has_port && !name.ends_with(']') {
                true => name.to_ascii_lowercase(),
                false => format!("{}:{port}", name.to_ascii_lowercase()),
            });
        }
        Ok(Self {
            token: Secret::draw()?,
            once: Secret::draw()?,
            used: AtomicBool::new(false),
            cookie: Secret::draw()?,
            results: Secret::draw()?,
            cookie_name: format!("narrows-{port}"),
            hosts,
        })
    }

    pub(crate) fn token(&self) -> &str {
        self.token.text()
    }

    pub(crate) fn once(&self) -> &str {
        self.once.text()
    }

    /// The host that the address names: a name that was given, where others reach all addresses.
    pub(crate) fn host(&self) -> &str {
        let unspecified = |host: &str| host.starts_with("0.0.0.0:") || host.starts_with("[::]:");
        let first = self.hosts.iter().find(|host| !unspecified(host));
        first.unwrap_or(&self.hosts[0])
    }

    fn is_entrance(&self, token: &str) -> bool {
        self.token.is(token) || self.once.is(token) && !self.used.swap(true, Ordering::Relaxed)
    }

    fn is_host(&self, host: &str) -> bool {
        self.hosts
            .iter()
            .any(|known| known.eq_ignore_ascii_case(host))
    }

    fn is_origin(&self, origin: &str) -> bool {
        origin
            .strip_prefix("http://")
            .is_some_and(|host| self.is_host(host))
    }

    fn has_cookie(&self, headers: &HeaderMap) -> bool {
        let cookies = headers.get_all(header::COOKIE).iter();
        let cookies = cookies.filter_map(|value| value.to_str().ok());
        let mut pairs = cookies.flat_map(|line| line.split(';')).filter_map(|pair| {
            let (name, value) = pair.trim().split_once('=')?;
            (name == self.cookie_name).then_some(value)
        });
        pairs.any(|value| self.cookie.is(value))
    }

    fn has_bearer(&self, headers: &HeaderMap) -> bool {
        only(headers, header::AUTHORIZATION).is_some_and(|text| self.token.is_bearer(text))
    }

    /// Why `request` is not let in.
    fn refuses(&self, request: &Request) -> Option<ApiError> {
        let headers = request.headers();
        let forbidden = |why: &str| Some(ApiError::new(StatusCode::FORBIDDEN, why));
        // RFC 9112, section 3.2.
        if headers.get_all(header::HOST).iter().count() > 1 {
            return Some(ApiError::new(
                StatusCode::BAD_REQUEST,
                "Host stands there twice",
            ));
        }
        match only(headers, header::HOST) {
            Some(host) if self.is_host(host) => {}
            _ => {
                let why = "Host is not where this server listens";
                return Some(
                    ApiError::new(StatusCode::MISDIRECTED_REQUEST, why)
                        .hint("open the address that narrows web printed, or name it by --host"),
                );
            }
        }
        // A line with a whole address names a host, too.
        let own = |authority: &axum::http::uri::Authority| self.is_host(authority.as_str());
        if request
            .uri()
            .authority()
            .is_some_and(|authority| !own(authority))
        {
            return forbidden("the address is another server's");
        }
        let origin = headers.contains_key(header::ORIGIN);
        if origin && !only(headers, header::ORIGIN).is_some_and(|text| self.is_origin(text)) {
            return forbidden("Origin is another page's");
        }
        let path = request.uri().path();
        if results::is_page_of(path, &self.results) && request.method().is_safe() {
            return None;
        }
        let bearer = self.has_bearer(headers);
        if !bearer && !self.has_cookie(headers) {
            return Some(
                ApiError::new(StatusCode::UNAUTHORIZED, "the token is missing, or is an older server's")
                    .hint("open the address that narrows web printed, or send `Authorization: Bearer TOKEN`"),
            );
        }
        if !request.method().is_safe() {
            if !origin && !bearer {
                return forbidden("Origin is missing");
            }
            let json = only(headers, header::CONTENT_TYPE)
                .and_then(|text| text.split(';').next())
                .is_some_and(|kind| kind.trim().eq_ignore_ascii_case("application/json"));
            if !json && request.method() != Method::DELETE {
                let why = "Content-Type has to be application/json";
                return Some(ApiError::new(StatusCode::UNSUPPORTED_MEDIA_TYPE, why));
            }
        }
        None
    }

    /// The answer to `/?token=…`: a cookie, and the way to the address without the token.
    fn enter(&self, request: &Request) -> Option<Response> {
        let uri = request.uri();
        let right_place =
            only(request.headers(), header::HOST).is_some_and(|host| self.is_host(host));
        if request.method() != Method::GET || uri.path() != "/" || !right_place {
            return None;
        }
        let pairs: Vec<_> = uri
            .query()?
            .split('&')
            .filter_map(|pair| pair.split_once('='))
            .collect();
        let value = |name| {
            pairs
                .iter()
                .find(|(own, _)| *own == name)
                .map(|(_, value)| *value)
        };
        if !self.is_entrance(value("token")?) {
            let why = "the token is wrong, was used, or is an older server's";
            let refused = ApiError::new(StatusCode::FORBIDDEN, why);
            return Some(
                refused
                    .hint("open the address that narrows web printed")
                    .into_response(),
            );
        }
        let cookie = format!(
            "{}={}; HttpOnly; SameSite=Strict; Path=/",
            self.cookie_name,
            self.cookie.text()
        );
        let plain = |text: &&str| {
            text.bytes()
                .all(|b| b.is_ascii_alphanumeric() || b"%-._~/".contains(&b))
        };
        let open = value("open")
            .filter(plain)
            .map(|name| format!("#file/{name}"));
        // No redirection: a browser that came from elsewhere would not send the cookie there.
        let refresh = format!("0; url=/{}", open.unwrap_or_default());
        let headers = [
            (header::SET_COOKIE, cookie),
            (header::REFRESH, refresh),
            (header::CONTENT_TYPE, "text/html; charset=utf-8".to_owned()),
        ];
        // With an icon that is empty, no browser asks for another.
        let body = "<!doctype html><title>narrows</title><link rel=icon href=\"data:,\">\
            <a href=\"/\">narrows</a>";
        Some((headers, body).into_response())
    }
}

/// `text` as a part of an address.
pub(crate) fn escaped(text: &str) -> String {
    let plain = |byte: u8| byte.is_ascii_alphanumeric() || b"-._~/".contains(&byte);
    let escape = |byte: u8| match plain(byte) {
        true => char::from(byte).to_string(),
        false => format!("%{byte:02X}"),
    };
    text.bytes().map(escape).collect()
}

/// The value of a header that occurs once.
fn only(headers: &HeaderMap, name: header::HeaderName) -> Option<&str> {
    let mut values = headers.get_all(name).iter();
    let value = values.next()?.to_str().ok()?;
    values.next().is_none().then_some(value)
}

/// Lets a request in or not, and gives every answer its headers.
pub(crate) async fn pass(State(state): State<Shared>, request: Request, next: Next) -> Response {
    let mut answer = match state.gate.enter(&request) {
        Some(entered) => entered,
        None => match state.gate.refuses(&request) {
            Some(refused) => refused.into_response(),
            None => next.run(request).await,
        },
    };
    let headers = answer.headers_mut();
    let mut usual = |name: header::HeaderName, value: &'static str| {
        headers
            .entry(name)
            .or_insert(HeaderValue::from_static(value));
    };
    usual(header::CONTENT_SECURITY_POLICY, POLICY);
    usual(header::X_CONTENT_TYPE_OPTIONS, "nosniff");
    usual(header::REFERRER_POLICY, "no-referrer");
    usual(header::CACHE_CONTROL, "no-store");
    usual(
        header::HeaderName::from_static("cross-origin-resource-policy"),
        "same-origin",
    );
    usual(
        header::HeaderName::from_static("cross-origin-opener-policy"),
        "same-origin",
    );
    answer
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_address_for_a_browser_lets_one_in_and_that_of_the_terminal_all() {
        let address = "127.0.0.1:8080".parse().expect("an address");
        let gate = Gate::new(address, &[]).expect("random numbers");
        let entered = [gate.once(), gate.once(), gate.token(), gate.token()];
        let entered = entered.map(|token| gate.is_entrance(token));
        assert_eq!(entered, [true, false, true, true]);
    }

    #[test]
    fn further_hosts_have_the_port_unless_they_say_another() {
        let address = "192.0.2.7:8080".parse().expect("an address");
        let names = ["Lab.example".to_owned(), "other:99".to_owned()];
        let gate = Gate::new(address, &names).expect("random numbers");
        for host in ["192.0.2.7:8080", "lab.example:8080", "other:99"] {
            assert!(gate.is_host(host), "{host}");
        }
        for host in ["localhost:8080", "lab.example", "other:8080", "192.0.2.7"] {
            assert!(!gate.is_host(host), "{host}");
        }
    }
}
