//! The public structs of libibverbs as C sees them (rdma-core v64; what differs in older versions is
//! said where it does), with the names that C gives them.
//!
//! Sizes and offsets are facts, so each struct is written as a table of them: the compiler checks the
//! table against the layout that `repr(C)` gives, and a test checks it against the installed headers.
//! Enums are plain integers, for C may put any number into one.
#![expect(
    non_camel_case_types,
    reason = "the names of C, so that a reader finds them in the headers"
)]

mod attributes;
mod context;
mod objects;
#[cfg(test)]
mod tests;
mod work;

pub(crate) use attributes::*;
pub(crate) use context::*;
pub(crate) use objects::*;
pub(crate) use work::*;

/// One struct of the table.
#[cfg(test)]
pub(crate) struct Layout {
    pub(crate) name: &'static str,
    pub(crate) size: usize,
    /// How C calls a field, its offset, its size.
    pub(crate) fields: &'static [(&'static str, usize, usize)],
}

/// Declares structs with the offset of each field: `struct name: SIZE { field: type = OFFSET }`. A field
/// that C reaches by another path says so after a slash.
macro_rules! layout {
    ($table:ident: $($(#[$meta:meta])* struct $name:ident: $size:literal {
        $($field:ident: $type:ty = $at:literal $(/ $path:literal)?),* $(,)?
    })*) => {
        $(
            $(#[$meta])*
            #[repr(C)]
            #[derive(Clone, Copy)]
            pub(crate) struct $name { $(pub(crate) $field: $type),* }

            const _: () = {
                assert!(size_of::<$name>() == $size);
                $(assert!(core::mem::offset_of!($name, $field) == $at);)*
            };
        )*

        #[cfg(test)]
        pub(crate) const $table: &[$crate::layout::Layout] = &[$($crate::layout::Layout {
            name: stringify!($name),
            size: $size,
            fields: &[$((layout!(@name $field $($path)?), $at, size_of::<$type>())),*],
        }),*];
    };
    (@name $field:ident) => { stringify!($field) };
    (@name $field:ident $path:literal) => { $path };
}
pub(crate) use layout;

/// A struct of which every bit pattern is a value, the zero one above all.
///
/// # Safety
/// All bytes zero is a valid value.
pub(crate) unsafe trait Zeroed: Sized {
    /// All fields 0, NULL or absent.
    fn zeroed() -> Self {
        // SAFETY: the implementor's promise.
        unsafe { core::mem::zeroed() }
    }
}

macro_rules! zeroed {
    ($($name:ty),* $(,)?) => { $(
        // SAFETY: integers, arrays of them, and pointers and functions that may be absent.
        unsafe impl Zeroed for $name {}
    )* };
}

zeroed!(
    ibv_ah,
    ibv_ah_attr,
    ibv_async_event,
    ibv_comp_channel,
    ibv_cq_ex,
    ibv_device,
    ibv_device_attr,
    ibv_device_attr_ex,
    ibv_dm,
    ibv_gid_entry,
    ibv_mr,
    ibv_mw,
    ibv_pd,
    ibv_port_attr,
    ibv_qp_attr,
    ibv_qp_ex,
    ibv_qp_init_attr,
    ibv_send_wr,
    ibv_srq,
    ibv_td,
    ibv_wc,
    ibv_xrcd,
    verbs_context,
);
