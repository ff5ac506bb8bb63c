//! What C finds by name, and by which version.
//!
//! A trampoline in assembly carries the versioned name of each function: names in assembly are unknown
//! to the compiler, which would otherwise list them in its own version script without a version.
//! `name@@VERSION` is what new programs are linked to, `name@VERSION` what older ones ask for.

mod own;
mod private;
mod public;
mod rdmacm;

/// Exports a function by a name and a version: `path, "name", "@@VERSION"`.
macro_rules! export_one {
    ($function:path, $name:literal, $version:literal) => {
        #[cfg(not(any(test, fuzzing)))]
        core::arch::global_asm!(
            concat!(".globl \"__", $name, $version, "\""),
            concat!(".type \"__", $name, $version, "\",@function"),
            concat!("\"__", $name, $version, "\":"),
            $crate::exports::jump!(),
            concat!(".size \"__", $name, $version, "\", . - \"__", $name, $version, "\""),
            concat!(".symver \"__", $name, $version, "\",\"", $name, $version, "\",remove"),
            function = sym $function,
        );
        // A test or fuzzer exports nothing; the function is there all the same.
        #[cfg(any(test, fuzzing))]
        const _: () = $crate::exports::is_there($function);
    };
}
pub(crate) use export_one;

/// Exports functions: `path => "name@@VERSION", …;`.
macro_rules! export {
    ($($function:path => $($name:literal),+ $(,)?;)*) => { $($(
        $crate::exports::export_one!($function, $name, "");
    )+)* };
}
pub(crate) use export;

#[cfg(any(test, fuzzing))]
pub(crate) const fn is_there<F: Copy>(_: F) {}

#[cfg(all(not(any(test, fuzzing)), target_arch = "x86_64"))]
macro_rules! jump {
    () => {
        "jmp {function}"
    };
}
#[cfg(all(not(any(test, fuzzing)), target_arch = "aarch64"))]
macro_rules! jump {
    () => {
        "b {function}"
    };
}
#[cfg(not(any(test, fuzzing)))]
pub(crate) use jump;
