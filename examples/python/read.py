"""An RDMA READ and an atomic between two queue pairs of one device, in pyverbs.

    softrnic run -- python3 read.py

(pyverbs comes with rdma-core: on Debian the package is python3-pyverbs.)
"""

from pyverbs.addr import AHAttr, GlobalRoute
from pyverbs.cq import CQ
from pyverbs.device import Context, get_device_list
from pyverbs.enums import (
    IBV_ACCESS_LOCAL_WRITE,
    IBV_ACCESS_REMOTE_ATOMIC,
    IBV_ACCESS_REMOTE_READ,
    IBV_QPT_RC,
    IBV_SEND_SIGNALED,
    IBV_WC_SUCCESS,
    IBV_WR_ATOMIC_FETCH_AND_ADD,
    IBV_WR_RDMA_READ,
)
from pyverbs.mr import MR
from pyverbs.pd import PD
from pyverbs.qp import QP, QPAttr, QPCap, QPInitAttr
from pyverbs.wr import SGE, SendWR

ACCESS = IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_READ | IBV_ACCESS_REMOTE_ATOMIC


def connect(qp, peer_number, gid):
    """Lets `qp` send to the queue pair `peer_number` at `gid`, and receive from it."""
    route = GlobalRoute(dgid=gid, sgid_index=0)
    attr = QPAttr(port_num=1)
    attr.qp_access_flags = ACCESS
    attr.dest_qp_num = peer_number
    attr.path_mtu = 3
    attr.max_rd_atomic = attr.max_dest_rd_atomic = 1
    attr.min_rnr_timer = 12
    attr.timeout, attr.retry_cnt, attr.rnr_retry = 14, 7, 7
    attr.ah_attr = AHAttr(port_num=1, is_global=1, gr=route)
    qp.to_rts(attr)


def wait(cq):
    """The next completion, which must be a good one."""
    while True:
        found, completions = cq.poll(1)
        if found:
            assert completions[0].status == IBV_WC_SUCCESS, completions[0]
            return completions[0]


def main():
    context = Context(name=get_device_list()[0].name.decode())
    gid = context.query_gid(1, 0)
    pd, cq = PD(context), CQ(context, 4)
    cap = QPCap(max_send_wr=2, max_recv_wr=2)
    near, far = (QP(pd, QPInitAttr(qp_type=IBV_QPT_RC, scq=cq, rcq=cq, cap=cap)) for _ in "ab")
    connect(near, far.qp_num, gid)
    connect(far, near.qp_num, gid)

    lent, own = MR(pd, 64, ACCESS), MR(pd, 64, IBV_ACCESS_LOCAL_WRITE)
    lent.write((41).to_bytes(8, "little") + b"hello", 13)

    add = SendWR(num_sge=1, sg=[SGE(own.buf + 32, 8, own.lkey)], opcode=IBV_WR_ATOMIC_FETCH_AND_ADD,
                 send_flags=IBV_SEND_SIGNALED)
    add.set_wr_atomic(lent.rkey, lent.buf, 1, 0)
    near.post_send(add)
    wait(cq)

    read = SendWR(num_sge=1, sg=[SGE(own.buf, 13, own.lkey)], opcode=IBV_WR_RDMA_READ,
                  send_flags=IBV_SEND_SIGNALED)
    read.set_wr_rdma(lent.rkey, lent.buf)
    near.post_send(read)
    wait(cq)

    found = int.from_bytes(own.read(8, 32), "little")
    number, text = int.from_bytes(own.read(8, 0), "little"), own.read(5, 8).decode()
    print(f"{context.name}: found {found}, which is {number} now; and {text!r}")
    assert (found, number, text) == (41, 42, "hello")


main()
