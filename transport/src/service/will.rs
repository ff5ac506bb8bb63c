//! What is left to say for a process that is gone. Each member has a file in memory that the service has
//! made and also holds; there it writes down what its connections are, and when it ends, however it
//! ends, the service reads the file and takes leave of the peers.
//!
//! A file and not messages, for a connection comes and goes faster than the service should have to
//! look, and what is written stays whoever of member and service dies.

use std::collections::BTreeMap;
use std::fs::File;
use std::io;
use std::os::unix::fs::FileExt;

use rustix::fs::{MemfdFlags, memfd_create};
use softrnic_model::cm::{CommId, Guid, Parting, State};
use softrnic_model::verbs::QpNum;

use super::codec::{Reader, Writer};

/// Bytes of a record.
const RECORD: usize = 80;
/// The state of a record that holds nothing: a new file is full of them.
const EMPTY: u8 = 0;
/// Connections that are read of one file.
const RECORDS_MAX: usize = 1 << 16;
/// Records that are read at one time.
const AT_ONCE: usize = 256;

/// A new file without records.
///
/// # Errors
/// As the system has them.
pub(super) fn new_file() -> io::Result<File> {
    Ok(File::from(memfd_create("softrnic-will", MemfdFlags::CLOEXEC)?))
}

/// The file as its member writes it.
#[derive(Debug)]
pub struct Will {
    file: File,
    places: BTreeMap<CommId, u64>,
    /// Records before the end that hold nothing.
    free: Vec<u64>,
    end: u64,
}

impl Will {
    /// Writes a file anew.
    pub(super) fn new(file: File) -> io::Result<Self> {
        file.set_len(0)?;
        Ok(Self { file, places: BTreeMap::new(), free: Vec::new(), end: 0 })
    }

    /// Writes down what taking leave of the peer of a connection takes; nothing if the connection is
    /// gone or there is nothing to say.
    pub fn note(&mut self, id: CommId, parting: Option<&Parting>) {
        let Some(parting) = parting.filter(|parting| !parting.words().is_empty()) else {
            if let Some(place) = self.places.remove(&id) {
                self.free.push(place);
                self.write(place, &[EMPTY; RECORD]);
            }
            return;
        };
        let Self { places, free, end, .. } = self;
        let place = *places.entry(id).or_insert_with(|| {
            free.pop().unwrap_or_else(|| {
                *end += 1;
                *end - 1
            })
        });
        self.write(place, &record_of(parting));
    }

    fn write(&self, place: u64, record: &[u8; RECORD]) {
        // If there is no memory for it, this peer finds out by itself that the process is gone.
        let _ = self.file.write_all_at(record, place * RECORD as u64);
    }
}

/// What is in a file. Its member may be of another user, and may have written anything.
pub(super) fn read(file: &File) -> Vec<Parting> {
    let mut found = Vec::new();
    let mut buffer = [0; RECORD * AT_ONCE];
    for at in (0..RECORDS_MAX).step_by(AT_ONCE) {
        let len = file.read_at(&mut buffer, (at * RECORD) as u64).unwrap_or(0);
        let records = buffer.get(..len).unwrap_or_default().chunks_exact(RECORD);
        found.extend(records.filter_map(parting_of));
        // Memory is read to the end or as far as the buffer goes.
        if len < buffer.len() {
            break;
        }
    }
    found
}

fn record_of(parting: &Parting) -> [u8; RECORD] {
    let state = State::ALL.iter().position(|state| *state == parting.state);
    let state = state.and_then(|at| u8::try_from(at + 1).ok()).unwrap_or(EMPTY);
    let qpn = parting.remote_qpn;
    let mut out = Writer::default();
    out.u8(state).u8(qpn.is_some().into()).u32(qpn.map_or(0, QpNum::get));
    out.u32(parting.local.0).u32(parting.remote.0).u64(parting.guid.0);
    out.u64(parting.exchange).u64(parting.own_exchange).route(&parting.route);
    let mut record = [0; RECORD];
    record.iter_mut().zip(&out.0).for_each(|(to, from)| *to = *from);
    record
}

