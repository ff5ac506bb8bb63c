//! The helper on the host of a device that is judged from the wire.

use std::net::TcpListener;

use softrnic_conformance::program::serve::serve;

use super::ServeArgs;
use crate::cli::Shared;
use crate::device::Settings;
use crate::error::Failure;
use crate::units::Address;

pub(super) fn run(args: &ServeArgs, shared: &Shared) -> Result<(), Failure> {
    let settings = Settings::new(shared)?;
    let loopback = Address::Ips(vec![std::net::Ipv4Addr::LOCALHOST.into()]);
    let context = match &shared.address {
        None if settings.is_hardware() => settings.open_anywhere()?,
        address => settings.open(address.as_ref().unwrap_or(&loopback))?,
    };
    let at = (args.bind, args.listen);
    let listener = TcpListener::bind(at).map_err(|error| {
        Failure::failed(
            format!("TCP port {} cannot be listened on: {error}", args.listen),
            "another helper may run; --listen takes another port",
        )
    })?;
    let (_, gid) = context.first_gid()?;
    eprintln!("the device at {gid} can be judged: softrnic conform --peer IP:{}", args.listen);
    let failed = |error: std::io::Error| Failure::plain(format!("it cannot listen: {error}"));
    serve(&listener, context.verbs(), &mut |what| eprintln!("{what}")).map_err(failed)
}
