"""What is under way when the other end dies, between any two verbs devices, by pyverbs.

    survivor.py requester|responder TCP-PORT DEVICE GID-INDEX ADDRESS

Both ends ask the other one without end, until one of them is killed. Of the one that is left the oldest request must end
with "retries exceeded", what stands behind it and its receive flushed, and its queue pair in error.
"""

import sys

import pyverbs.enums as e
from pyverbs.wr import SGE, RecvWR

from side import FLUSHED, RETRY_EXCEEDED, SUCCESS, Side, must

UNDER_WAY = 4
RECEIVE = 9
# Fewer than 7: soft-RoCE takes that for "without end".
RETRIES = 3


def main():
    role, port, device, gid_index, address = sys.argv[1:]
    side = Side(role, int(port), device, int(gid_index), address, RETRIES)
    side.qp.post_recv(RecvWR(wr_id=RECEIVE, num_sge=1, sg=[SGE(side.buffer.buf, 256, side.buffer.lkey)]))
    rkey = side.exchange(side.buffer.rkey)
    operations = ("wr_rdma_write", "wr_rdma_read")
    for number in range(UNDER_WAY):
        side.begin(operations[number % 2], rkey, side.remote(1024))
    done = 0
    while (first := side.completion().status) == SUCCESS:
        side.begin(operations[done % 2], rkey, side.remote(1024))
        done += 1
    must("the oldest request", RETRY_EXCEEDED, first)
    left = sorted((completion.wr_id, completion.status) for completion in (side.completion() for _ in range(UNDER_WAY)))
    must("what stands behind it and the receive", [(1, FLUSHED)] * (UNDER_WAY - 1) + [(RECEIVE, FLUSHED)], left)
    must("the queue pair's state", e.IBV_QPS_ERR, side.qp.query(e.IBV_QP_STATE)[0].qp_state)
    print(f"the other end is dead, after {done} requests")


main()
