"""Memory windows of type 2 and keys that are invalidated, between any two verbs devices, by pyverbs.

    windows.py requester|responder TCP-PORT DEVICE GID-INDEX ADDRESS

The responder binds a window to a part of its region; the requester reaches through it, invalidates it by a SEND, and
must be refused then. Both meet at the responder's address.
"""

import sys

import pyverbs.enums as e
from pyverbs.mr import MW, MWBindInfo
from pyverbs.wr import SGE, RecvWR

from side import REMOTE_ACCESS, SUCCESS, Side, must


def respond(side):
    for flags, what in ((e.IBV_ACCESS_REMOTE_WRITE | e.IBV_ACCESS_REMOTE_READ, "invalidated by the peer"),
                        (e.IBV_ACCESS_REMOTE_WRITE, "invalidated here")):
        window = MW(side.pd, e.IBV_MW_TYPE_2)
        rkey = (window.rkey & ~0xff) | ((window.rkey + 1) & 0xff)
        part = MWBindInfo(side.buffer, side.buffer.buf + 1024, 1024, flags)
        must("bind", SUCCESS, side.post("wr_bind_mw", window, rkey, part, local=False))
        side.qp.post_recv(RecvWR(wr_id=9, num_sge=1, sg=[SGE(side.buffer.buf, 256, side.buffer.lkey)]))
        side.exchange({"rkey": rkey})
        if what == "invalidated by the peer":
            received = side.completion()
            must("the receive", SUCCESS, received.status)
            must("its flags", side.invalidated, received.wc_flags & ~e.IBV_WC_GRH)
            must("its key", rkey, received.imm_data)
        else:
            side.exchange("used")
            must("local invalidate", SUCCESS, side.post("wr_local_inv", rkey, local=False))
        side.exchange(what)
        side.exchange("refused")
        # What was posted is flushed with the queue pair.
        side.qp.close()
        while side.cq.poll(1)[0]:
            pass
        window.close()
        side.connect()


def request(side):
    for what in ("invalidated by the peer", "invalidated here"):
        rkey = side.exchange()["rkey"]
        must("WRITE into the window", SUCCESS, side.post("wr_rdma_write", rkey, side.remote(1024)))
        must("WRITE to its end", SUCCESS, side.post("wr_rdma_write", rkey, side.remote(1984)))
        if what == "invalidated by the peer":
            must("READ", SUCCESS, side.post("wr_rdma_read", rkey, side.remote(1024)))
            must("SEND with invalidate", SUCCESS, side.post("wr_send_inv", rkey))
        else:
            side.exchange()
        must("the peer", what, side.exchange())
        must("WRITE after that", REMOTE_ACCESS, side.post("wr_rdma_write", rkey, side.remote(1024)))
        side.exchange()
        side.qp.close()
        while side.cq.poll(1)[0]:
            pass
        side.connect()


def main():
    role, port, device, gid_index, address = sys.argv[1:]
    side = Side(role, int(port), device, int(gid_index), address)
    {"responder": respond, "requester": request}[role](side)
    print("all as it must be")


main()
