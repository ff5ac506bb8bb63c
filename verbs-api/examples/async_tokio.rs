//! Completions as futures: an echo server and its clients as tasks of one tokio thread.
//!
//! Every client has a queue pair of its own and awaits its completions through an
//! [`AsyncChannel`]; while one waits the others go on. Nobody polls and nobody blocks.
//!
//! ```console
//! $ cargo run --release -p softrnic-verbs --features tokio --example async_tokio
//! ```

use std::error::Error;
use std::time::Duration;

use softrnic_verbs::buffer::Buffer;
use softrnic_verbs::{
    Access, AsyncChannel, Backend, Context, Cq, Endpoint, Mr, Qp, QpType, Wc, WcOpcode, open_pair,
    successful,
};
use tokio::task::JoinSet;
use tokio::time::timeout;

type Result<T> = std::result::Result<T, Box<dyn Error + Send + Sync>>;

const CLIENTS: u64 = 8;
const REQUESTS: u64 = 50;
const PATIENCE: Duration = Duration::from_secs(30);

/// One end of a connection: words go out from the first 8 bytes and come in behind them.
struct End {
    channel: AsyncChannel,
    cq: Cq,
    qp: Qp,
    words: Mr,
}

impl End {
    fn new(device: &Context) -> Result<Self> {
        let channel = device.create_comp_channel()?;
        let cq = channel.create_cq(16)?;
        let pd = device.alloc_pd()?;
        let qp = pd.create_qp(QpType::Rc, &cq).build()?;
        let words = pd.register(Buffer::new(16)?, Access::LOCAL_WRITE)?;
        qp.recv(0, words.sge(8, 8))?;
        Ok(Self { channel: AsyncChannel::new(channel)?, cq, qp, words })
    }

    async fn completion(&self) -> Result<Wc> {
        Ok(successful(timeout(PATIENCE, self.channel.completion(&self.cq)).await??)?)
    }

    fn send(&self, word: u64) -> Result<()> {
        self.words.buffer().store_u64(0, word)?;
        Ok(self.qp.send(1, self.words.sge(0, 8))?)
    }

    /// Awaits the next word, and the end of a send that is under way.
    async fn receive(&self, mut sending: bool) -> Result<u64> {
        let mut received = false;
        while sending || !received {
            if self.completion().await?.opcode == WcOpcode::Recv {
                received = true;
            } else {
                sending = false;
            }
        }
        let word = self.words.buffer().load_u64(8)?;
        self.qp.recv(0, self.words.sge(8, 8))?;
        Ok(word)
    }
}

/// Answers each word with its square.
async fn serve(end: End, peer: Endpoint) -> Result<()> {
    end.qp.connect(&peer)?;
    for request in 0..REQUESTS {
        let word = end.receive(request > 0).await?;
        end.send(word * word)?;
    }
    end.completion().await?;
    Ok(())
}

async fn ask(end: End, peer: Endpoint, first: u64) -> Result<()> {
    end.qp.connect(&peer)?;
    for word in first..first + REQUESTS {
        end.send(word)?;
        assert_eq!(end.receive(true).await?, word * word);
    }
    Ok(())
}

#[tokio::main(flavor = "current_thread")]
async fn main() -> Result<()> {
    let (near, far) = open_pair(Backend::from_environment()?)?;
    let mut tasks = JoinSet::new();
    for client in 0..CLIENTS {
        let (asks, serves) = (End::new(&near)?, End::new(&far)?);
        let (asks_at, serves_at) = (asks.qp.endpoint()?, serves.qp.endpoint()?);
        tasks.spawn(serve(serves, asks_at));
        tasks.spawn(ask(asks, serves_at, 1000 * client));
    }
    while let Some(ended) = tasks.join_next().await {
        ended??;
    }
    println!("{CLIENTS} clients had {REQUESTS} answers each, all in one thread");
    Ok(())
}

#[test]
fn it_runs() {
    main().unwrap();
}
