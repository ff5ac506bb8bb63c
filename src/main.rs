//! The softrnic command line.
fn main() {}
