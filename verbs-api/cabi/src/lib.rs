//! The drop-in `libibverbs.so.1` and `librdmacm.so.1`: unmodified RDMA programs on an emulated device.
//!
//! Read first: `exports`, the table of what C finds by name; `object`, what the pointers lead to;
//! `errno`, how C hears of failures. The rest is a module per chapter of the verbs, each a thin layer
//! over [`softrnic_verbs::provider::Context`].
//!
//! Everything that C calls is a safe function: arguments are `Option<Ptr<_>>` for objects and
//! `Option<&_>` for structs, which C vouches for by calling, and `unsafe` is left to `object` and
//! `convert`, to the memory that programs register, and to a few calls of the C library.
#![cfg(all(target_os = "linux", target_pointer_width = "64"))]
#![deny(unsafe_code)]

mod absent;
mod address;
mod completion;
mod context;
mod convert;
mod cq_ex;
mod device_list;
mod device_memory;
mod domain;
mod errno;
mod events;
#[cfg_attr(
    not(any(test, fuzzing)),
    expect(unsafe_code, reason = "names that only assembly can give")
)]
mod exports;
mod extended;
mod fork;
#[cfg(any(test, fuzzing))]
#[expect(unsafe_code, reason = "structs of any bytes")]
#[expect(clippy::panic, clippy::cast_possible_wrap, reason = "it is a test")]
pub mod hostile;
mod kernel;
#[expect(unsafe_code, reason = "zeroed C structs")]
mod layout;
#[expect(unsafe_code, reason = "the program vouches for the memory that it registers")]
mod memory;
#[expect(unsafe_code, reason = "hands records to C and takes them back")]
mod object;
mod objects;
mod post;
mod qp_ex;
mod query;
mod queue_pair;
mod rdmacm;
mod shared;
mod shared_receive;
mod turn;
mod users;
mod windows;
mod words;
mod work_list;
