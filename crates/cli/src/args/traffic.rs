//! The options of `narrows traffic`.

use std::path::PathBuf;
use std::str::FromStr;

use clap::{Args, Subcommand, ValueEnum};
use narrows::traffic::{Capable, CodePoint, ControlName, Mark, Offsets};
use narrows::units::{Duration, Rate, Value};

use super::Format;

#[derive(Args, Debug)]
pub struct Traffic {
    #[command(subcommand)]
    pub command: TrafficCommand,
}

#[derive(Subcommand, Debug)]
pub enum TrafficCommand {
    /// Say what a mix is: its flows, their bytes and the load that they offer
    Show(TrafficShow),
    /// Send the mixes that clients with the token ask for
    Serve(TrafficServe),
    /// Have a server send a mix to this host, and measure what arrives
    Run(TrafficRun),
}

#[derive(Args, Debug)]
#[command(after_help = "For instance: narrows traffic show mix.yaml
              narrows traffic show flows/ --format json")]
pub struct TrafficShow {
    /// A mix file, a flow file, or a folder of flow files
    #[arg(value_name = "MIX")]
    pub mix: PathBuf,
    /// How to print it
    #[arg(long, value_enum, default_value_t)]
    pub format: Format,
}

#[derive(Args, Debug)]
#[command(after_help = "For instance: narrows traffic serve --token token
              narrows traffic serve 192.0.2.1 --token token --rate 100Mbit

Who has not the token is sent nothing. Each session has a port of its own for data, which the \
system chooses.")]
pub struct TrafficServe {
    /// Where it is asked [default: all addresses, port 8898]
    #[arg(value_name = "ADDRESS[:PORT]")]
    pub addresses: Vec<String>,
    /// A file with the token, which only its owner may read
    #[arg(long, value_name = "FILE")]
    pub token: PathBuf,
    /// Sessions at a time, of which one client may have half
    #[arg(long, value_name = "N", default_value_t = 8, value_parser = clap::value_parser!(u32).range(1..=1000))]
    pub sessions: u32,
    /// Transfers of a session
    #[arg(long, value_name = "N", default_value_t = 20_000, value_parser = clap::value_parser!(u32).range(1..=100_000))]
    pub transfers: u32,
    /// The most that flows of constant rates of a session are at a time
    #[arg(long, value_name = "RATE", default_value = "1Gbit", value_parser = rate)]
    pub rate: Rate,
    /// How long a session may last
    #[arg(long, value_name = "TIME", default_value = "1h", value_parser = time)]
    pub longest: Duration,
    /// How to print what it has counted
    #[arg(long, value_enum, default_value_t)]
    pub format: Format,
}

#[derive(Args, Debug)]
#[command(
    after_help = "For instance: narrows traffic run mix.yaml --server 192.0.2.1 --token token
              narrows traffic run mix.yaml --server host.example --token token --csv kpi

It ends with status 1 if not all of the mix was run."
)]
pub struct TrafficRun {
    /// A mix file, a flow file, or a folder of flow files
    #[arg(value_name = "MIX")]
    pub mix: PathBuf,
    /// The host, at which `narrows traffic serve` runs; at the port 8898 unless one is named
    #[arg(long, value_name = "HOST[:PORT]")]
    pub server: String,
    /// A file with the server's token, which only its owner may read
    #[arg(long, value_name = "FILE")]
    pub token: PathBuf,
    /// Only by IPv4
    #[arg(short = '4', long, conflicts_with = "ipv6")]
    pub ipv4: bool,
    /// Only by IPv6
    #[arg(short = '6', long)]
    pub ipv6: bool,
    /// Where in their first interval clients begin
    #[arg(long, value_enum, default_value_t)]
    pub offsets: OffsetsWord,
    /// What draws that
    #[arg(long, value_name = "N", default_value_t = 1)]
    pub seed: u64,
    /// The code point of all flows, or of those of a label or kind, in place of the mix's: 0 to 63, ef, af11, cs1 …
    #[arg(long, value_name = "[LABEL=]DSCP", value_parser = mark::<CodePoint>)]
    pub dscp: Vec<Mark<CodePoint>>,
    /// Mark datagrams as ECT(0) or ECT(1), and have connections ask for ECN (ect0): of all flows, or of a label or kind
    #[arg(long, value_name = "[LABEL=]ect0|ect1", value_parser = mark::<Capable>)]
    pub ecn: Vec<Mark<Capable>>,
    /// The congestion control of all connections, or of those of a label or kind, in place of the mix's: the kernel's
    /// name of it, or quic:cubic, quic:newreno or quic:bbr, which fetch by QUIC
    #[arg(long, value_name = "[LABEL=]NAME", value_parser = mark::<ControlName>)]
    pub cc: Vec<Mark<ControlName>>,
    /// How long transfers are waited for that are not complete when the mix is over
    #[arg(long, value_name = "TIME", default_value = "10s", value_parser = time)]
    pub grace: Duration,
    /// A new folder for `udp.csv` and `tcp.csv`, with trafic's columns
    #[arg(long, value_name = "DIR")]
    pub csv: Option<PathBuf>,
    /// A new file of points in InfluxDB's line protocol
    #[arg(long, value_name = "FILE")]
    pub influx: Option<PathBuf>,
    /// The name of these points
    #[arg(long, value_name = "NAME", default_value = "trafic", value_parser = measurement)]
    pub measurement: String,
    /// How to print what came of it
    #[arg(long, value_enum, default_value_t)]
    pub format: Format,
}

/// Where clients begin.
#[derive(Clone, Copy, Debug, Default, ValueEnum)]
pub enum OffsetsWord {
    /// Drawn
    #[default]
    Random,
    /// Evenly
    Spread,
    /// All at once
    Together,
}

impl From<OffsetsWord> for Offsets {
    fn from(word: OffsetsWord) -> Self {
        match word {
            OffsetsWord::Random => Self::Random,
            OffsetsWord::Spread => Self::Spread,
            OffsetsWord::Together => Self::Together,
        }
    }
}

fn mark<T: FromStr<Err = String>>(text: &str) -> Result<Mark<T>, String> {
    text.parse()
}

fn rate(text: &str) -> Result<Rate, String> {
    let rate = Rate::parse(text).filter(|rate| rate.as_bits() > 0);
    rate.ok_or_else(|| format!("allowed: {}", Rate::ALLOWED))
}

/// A line that begins with `#` is a comment in InfluxDB's line protocol.
fn measurement(text: &str) -> Result<String, String> {
    match text {
        "" => Err("allowed: a name of at least one letter".to_owned()),
        text if text.starts_with('#') => Err("allowed: a name that begins without `#`".to_owned()),
        text => Ok(text.to_owned()),
    }
}

fn time(text: &str) -> Result<Duration, String> {
    const MOST: Duration = Duration::from_secs(7 * 24 * 3_600);
    let time = Duration::parse(text).filter(|time| *time <= MOST);
    time.ok_or_else(|| format!("allowed: {}, up to a week", Duration::ALLOWED))
}

#[cfg(test)]
mod tests {
    use super::measurement;

    #[test]
    fn the_name_of_points_is_there_and_begins_no_comment() {
        assert_eq!(measurement("a #b").as_deref(), Ok("a #b"));
        assert!(measurement("").is_err());
        assert!(measurement("#a").is_err());
    }
}
