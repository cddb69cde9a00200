//! One end of a QUIC flow.

use std::time;

use bytes::Bytes;
use narrows_app::Want;
use narrows_packet::FlowId;
use narrows_quic::{Noted, Watch, lost_sizes, send_window};
use narrows_units::{Duration, Instant};
use quinn::{ClientConfig, Connection, ConnectionError, Endpoint, SendStream, VarInt};
use tokio::sync::watch::Receiver;
use tokio::time::sleep;

use super::QuicPlan;
use super::certificate::SERVER_NAME;
use crate::flows::facts::EndFacts;
use crate::{Clock, Report, Reporter};

/// How often what a sender's congestion control noted is handed on.
const TICK: time::Duration = time::Duration::from_millis(10);

/// Bytes of one write.
const PART: usize = 64 << 10;

/// Zeros to send, shared by all writes.
static ZEROS: [u8; PART] = [0; PART];

/// Most bytes of one read.
const READ: usize = 256 << 10;

/// An end with its socket.
#[derive(Debug)]
pub struct End {
    plan: QuicPlan,
    endpoint: Endpoint,
    client: Option<ClientConfig>,
    watch: Watch,
    clock: Clock,
    reporter: Reporter,
    delivered: u64,
    finished: bool,
}

impl End {
    /// An end that has done nothing yet.
    pub fn new(
        plan: QuicPlan,
        endpoint: Endpoint,
        client: Option<ClientConfig>,
        watch: Watch,
        clock: Clock,
        reporter: Reporter,
    ) -> Self {
        Self {
            plan,
            endpoint,
            client,
            watch,
            clock,
            reporter,
            delivered: 0,
            finished: false,
        }
    }

    fn id(&self) -> FlowId {
        FlowId(self.plan.flow as u32)
    }

    fn report(&self, report: Report) {
        self.reporter.report(self.clock.now(), report);
    }

    /// Serves the flow until it is over, or until told to end.
    pub async fn run(mut self, mut told: Receiver<bool>) -> EndFacts {
        let sends = self.plan.generator.is_some();
        let ended = tokio::select! {
            ended = self.serve() => Some(ended),
            _ = told.changed() => None,
        };
        let mut notes = Vec::new();
        if let Some(Err(error)) = &ended {
            notes.push(format!("was broken off: {error}"));
            if !sends {
                self.finish(false);
            }
        }
        if ended.is_some() {
            // The other end may still have packets to repeat.
            let _ = told.changed().await;
        } else if !sends && self.clock.now() >= self.plan.start {
            self.finish(false);
        }
        self.endpoint.close(VarInt::from_u32(0), b"");
        EndFacts {
            flow: self.plan.flow,
            sends,
            congestion_control: self.plan.config.control.to_string(),
            notes,
            ..EndFacts::default()
        }
    }

    async fn serve(&mut self) -> Result<(), String> {
        let connection = self.connect().await?;
        let Some(stop) = self.plan.generator.as_ref().map(|_| self.plan.stop) else {
            return self.receive(&connection).await;
        };
        let flow = self.id();
        self.report(Report::Established {
            flow,
            ecn: self.plan.config.ecn,
            accecn: false,
        });
        let mut stream = connection.open_uni().await.map_err(|e| e.to_string())?;
        let wait = stop.map_or(time::Duration::MAX, |at| self.left(at));
        // The looks go on while what was written is carried over.
        let looks = Looks::of(self, &connection);
        let sent = tokio::select! {
            sent = self.send(&connection, &mut stream, wait) => sent,
            never = looks.go_on() => match never {},
        };
        Looks::of(self, &connection).hand_on();
        connection.close(VarInt::from_u32(0), b"");
        sent
    }

    /// How long it is until `at`.
    fn left(&self, at: Instant) -> time::Duration {
        until(self.clock, at)
    }

    async fn connect(&mut self) -> Result<Connection, String> {
        let connecting = match self.client.take() {
            Some(client) => {
                sleep(self.left(self.plan.start)).await;
                let remote = self.plan.config.remote;
                let connecting = self.endpoint.connect_with(client, remote, SERVER_NAME);
                connecting.map_err(|e| e.to_string())?
            }
            None => {
                let incoming = self.endpoint.accept().await;
                let incoming = incoming.ok_or("nobody opened it")?;
                incoming.accept().map_err(|e| e.to_string())?
            }
        };
        connecting.await.map_err(|e| e.to_string())
    }

