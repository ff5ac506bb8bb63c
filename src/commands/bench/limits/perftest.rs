//! perftest's programs, unchanged, on the drop-in library: `softrnic run -- ib_write_bw` and others,
//! client and server on this host.

use std::net::{Ipv4Addr, TcpListener};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use super::sample::{Sample, failed};
use crate::error::Failure;

/// One of the programs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Program {
    /// WRITEs of 64 KiB: GB/s.
    WriteBandwidth,
    /// SENDs of 64 KiB: GB/s.
    SendBandwidth,
    /// SENDs of 2 bytes to and fro: half of a typical round trip in microseconds.
    SendLatency,
    /// The same by WRITEs, for which both programs watch their memory.
    WriteLatency,
}

/// How long a server may take until it listens, and a pair until it is done.
const START: Duration = Duration::from_secs(5);
const END: Duration = Duration::from_secs(60);

impl Program {
    const fn name(self) -> &'static str {
        match self {
            Self::WriteBandwidth => "ib_write_bw",
            Self::SendBandwidth => "ib_send_bw",
            Self::SendLatency => "ib_send_lat",
            Self::WriteLatency => "ib_write_lat",
        }
    }

    const fn is_bandwidth(self) -> bool {
        matches!(self, Self::WriteBandwidth | Self::SendBandwidth)
    }

    const fn arguments(self) -> &'static str {
        if self.is_bandwidth() {
            "-x 0 -F -s 65536 -m 4096 -n 5000 --report_gbits"
        } else {
            "-x 0 -F -s 2 -m 4096 -n 5000"
        }
    }

    /// The value in what the client prints: of the one line of numbers, the column of the average
    /// bandwidth or of the typical latency.
    fn value(self, text: &str) -> Option<f64> {
        let numbers = |line: &str| -> Option<Vec<f64>> {
            line.split_whitespace().map(|word| word.parse().ok()).collect()
        };
        let line = text.lines().filter_map(numbers).find(|numbers| numbers.len() >= 5)?;
        if self.is_bandwidth() {
            line.get(3).map(|gbits| gbits / 8.0)
        } else {
            line.get(4).copied()
        }
    }

    fn command(self, last: u8, port: u16) -> Result<Command, Failure> {
        let own = std::env::current_exe().map_err(failed("find this program"))?;
        let mut command = Command::new(own);
        let address = Ipv4Addr::new(127, 0, 0, last).to_string();
        command.args(["run", "--fake-sysfs", "none", "-d", &address, "--", self.name()]);
        command.args(self.arguments().split(' ')).args(["-p", &port.to_string()]);
        for own in ["SOFTRNIC_ADDRESS", "SOFTRNIC_CAPTURE", "SOFTRNIC_FAULTS", "SOFTRNIC_TRACE"] {
            command.env_remove(own);
        }
        command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped());
        Ok(command)
    }

    /// Runs both ends once.
    pub(super) fn sample(self) -> Result<Sample, Failure> {
        let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0));
        let port = listener.and_then(|listener| listener.local_addr());
        let port = port.map_err(failed("find a free TCP port"))?.port();
        let start = failed("start a program of perftest");
        let mut server = Killed(self.command(2, port)?.spawn().map_err(&start)?);
        let begun = Instant::now();
        loop {
            let mut client = self.command(3, port)?;
            client.arg("127.0.0.2");
            let client = Killed(client.spawn().map_err(&start)?);
            let (good, text) = client.finish()?;
            if good {
                let value = self.value(&text).ok_or_else(|| self.refused(&text))?;
                server.wait();
                return Ok(Sample { value, line_ns: None, waited: 0.0 });
            }
            // It does not listen yet, or cannot at all.
            if begun.elapsed() > START || server.has_ended() {
                return Err(self.refused(&text));
            }
            std::thread::sleep(Duration::from_millis(100));
        }
    }

    fn refused(self, text: &str) -> Failure {
        Failure::failed(
            format!("bench limits: {} does not run: {}", self.name(), text.trim()),
            "install perftest; `softrnic run -- ib_write_bw` says more",
        )
    }
}

/// A process that does not outlive its handle.
struct Killed(Child);

impl Killed {
    fn has_ended(&mut self) -> bool {
        self.0.try_wait().is_ok_and(|status| status.is_some())
    }

    fn wait(&mut self) {
        let begun = Instant::now();
        while !self.has_ended() && begun.elapsed() < START {
            std::thread::sleep(Duration::from_millis(5));
        }
    }

    /// Whether it went well, and all that it printed, which is little.
    fn finish(mut self) -> Result<(bool, String), Failure> {
        let begun = Instant::now();
        while !self.has_ended() && begun.elapsed() < END {
            std::thread::sleep(Duration::from_millis(5));
        }
        _ = self.0.kill();
        let status = self.0.wait().map_err(failed("wait for a program of perftest"))?;
        let mut text = String::new();
        for stream in [
            self.0.stdout.take().map(std::io::read_to_string),
            self.0.stderr.take().map(std::io::read_to_string),
        ] {
            text.push_str(
                &stream.transpose().map_err(failed("read what perftest says"))?.unwrap_or_default(),
            );
        }
        Ok((status.success(), text))
    }
}

impl Drop for Killed {
    fn drop(&mut self) {
        _ = self.0.kill();
        _ = self.0.wait();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_figure_is_found_among_the_words() {
        let text = " #bytes     #iterations    BW peak[Gb/sec]    BW average[Gb/sec]   MsgRate[Mpps]\n \
                    65536      5000             40.00              16.00                0.025297\n";
        assert_eq!(Program::WriteBandwidth.value(text), Some(2.0));
        let text = " #bytes #iterations    t_min[usec]    t_max[usec]  t_typical[usec]    t_avg[usec]\n \
                    2       2000          7.23           582.58       12.89              19.69\n";
        assert_eq!(Program::SendLatency.value(text), Some(12.89));
        assert_eq!(Program::SendLatency.value("nothing of the kind"), None);
    }
}
