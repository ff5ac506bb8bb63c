//! What passes between devices, told by the first bytes of each packet.

/// Packets of each kind that a device has sent, or that have come to it whole.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Frames {
    /// All of them.
    pub all: u64,
    /// Requests of connected services.
    pub requests: u64,
    /// Those of them whose service is unreliable.
    pub unreliable: u64,
    /// Datagrams.
    pub datagrams: u64,
    /// Answers: acknowledgements of all kinds, and what READs and atomics brought.
    pub answers: u64,
    /// Answers that there is no receive.
    pub rnr_naks: u64,
    /// Answers that a packet is missing; refusals as invalid, of access, and for a failure of the
    /// responder: by the code of the syndrome.
    pub naks: [u64; 4],
    /// Congestion notifications.
    pub notifications: u64,
    /// Those with the mark of congestion in their IP header.
    pub marked: u64,
}

/// `Nak` codes, as places in [`Frames::naks`].
pub(crate) const SEQUENCE: usize = 0;
/// Refused as invalid.
pub(crate) const INVALID: usize = 1;
/// Refused access.
pub(crate) const ACCESS: usize = 2;
/// The responder could not.
pub(crate) const OPERATION: usize = 3;

/// Where an acknowledgement has its syndrome: behind the base transport header.
const SYNDROME: usize = 12;

impl Frames {
    /// A packet has passed: its bytes from the base transport header on.
    pub fn saw(&mut self, packet: &[u8], marked: bool) {
        let Some(opcode) = packet.first() else { return };
        self.all += 1;
        self.marked += u64::from(marked);
        // The high three bits are the service, the others the operation.
        match (opcode >> 5, opcode & 0x1f) {
            (4, _) => self.notifications += 1,
            (3, _) => self.datagrams += 1,
            // READ responses, acknowledgements, atomic acknowledgements.
            (_, operation @ 0x0d..=0x12) => {
                self.answers += 1;
                let syndrome = packet.get(SYNDROME).copied().unwrap_or(0);
                if operation == 0x11 {
                    self.answered(syndrome);
                }
            }
            (service, _) => {
                self.requests += 1;
                self.unreliable += u64::from(service == 1);
            }
        }
    }

    fn answered(&mut self, syndrome: u8) {
        match syndrome >> 5 {
            1 => self.rnr_naks += 1,
            3 => {
                if let Some(count) = self.naks.get_mut(usize::from(syndrome & 0x1f)) {
                    *count += 1;
                }
            }
            _ => {}
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn packet(opcode: u8, syndrome: u8) -> [u8; 16] {
        let mut packet = [0; 16];
        packet[0] = opcode;
        packet[SYNDROME] = syndrome;
        packet
    }

    #[test]
    fn packets_are_told_apart() {
        let mut frames = Frames::default();
        for (opcode, syndrome, marked) in [
            (0x04, 0x20, false), // RC SEND Only: what stands there is no syndrome.
            (0x26, 0, true),     // UC WRITE First
            (0x64, 0, false),    // UD SEND Only
            (0x0d, 0x20, false), // RC READ Response First: likewise
            (0x11, 0x1f, false), // ACK
            (0x11, 0x21, false), // RNR NAK
            (0xb1, 0x60, false), // XRC NAK, sequence
            (0x11, 0x62, false), // NAK, access
            (0x11, 0x6f, false), // NAK of a code that there is not
            (0x81, 0, false),    // CNP
        ] {
            frames.saw(&packet(opcode, syndrome), marked);
        }
        frames.saw(&[], false);
        let expected = Frames {
            all: 10,
            requests: 2,
            unreliable: 1,
            datagrams: 1,
            answers: 6,
            rnr_naks: 1,
            naks: [1, 0, 1, 0],
            notifications: 1,
            marked: 1,
        };
        assert_eq!(frames, expected);
    }
}
