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

/// A batch of sends.
pub(crate) type SendBatch<'a> = batch::Batch<softrnic_model::verbs::SendWr<'a>, BATCH>;
