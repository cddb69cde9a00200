//! Asking a machine.

use std::io;
use std::net::SocketAddr;
use std::time::Duration;

use bytes::Bytes;
use http_body_util::{BodyExt, Empty, Limited};
use hyper::{Method, Request, StatusCode, header};
use hyper_util::rt::TokioIo;
use serde_json::Value;
use tokio::net::TcpStream;
use tokio::time::timeout;

use crate::secret::Secret;

/// Bytes of an answer at most: what two programs write, as JSON has it.
const MOST_BYTES: usize = 256 << 20;

/// Sends a request to the webhook at `address`, and waits for `patience` at most. Gives the status
/// and the answer.
pub(super) fn ask(
    address: SocketAddr,
    token: &Secret,
    (method, path): (Method, &str),
    patience: Duration,
) -> io::Result<(StatusCode, Value)> {
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()?;
    let request = Request::builder()
        .method(method)
        .uri(path)
        .header(header::HOST, address.to_string())
        .header(header::AUTHORIZATION, format!("Bearer {}", token.text()))
        .body(Empty::<Bytes>::new())
        .map_err(io::Error::other)?;
    runtime.block_on(async {
        let asked = timeout(patience, asked(address, request)).await;
        asked.unwrap_or_else(|_| Err(io::ErrorKind::TimedOut.into()))
    })
}

async fn asked(
    address: SocketAddr,
    request: Request<Empty<Bytes>>,
) -> io::Result<(StatusCode, Value)> {
    let stream = TokioIo::new(TcpStream::connect(address).await?);
    let (mut sender, connection) = hyper::client::conn::http1::handshake(stream)
        .await
        .map_err(io::Error::other)?;
    let connection = tokio::spawn(connection);
    let answered = async {
        let answer = sender
            .send_request(request)
            .await
            .map_err(io::Error::other)?;
        let status = answer.status();
        let body = Limited::new(answer.into_body(), MOST_BYTES).collect().await;
        let body = body.map_err(io::Error::other)?.to_bytes();
        let value = serde_json::from_slice(&body).map_err(io::Error::other)?;
        Ok((status, value))
    };
    let answered = answered.await;
    connection.abort();
    answered
}
