"""What passed on the wire, as QEMU has recorded it: ICRCs, and what a dissector says."""

import dataclasses
import ipaddress
import pathlib
import shutil
import struct
import subprocess
import zlib

ROCE_PORT = 4791
ETHERNET, VLAN_IPV4, IPV6 = 14, 0x0800, 0x86DD
UDP = 17
UD_SEND_ONLY = 100
# Messages of connection managers by the attribute of their datagram.
MESSAGES = {0x10: "REQ", 0x11: "MRA", 0x12: "REJ", 0x13: "REP", 0x14: "RTU", 0x15: "DREQ", 0x16: "DREP", 0x17: "SIDR_REQ",
            0x18: "SIDR_REP", 0x19: "LAP", 0x1a: "APR"}


def masked(frame):
    """The bytes of a RoCEv2 frame that its ICRC covers, and the ICRC; None for other frames."""
    kind = struct.unpack_from("!H", frame, 12)[0]
    packet = bytearray(frame[ETHERNET:])
    if kind == VLAN_IPV4 and len(packet) >= 28 and packet[9] == UDP:
        header, total = (packet[0] & 15) * 4, struct.unpack_from("!H", packet, 2)[0]
        for at in (1, 8, 10, 11):  # type of service, time to live, checksum
            packet[at] = 0xFF
    elif kind == IPV6 and len(packet) >= 48 and packet[6] == UDP:
        header, total = 40, 40 + struct.unpack_from("!H", packet, 4)[0]
        packet[0] |= 0x0F
        for at in (1, 2, 3, 7):  # traffic class, flow label, hop limit
            packet[at] = 0xFF
    else:
        return None
    if struct.unpack_from("!H", packet, header + 2)[0] != ROCE_PORT or total > len(packet) or total < header + 24:
        return None
    packet = packet[:total]
    packet[header + 6:header + 8] = b"\xff\xff"  # checksum of UDP
    packet[header + 12] = 0xFF  # FECN, BECN and reserved bits of the BTH
    return bytes(8 * [0xFF]) + bytes(packet[:-4]), bytes(packet[-4:])


def message_of_manager(frame):
    """Who sent a message of a connection manager, and which; None for other frames."""
    version = frame[ETHERNET] >> 4
    header = (frame[ETHERNET] & 15) * 4 if version == 4 else 40
    at = ETHERNET + header + 8  # the BTH
    if len(frame) < at + 12 + 8 + 24 or frame[at] != UD_SEND_ONLY or frame[at + 5:at + 8] != b"\0\0\1":
        return None
    who = frame[ETHERNET + 12:ETHERNET + 16] if version == 4 else frame[ETHERNET + 8:ETHERNET + 24]
    attribute = struct.unpack_from("!H", frame, at + 12 + 8 + 16)[0]
    return str(ipaddress.ip_address(who)), MESSAGES.get(attribute, hex(attribute))


@dataclasses.dataclass
class Passed:
    """What passed between two looks at the wire."""
    # How many frames of RoCE.
    frames: int = 0
    # Those of them whose ICRC is wrong, by number.
    wrong: list = dataclasses.field(default_factory=list)
    # Messages of connection managers: who sent which.
    messages: list = dataclasses.field(default_factory=list)


class Wire:
    """A file of `filter-dump`, read as it grows."""

    HEADER = 24  # of the file

    def __init__(self, path):
        self.path, self.offset = pathlib.Path(path), self.HEADER

    def grown(self):
        """How many bytes have come since the last look."""
        return self.path.stat().st_size - self.offset

    def news(self, copy):
        """What has come since the last look; `copy` becomes a capture of it."""
        passed, number = Passed(), 0
        with open(self.path, "rb") as file, open(copy, "wb") as part:
            part.write(file.read(self.HEADER))
            file.seek(self.offset)
            while len(head := file.read(16)) == 16:
                kept, length = struct.unpack("<IIII", head)[2:]
                frame = file.read(kept)
                if len(frame) < kept:
                    break
                part.write(head + frame)
                self.offset += 16 + kept
                number += 1
                covered = masked(frame) if kept == length else None
                if covered:
                    passed.frames += 1
                    passed.messages += filter(None, [message_of_manager(frame)])
                    if zlib.crc32(covered[0]) != struct.unpack("<I", covered[1])[0]:
                        passed.wrong.append(number)
        return passed


def dissector():
    """Whether there is one."""
    return shutil.which("tshark") is not None


def complaint(capture):
    """The first thing that the dissector finds wrong with a frame of RoCE, or None."""
    # A UDP checksum of 0 is what RoCEv2 has over IPv6, too; short SENDs are no RPC.
    told = subprocess.run(
        ["tshark", "-n", "-r", capture, "--disable-protocol", "rpcordma", "-o", "udp.ignore_ipv6_zero_checksum:TRUE",
         "-Y", "udp.dstport == 4791 && (_ws.malformed || _ws.expert.severity >= 0x600000)",
         "-T", "fields", "-e", "frame.number", "-e", "_ws.expert.message", "-e", "_ws.col.Info"],
        stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
    if told.returncode != 0:
        return f"tshark ended with {told.returncode}: {told.stderr[-300:]}"
    first = told.stdout.splitlines()[:1]
    return f"the dissector, frame {first[0]}" if first else None
