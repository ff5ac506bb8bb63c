//! End-to-end flow control (IBA 9.7.7.2): how many messages the peer has receives for.

/// Messages by credit code.
const MESSAGES: [u32; 31] = [
    0, 1, 2, 3, 4, 6, 8, 12, 16, 24, 32, 48, 64, 96, 128, 192, 256, 384, 512, 768, 1024, 1536,
    2048, 3072, 4096, 6144, 8192, 12_288, 16_384, 24_576, 32_768,
];

/// What a requester knows of the peer's receives. Messages are counted as the peer counts them,
/// modulo 2^24, each READ request by itself.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Credits {
    /// Messages started.
    started: u32,
    /// The last message for which the peer has a receive; none if it does not say.
    limit: Option<u32>,
}

impl Credits {
    /// Whether one more message that takes a receive may start. When nothing is under way one may
    /// always: its acknowledgement brings news.
    // [acknowledgement-retry/credits-respected]
    pub(crate) fn admits(&self, idle: bool) -> bool {
        idle || self.limit.is_none_or(|limit| distance(limit, self.started) > 0)
    }

    /// `messages` more have started.
    pub(crate) fn started(&mut self, messages: u32) {
        self.started = self.started.wrapping_add(messages);
    }

    /// An acknowledgement says that `msn` messages are complete, and a credit code.
    pub(crate) fn on_acknowledge(&mut self, msn: u32, code: u8) {
        let Some(messages) = MESSAGES.get(usize::from(code)) else {
            self.limit = None;
            return;
        };
        let limit = msn.wrapping_add(*messages);
        // An older acknowledgement that comes late takes nothing back.
        if self.limit.is_none_or(|known| distance(limit, known) > 0) {
            self.limit = Some(limit);
        }
    }
}

/// The signed distance of two counts of messages.
const fn distance(to: u32, from: u32) -> i32 {
    (to.wrapping_sub(from) << 8).cast_signed() >> 8
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn messages_stop_at_the_limit_and_go_on_with_news() {
        let mut credits = Credits::default();
        assert!(credits.admits(false), "a peer that says nothing has enough");
        credits.started(3);
        credits.on_acknowledge(1, 3);
        assert!(credits.admits(false), "the fourth has a receive");
        credits.started(1);
        assert!(!credits.admits(false));
        assert!(credits.admits(true), "one may probe");
        credits.on_acknowledge(1, 2);
        assert!(!credits.admits(false), "what is older takes nothing back and gives nothing");
        credits.on_acknowledge(4, 1);
        assert!(credits.admits(false));
        credits.started(1);
        credits.on_acknowledge(4, 31);
        assert!(credits.admits(false), "the peer has stopped counting");
    }

    #[test]
    fn counts_wrap() {
        let mut credits = Credits { started: 0x00ff_ffff, limit: None };
        credits.on_acknowledge(0x00ff_fffe, 2);
        assert!(credits.admits(false));
        credits.started(1);
        assert!(!credits.admits(false));
    }
}