fn parting_of(record: &[u8]) -> Option<Parting> {
    let body = &mut Reader(record);
    let state = usize::from(body.u8()?).checked_sub(1)?;
    let qpn_is_known = body.u8()? == 1;
    let qpn = QpNum::new(body.u32()? & QpNum::MULTICAST.get());
    Some(Parting {
        state: *State::ALL.get(state)?,
        remote_qpn: qpn_is_known.then_some(qpn),
        local: CommId(body.u32()?),
        remote: CommId(body.u32()?),
        guid: Guid(body.u64()?),
        exchange: body.u64()?,
        own_exchange: body.u64()?,
        route: body.route()?,
    })
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;
    use softrnic_model::verbs::Gid;
    use softrnic_model::wire::Route;

    use super::*;

    fn parting(index: u32, state: State) -> Parting {
        Parting {
            state,
            local: CommId::from_parts(3, index),
            remote: CommId(0xfedc_ba98),
            remote_qpn: index.is_multiple_of(2).then_some(QpNum::new(0x12_3456)),
            exchange: u64::MAX,
            own_exchange: 7,
            guid: Guid(u64::MAX - 1),
            route: Route {
                src: Gid::from_v4([127, 0, 0, 1]),
                dst: Gid([0xfd; 16]),
                src_port: 50_000,
                traffic_class: 8,
                hop_limit: 64,
                flow_label: 0xf_ffff,
            },
        }
    }

    #[test]
    fn what_is_written_last_is_read() {
        let file = new_file().unwrap();
        let mut will = Will::new(file.try_clone().unwrap()).unwrap();
        let ids = 0..1000;
        let put = |will: &mut Will, index, state| {
            let parting = parting(index, state);
            will.note(parting.local, Some(&parting));
        };
        ids.clone().for_each(|index| put(&mut will, index, State::ReqSent));
        ids.clone().for_each(|index| put(&mut will, index, State::Established));
        // Of some there is nothing to be said any more, and some are gone.
        (0..1000).step_by(2).for_each(|index| put(&mut will, index, State::Timewait));
        (0..1000).step_by(5).for_each(|index| will.note(CommId::from_parts(3, index), None));
        let mut found = read(&file);
        found.sort_by_key(|parting| parting.local);
        // The odd ones have no queue pair, so there is nothing to say but to refuse.
        assert_eq!(found, []);
        ids.for_each(|index| put(&mut will, index, State::ReqSent));
        let mut found = read(&file);
        found.sort_by_key(|parting| parting.local);
        assert_eq!(found, (0..1000).map(|n| parting(n, State::ReqSent)).collect::<Vec<_>>());
        assert!(file.metadata().unwrap().len() <= 1000 * RECORD as u64, "places are used again");
        drop(Will::new(file.try_clone().unwrap()).unwrap());
        assert_eq!(read(&file), []);
    }

    #[test]
    fn a_record_holds_the_longest_parting() {
        for state in State::ALL {
            for index in [0, 1] {
                let parting = parting(index, state);
                assert_eq!(parting_of(&record_of(&parting)), Some(parting));
            }
        }
        assert_eq!(parting_of(&[EMPTY; RECORD]), None);
    }

    #[test]
    fn no_more_is_read_than_there_can_be() {
        let file = new_file().unwrap();
        let record = record_of(&parting(0, State::Established));
        file.write_all_at(&record.repeat(RECORDS_MAX + 1000), 0).unwrap();
        assert_eq!(read(&file).len(), RECORDS_MAX);
    }

    proptest! {
        #[test]
        fn no_bytes_do_harm(bytes in proptest::collection::vec(any::<u8>(), 0..400)) {
            let file = new_file().unwrap();
            file.write_all_at(&bytes, 0).unwrap();
            for parting in read(&file) {
                let _ = parting.words();
            }
        }
    }
}
