//! The second process of the tour: it makes ready what an act needs, and tells what it sees.

use std::time::Duration;

use clap::Args;
use softrnic_model::verbs::{Mtu, Subject};
use softrnic_verbs::buffer::{Buffer, SharedBuffer};
use softrnic_verbs::{AsyncEvent, ConnectOptions, Context, Cq, Mr, Pd, Qp, QpType, RecvWr, Sge};

use super::image::{Image, MEMORY, receive_offset};
use super::script::{ACTS, Act};
use super::talk::{Ask, Prepared, Receipt, Seen, to_hex};
use super::{capabilities, hello};
use crate::child;
use crate::cli::Shared;
use crate::device::Settings;
use crate::error::Failure;
use crate::exchange::{Exchange, QueuePairInfo, RegionInfo};
use crate::words;

/// The longest pause of the requester: an act in bad weather.
const PATIENCE: Duration = Duration::from_secs(120);
const AT_ONCE: Option<Duration> = Some(Duration::ZERO);

/// What the second process is told.
#[derive(Args, Debug)]
pub(crate) struct PeerArgs {
    /// TCP port of the first process
    #[arg(long)]
    meet: u16,
}

/// The second process from its beginning to its end.
pub(crate) fn run(args: &PeerArgs, shared: &Shared) -> Result<(), Failure> {
    child::end_with_parent();
    let mut exchange = Exchange::connect("127.0.0.1", args.meet)?;
    if let Err(failure) = serve(&mut exchange, shared) {
        // The first process reports it.
        exchange.give_up(&failure.to_string());
    }
    Ok(())
}

fn serve(exchange: &mut Exchange, shared: &Shared) -> Result<(), Failure> {
    let settings = Settings::quiet(shared);
    let context = match &shared.address {
        Some(address) => settings.open(address)?,
        None => settings.open_anywhere()?,
    };
    let (_, gid) = context.first_gid()?;
    exchange.introduce(&hello(shared))?;
    exchange.tell(&gid.to_string())?;
    let domains = [context.alloc_pd()?, context.alloc_pd()?];
    let mut scene = None;
    loop {
        match exchange.hear_told(PATIENCE)? {
            Ask::Prepare { act, requester } => {
                // What is left of the act before goes first.
                drop(scene.take());
                let act = ACTS.get(act).ok_or_else(|| Failure::plain("no such act"))?;
                let (ready, prepared) = Scene::prepare(&context, &domains, act, &requester)?;
                scene = Some(ready);
                exchange.tell(&prepared)?;
            }
            Ask::Look => {
                let scene = scene.as_mut().ok_or_else(|| Failure::plain("no act is prepared"))?;
                exchange.tell(scene.look(&context)?)?;
            }
            Ask::End => return Ok(()),
        }
    }
}

/// What an act needs at this end.
struct Scene {
    act: &'static Act,
    cq: Cq,
    qp: Qp,
    memory: SharedBuffer,
    seen: Seen,
    /// What receives and peers may use; the second is gone where the act wants that.
    _regions: (Mr, Option<Mr>),
}

impl Scene {
    fn prepare(
        context: &Context,
        [own, other]: &[Pd; 2],
        act: &'static Act,
        requester: &QueuePairInfo,
    ) -> Result<(Self, Prepared), Failure> {
        let memory = Buffer::copy_of(Image::responder().bytes())?.into_shared();
        let receives = own.register(memory.clone(), softrnic_verbs::Access::LOCAL_WRITE)?;
        let pd = if act.stage.same_pd { own } else { other };
        let target = pd.register(memory.clone(), act.stage.region)?;
        let cq = context.create_cq(64)?;
        let qp = own.create_qp(act.service, &cq).access(act.stage.qp);
        let qp = qp.capabilities(capabilities()).build()?;
        let places = (0..act.rounds).filter(|_| act.stage.receive > 0);
        for round in places {
            let sges: [Sge; 1] = [receives.sge(receive_offset(act, round), act.stage.receive)];
            qp.post_recv(&[RecvWr { wr_id: round, sges: &sges }])?;
        }
        match act.service {
            QpType::Rc | QpType::Uc | QpType::XrcSend | QpType::XrcRecv => {
                let mtu = Mtu::B1024;
                let options = ConnectOptions { mtu: Some(mtu), ..ConnectOptions::default() };
                qp.connect_with(&requester.endpoint(mtu), &options)?;
            }
            QpType::Ud => qp.activate()?,
        }
        let prepared = Prepared {
            responder: QueuePairInfo::of(&qp, Some(super::QKEY))?,
            region: RegionInfo::of(&target),
        };
        let target = (!act.stage.deregistered).then_some(target);
        let seen = Seen::default();
        Ok((Self { act, cq, qp, memory, seen, _regions: (receives, target) }, prepared))
    }

    /// What has happened so far.
    fn look(&mut self, context: &Context) -> Result<&Seen, Failure> {
        while let Some(wc) = self.cq.poll_one()? {
            self.seen.receipts.push(Receipt::of(&wc, self.act.service == QpType::Ud));
        }
        while let Some(event) = context.next_async_event(AT_ONCE)? {
            if is_about(event, &self.qp) {
                self.seen.events.push(words::event(event).into());
            }
        }
        self.seen.state = words::state(self.qp.query()?.0.state).into();
        let mut bytes = vec![0; MEMORY];
        self.memory.read(0, &mut bytes)?;
        self.seen.memory = to_hex(&bytes);
        Ok(&self.seen)
    }
}

/// Whether an event is about `qp` or about all; those of queue pairs that are gone are not.
fn is_about(event: AsyncEvent, qp: &Qp) -> bool {
    match event.subject() {
        Subject::Qp(num) => num == qp.num(),
        Subject::Cq(_) | Subject::Srq(_) | Subject::Device => true,
    }
}
