//! The public structs of libibverbs and librdmacm as C sees them (rdma-core v64; what differs in older versions is
//! said where it does), with the names that C gives them.
//!
//! Sizes and offsets are facts, so each struct is written as a table of them: the compiler checks the
//! table against the layout that `repr(C)` gives, and a test of the drop-in checks it against the
//! installed headers. Enums are plain integers, for C may put any number into one.
//!
//! The drop-in hands these structs to C and the hardware backend gets them from C. What a pointer leads
//! to differs between the two, so the tables are macros: the module that calls them has in scope
//!
//! * `Ptr<_>`, a pointer that is not NULL, and `of`, a module with what each kind of pointer leads to
//!   (`Context`, `Pd`, `Td`, `Mr`, `Mw`, `Dm`, `Channel`, `Cq`, `Ah`, `Srq`, `Qp`, `Xrcd`),
//! * `ibv_sge`, [`Mutex`], [`Cond`], [`Absent`], `c_int` and `c_void`.
//!
//! 64-bit systems only.
#![no_std]
#![forbid(unsafe_code)]

pub mod address;
mod attributes;
mod context;
mod objects;
mod rdmacm;
mod work;

pub use address::Storage;

/// `pthread_mutex_t` of glibc.
pub type Mutex = [u64; 5];
/// `pthread_cond_t` of glibc.
pub type Cond = [u64; 6];

/// An operation that only its absence is known of: the headers answer `EOPNOTSUPP` for NULL.
pub type Absent = Option<extern "C" fn()>;

/// One struct of a table.
#[derive(Debug)]
pub struct Layout {
    /// Its name.
    pub name: &'static str,
    /// Bytes.
    pub size: usize,
    /// How C calls a field, its offset, its size.
    pub fields: &'static [(&'static str, usize, usize)],
}

/// Declares structs with the offset of each field: `struct name: SIZE { field: type = OFFSET }`. A field
/// that C reaches by another path says so after a slash. For tests there is a constant with the table.
#[macro_export]
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
        pub(crate) const $table: &[$crate::Layout] = &[$($crate::Layout {
            name: stringify!($name),
            size: $size,
            fields: &[$(($crate::layout!(@name $field $($path)?), $at, size_of::<$type>())),*],
        }),*];
    };
    (@name $field:ident) => { stringify!($field) };
    (@name $field:ident $path:literal) => { $path };
}
