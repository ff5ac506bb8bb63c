//! What only a second network stack shows.
