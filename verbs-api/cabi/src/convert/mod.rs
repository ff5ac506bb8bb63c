//! Between the structs of C and the words of the model.

mod attributes;
#[expect(unsafe_code, reason = "room that is not initialized")]
mod batch;
mod completion;
mod lists;
#[expect(unsafe_code, reason = "C passes addresses")]
mod memory;
mod requests;

pub(crate) use attributes::*;
pub(crate) use completion::*;
pub(crate) use lists::*;
pub(crate) use memory::*;
pub(crate) use requests::*;

/// Posts one send request of C; whether it was taken.
#[cfg(any(test, fuzzing))]
pub(crate) fn one_send(
    wr: &crate::layout::ibv_send_wr,
    qp_type: softrnic_model::verbs::QpType,
    post: impl FnOnce(&softrnic_model::verbs::SendWr<'_>) -> bool,
) -> bool {
    let mut bytes = [const { core::mem::MaybeUninit::uninit() }; 4096];
    let mut room = batch::InlineRoom::new(&mut bytes);
    matches!(send_request(wr, qp_type, &mut room), Ok(Some(request)) if post(&request))
}

/// Posts one receive request of C; whether it was taken.
#[cfg(any(test, fuzzing))]
pub(crate) fn one_receive(
    wr: &crate::layout::ibv_recv_wr,
    post: impl FnOnce(&softrnic_model::verbs::RecvWr<'_>) -> bool,
) -> bool {
    matches!(receive_request(wr), Ok(request) if post(&request))
}

/// A batch of sends.
pub(crate) type SendBatch<'a> = batch::Batch<softrnic_model::verbs::SendWr<'a>, BATCH>;
