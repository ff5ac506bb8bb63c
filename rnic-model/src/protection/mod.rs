//! Who may touch which bytes.