    /// Sends what the application has, until `stop` has passed, and waits
    /// until all of it is acknowledged.
    async fn send(
        &mut self,
        connection: &Connection,
        stream: &mut SendStream,
        stop: time::Duration,
    ) -> Result<(), String> {
        let stop = sleep(stop);
        tokio::pin!(stop);
        if let Some(generator) = &mut self.plan.generator {
            // What it would have written while the connection was opened, it
            // writes now.
            generator.start(self.plan.start);
            loop {
                let now = self.clock.now();
                match (generator.want(now), generator.next_write(now)) {
                    (Want::Stream(bytes), _) => {
                        let part = bytes.min(PART as u64) as usize;
                        connection.set_send_window(send_window(&self.watch));
                        let zeros = &mut [Bytes::from_static(&ZEROS[..part])];
                        // While it waits for room, there is more.
                        self.watch.has_more(true);
                        tokio::select! {
                            written = stream.write_chunks(zeros) => {
                                let written = written.map_err(|e| e.to_string())?;
                                generator.sent(written.bytes as u64);
                            }
                            () = &mut stop => generator.stop(),
                        }
                    }
                    (Want::Nothing, Some(at)) => {
                        self.watch.has_more(false);
                        tokio::select! {
                            () = sleep(until(self.clock, at)) => {}
                            () = &mut stop => generator.stop(),
                        }
                    }
                    _ => break,
                }
            }
        }
        self.watch.has_more(false);
        stream.finish().map_err(|e| e.to_string())?;
        stream.stopped().await.map_err(|e| e.to_string())?;
        Ok(())
    }

    async fn receive(&mut self, connection: &Connection) -> Result<(), String> {
        let mut stream = connection.accept_uni().await.map_err(|e| e.to_string())?;
        while let Some(chunk) = stream
            .read_chunk(READ, true)
            .await
            .map_err(|e| e.to_string())?
        {
            let bytes = chunk.bytes.len() as u64;
            self.delivered += bytes;
            let flow = self.id();
            self.report(Report::Delivered { flow, bytes });
        }
        self.finish(true);
        match connection.closed().await {
            ConnectionError::ApplicationClosed(_) | ConnectionError::LocallyClosed => Ok(()),
            error => Err(error.to_string()),
        }
    }

    /// Reports the end of the flow, once.
    fn finish(&mut self, complete: bool) {
        if !std::mem::replace(&mut self.finished, true) {
            self.report(Report::Finished {
                flow: self.id(),
                bytes: self.delivered,
                complete,
            });
        }
    }
}

/// Looks at a sender, now and then.
struct Looks {
    connection: Connection,
    watch: Watch,
    clock: Clock,
    reporter: Reporter,
    flow: FlowId,
    interval: time::Duration,
}

/// Looking never ends by itself.
enum Never {}

impl Looks {
    fn of(end: &End, connection: &Connection) -> Self {
        Self {
            connection: connection.clone(),
            watch: end.watch.clone(),
            clock: end.clock,
            reporter: end.reporter.clone(),
            flow: end.id(),
            interval: std_duration(end.plan.interval),
        }
    }

    async fn go_on(self) -> Never {
        let mut next = time::Instant::now();
        loop {
            sleep(TICK).await;
            self.hand_on();
            if time::Instant::now() >= next {
                next += self.interval;
                let sample = self.watch.sample(&self.connection.stats());
                let report = Report::Sampled {
                    flow: self.flow,
                    sample,
                };
                self.reporter.report(self.clock.now(), report);
                let limited = self.watch.limited();
                let report = Report::Limited {
                    flow: self.flow,
                    receive_window: limited.receive_window,
                    send_buffer: Duration::ZERO,
                    application: limited.application,
                };
                self.reporter.report(self.clock.now(), report);
            }
        }
    }

    /// Hands on what was noted, with the time at which it was.
    fn hand_on(&self) {
        let flow = self.flow;
        for (at, noted) in self.watch.take() {
            let report = match noted {
                Noted::Rtt(rtt) => Report::RttSample { flow, rtt },
                Noted::Recovery(event) => Report::Recovery { flow, event },
            };
            let age = at.elapsed().as_nanos();
            let age = u64::try_from(age).unwrap_or(u64::MAX);
            let at = self.clock.now().as_nanos().saturating_sub(age);
            self.reporter.report(Instant::from_nanos(at), report);
        }
        let lost = self.watch.take_lost(|| self.connection.stats());
        if let Some((packets, bytes)) = lost {
            for bytes in lost_sizes(packets, bytes) {
                let report = Report::Retransmitted { flow, bytes };
                self.reporter.report(self.clock.now(), report);
            }
        }
    }
}

/// How long it is until `at`.
fn until(clock: Clock, at: Instant) -> time::Duration {
    std_duration(at.since(clock.now()))
}

fn std_duration(span: Duration) -> time::Duration {
    time::Duration::from_nanos(span.as_nanos())
}
