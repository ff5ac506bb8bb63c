//! Connections as values, over whichever kind of device.

use std::net::{IpAddr, SocketAddr};
use std::time::Duration;
use std::{slice, thread};

use softrnic_verbs::buffer::Buffer;
use softrnic_verbs::cm::{ConnectError, Connection, Connector, Options};
use softrnic_verbs::{Access, Context, Mr, Qp, QpType};

use crate::pair;

const PATIENCE: Option<Duration> = Some(Duration::from_secs(60));

/// Where a device listens: at its first address, any port.
fn anywhere(device: &Context) -> SocketAddr {
    SocketAddr::new(IpAddr::from(device.first_gid().unwrap().1), 0)
}

fn queue_pair(device: &Context) -> softrnic_verbs::Result<Qp> {
    device.alloc_pd()?.create_qp(QpType::Rc, &device.create_cq(16)?).build()
}

fn region(connection: &Connection, byte: u8) -> Mr {
    let pd = connection.qp().pd();
    let memory = Buffer::copy_of(&[byte; 64]).unwrap();
    pd.register(memory, Access::LOCAL_WRITE | Access::REMOTE).unwrap()
}

#[test]
fn both_ends_speak_and_write() {
    let (near, far) = pair();
    let listener = Connector::new(slice::from_ref(&far)).unwrap().listen(anywhere(&far)).unwrap();
    let server = listener.local();
    assert_ne!(server.port(), 0);
    let serving = thread::spawn(move || {
        let request = listener.request(PATIENCE).unwrap().expect("somebody asks");
        assert_eq!(request.local(), server);
        assert_eq!(
            (&request.private_data()[..5], request.private_data().len()),
            (&b"hello"[..], 56)
        );
        let connection = request.accept(&Options::saying("welcome"), queue_pair).unwrap();
        let memory = region(&connection, 7);
        connection.qp().recv(1, memory.sge(0, 64)).unwrap();
        let completion = connection.qp().recv_cq().wait_success(PATIENCE).unwrap();
        assert_eq!(completion.byte_len, 16);
        connection.qp().send(2, memory.sge(8, 16)).unwrap();
        connection.qp().send_cq().wait_success(PATIENCE).unwrap();
        assert!(connection.wait_closed(PATIENCE).unwrap(), "the client ends it");
    });
    let connector = Connector::new(&[near]).unwrap();
    let connection = connector.connect(server, &Options::saying("hello"), queue_pair).unwrap();
    assert_eq!(connection.peer(), server);
    assert_eq!(&connection.private_data()[..7], b"welcome");
    let memory = region(&connection, 9);
    connection.qp().recv(1, memory.sge(32, 16)).unwrap();
    connection.qp().send(2, memory.sge(0, 16)).unwrap();
    for _ in 0..2 {
        connection.qp().send_cq().wait_success(PATIENCE).unwrap();
    }
    let bytes = memory.buffer().to_vec().unwrap();
    assert_eq!((bytes[31], &bytes[32..40], &bytes[40..48]), (9, &[9; 8][..], &[7; 8][..]));
    connection.disconnect().unwrap();
    serving.join().unwrap();
}

#[test]
fn refusals_have_their_words() {
    let (near, far) = pair();
    let listener = Connector::new(slice::from_ref(&far)).unwrap().listen(anywhere(&far)).unwrap();
    let server = listener.local();
    let connector = Connector::new(&[near]).unwrap();
    let serving = thread::spawn(move || {
        listener.request(PATIENCE).unwrap().expect("somebody asks").reject(b"not today").unwrap();
        // A request that is dropped is refused, without a word.
        drop(listener.request(PATIENCE).unwrap().expect("somebody asks"));
    });
    let connect = || connector.connect(server, &Options::default(), queue_pair).unwrap_err();
    let ConnectError::Refused { private_data } = connect() else { panic!("it is refused") };
    assert_eq!(&private_data[..10], b"not today\0");
    assert!(matches!(connect(), ConnectError::Refused { .. }));
    serving.join().unwrap();
    assert_eq!(connect(), ConnectError::NoListener);
    let nowhere = "198.51.100.7:1".parse().unwrap();
    let error = connector.resolve(nowhere).map(drop);
    assert!(matches!(error, Err(ConnectError::NoRoute(_) | ConnectError::Refusal(_))), "{error:?}");
}

#[cfg(feature = "tokio")]
#[tokio::test]
async fn futures_do_not_block_each_other() {
    let (near, far) = pair();
    let listener = Connector::new(slice::from_ref(&far)).unwrap().listen(anywhere(&far)).unwrap();
    let server = listener.local();
    let connector = Connector::new(&[near]).unwrap();
    let options = Options::default();
    // One task is both ends: neither may wait for the other one by blocking.
    let (here, there) = tokio::join!(
        listener.accept_async(&options, queue_pair),
        connector.connect_async(server, &options, queue_pair),
    );
    let (here, there) = (here.unwrap(), there.unwrap());
    there.disconnect().unwrap();
    let (here, there) = tokio::join!(here.closed(), there.closed());
    here.unwrap();
    there.unwrap();
}
