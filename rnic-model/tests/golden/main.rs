//! The wire format against frames that others made: see `conformance/captures/README.md`.

#[cfg(test)]
mod captured;
#[cfg(test)]
mod cm;
#[cfg(test)]
mod damage;
#[cfg(test)]
mod rebuild;
#[cfg(test)]
mod scapy;
#[cfg(test)]
mod sources;
