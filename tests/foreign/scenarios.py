"""The recorded scenarios on any verbs device, by pyverbs: one process asks, another answers.

    scenarios.py requester|responder TCP-PORT DEVICE GID-INDEX [ADDRESS]

Both meet at the address of the responder, the loopback address unless told otherwise, and go through all scenarios in step. Each prints one JSON object: by name of the
scenario, its completions, or the text of the error with which a work request was refused.
"""

import json
import socket
import sys
import time

import pyverbs.enums as e
from pyverbs.addr import AH, GID, AHAttr, GlobalRoute
from pyverbs.cq import CQ
from pyverbs.device import Context
from pyverbs.mr import MR
from pyverbs.pd import PD
from pyverbs.pyverbs_error import PyverbsError
from pyverbs.qp import QP, QPAttr, QPCap, QPInitAttr
from pyverbs.wr import SGE, RecvWR, SendWR

ACCESS = (e.IBV_ACCESS_LOCAL_WRITE | e.IBV_ACCESS_REMOTE_WRITE | e.IBV_ACCESS_REMOTE_READ
          | e.IBV_ACCESS_REMOTE_ATOMIC)
SIZE = 65536
QKEY = 0x11111111
ONE_SIDED = (e.IBV_WR_RDMA_WRITE, e.IBV_WR_RDMA_WRITE_WITH_IMM, e.IBV_WR_RDMA_READ)
ATOMIC = (e.IBV_WR_ATOMIC_CMP_AND_SWP, e.IBV_WR_ATOMIC_FETCH_AND_ADD)
# How long a completion may take, and how long one that must not come is waited for.
PATIENCE, SILENCE = 20, 0.5


class Peer:
    """A line in each direction; both sides say the same number of things."""

    def __init__(self, role, port, address):
        if role == "responder":
            with socket.create_server((address, port)) as listener:
                connection, _ = listener.accept()
        else:
            connection = socket.create_connection((address, port), timeout=60)
        connection.settimeout(60)
        self.to, self.of = connection.makefile("w"), connection.makefile("r")

    def exchange(self, mine=None):
        self.to.write(json.dumps(mine) + "\n")
        self.to.flush()
        return json.loads(self.of.readline())


class Connection:
    """A queue pair that is connected to that of the peer, and a buffer."""

    starts = iter(range(0x2000, 0x1000000, 0x1000))

    def __init__(self, side, kind=e.IBV_QPT_RC, access=ACCESS, rnr_retry=7, depth=16, psn=None):
        self.side, self.kind = side, kind
        self.cq = CQ(side.context, 256)
        self.buffer = MR(side.pd, SIZE, ACCESS)
        first = 3 if side.role == "requester" else 1
        self.buffer.write(bytes((7 * i + first) & 255 for i in range(SIZE)), SIZE)
        capacity = QPCap(64, 64, 4, 4, 64)
        self.qp = QP(side.pd, QPInitAttr(qp_type=kind, scq=self.cq, rcq=self.cq, cap=capacity, sq_sig_all=1))
        start = next(self.starts)
        if psn is None:
            psn = start + (0x500000 if side.role == "responder" else 0)
        self.peer = side.peer.exchange({
            "qpn": self.qp.qp_num, "psn": psn, "gid": side.gid, "rkey": self.buffer.rkey, "address": self.buffer.buf})
        route = GlobalRoute(dgid=GID(self.peer["gid"]), sgid_index=side.gid_index)
        self.path = AHAttr(gr=route, is_global=1, port_num=1)
        self.modify(e.IBV_QPS_INIT, e.IBV_QP_PKEY_INDEX | e.IBV_QP_PORT, pkey_index=0,
                    **({"qkey": QKEY} if self.is_ud() else {"qp_access_flags": access}))
        connected = {} if self.is_ud() else {
            "path_mtu": e.IBV_MTU_1024, "dest_qp_num": self.peer["qpn"], "rq_psn": self.peer["psn"],
            "ah_attr": self.path}
        responder = {"max_dest_rd_atomic": depth, "min_rnr_timer": 12} if self.is_rc() else {}
        self.modify(e.IBV_QPS_RTR, 0, **connected, **responder)
        requester = {"timeout": 16, "retry_cnt": 7, "rnr_retry": rnr_retry, "max_rd_atomic": depth}
        self.modify(e.IBV_QPS_RTS, 0, sq_psn=psn, **(requester if self.is_rc() else {}))
        side.peer.exchange()

    MASKS = {
        "pkey_index": 0, "qkey": e.IBV_QP_QKEY, "qp_access_flags": e.IBV_QP_ACCESS_FLAGS,
        "path_mtu": e.IBV_QP_PATH_MTU, "dest_qp_num": e.IBV_QP_DEST_QPN, "rq_psn": e.IBV_QP_RQ_PSN,
        "ah_attr": e.IBV_QP_AV, "max_dest_rd_atomic": e.IBV_QP_MAX_DEST_RD_ATOMIC,
        "min_rnr_timer": e.IBV_QP_MIN_RNR_TIMER, "sq_psn": e.IBV_QP_SQ_PSN, "timeout": e.IBV_QP_TIMEOUT,
        "retry_cnt": e.IBV_QP_RETRY_CNT, "rnr_retry": e.IBV_QP_RNR_RETRY,
        "max_rd_atomic": e.IBV_QP_MAX_QP_RD_ATOMIC,
    }

    def is_ud(self):
        return self.kind == e.IBV_QPT_UD

    def is_rc(self):
        return self.kind == e.IBV_QPT_RC

    def modify(self, state, mask, **attributes):
        attr = QPAttr(port_num=1)
        attr.qp_state = state
        for name, value in attributes.items():
            setattr(attr, name, value)
            mask |= self.MASKS[name]
        self.qp.modify(attr, mask | e.IBV_QP_STATE)

    def post_receive(self, length):
        sge = SGE(self.buffer.buf, length, self.buffer.lkey)
        self.qp.post_recv(RecvWR(wr_id=100, num_sge=1, sg=[sge]))

    def post(self, opcode, length, local=0, remote=0, rkey=None, lkey=None, imm=0, operands=(0, 0), solicited=False):
        sge = SGE(self.buffer.buf + local, length, self.buffer.lkey if lkey is None else lkey)
        flags = e.IBV_SEND_SIGNALED | (e.IBV_SEND_SOLICITED if solicited else 0)
        work = SendWR(wr_id=1, opcode=opcode, num_sge=1, sg=[sge], send_flags=flags, imm_data=imm)
        rkey, address = self.peer["rkey"] if rkey is None else rkey, self.peer["address"] + remote
        if opcode in ONE_SIDED:
            work.set_wr_rdma(rkey, address)
        if opcode in ATOMIC:
            work.set_wr_atomic(rkey, address, *operands)
        if self.is_ud():
            work.set_wr_ud(AH(self.side.pd, attr=self.path), self.peer["qpn"], QKEY)
        self.qp.post_send(work)

    def completion(self, seconds):
        """The completion that comes within that time, if one does."""
        deadline = time.monotonic() + seconds
        while time.monotonic() < deadline:
            count, found = self.cq.poll(1)
            if count:
                return [{"status": wc.status, "opcode": wc.opcode, "byte_len": wc.byte_len, "imm_data": wc.imm_data,
                         "wc_flags": wc.wc_flags, "wr_id": wc.wr_id} for wc in found]
            time.sleep(0.0005)
        return []


class Side:
    """One of the two processes."""

    def __init__(self, role, port, device, gid_index, address="127.0.0.1"):
        self.role, self.gid_index = role, gid_index
        self.peer = Peer(role, port, address)
        self.context = Context(name=device)
        self.pd = PD(self.context)
        self.gid = self.context.query_gid(1, gid_index).gid
        self.answers = {}

    def connect(self, **attributes):
        self.connection = Connection(self, **attributes)

    def run(self, name, opcode, length, receive=None, late=0.0, answer=True, **how):
        """One work request. The responder has a receive of `receive` bytes for it, posted `late` seconds after it.
        Unless `answer`, some device or other does not complete one of the two."""
        patience = PATIENCE if answer else SILENCE
        if self.role == "requester":
            self.answers[name] = self.ask(patience, opcode, length, how)
        else:
            self.answers[name] = self.receive(patience, receive, late)
        if self.peer.exchange(name) != name:
            raise RuntimeError(f"the peer is not at {name}")

    def ask(self, patience, opcode, length, how):
        self.peer.exchange()
        try:
            self.connection.post(opcode, length, **how)
            return self.connection.completion(patience)
        except PyverbsError as refused:
            return str(refused)
        finally:
            self.peer.exchange()

    def receive(self, patience, length, late):
        if length is not None and not late:
            self.connection.post_receive(length)
        self.peer.exchange()
        if late:
            time.sleep(late)
            self.connection.post_receive(length)
        self.peer.exchange()
        # The work request has ended. Where there was no receive, nothing is on its way here.
        return self.connection.completion(0.05 if length is None else patience)


def scenarios(side):
    send, send_imm = e.IBV_WR_SEND, e.IBV_WR_SEND_WITH_IMM
    write, write_imm = e.IBV_WR_RDMA_WRITE, e.IBV_WR_RDMA_WRITE_WITH_IMM
    read, (swap, add) = e.IBV_WR_RDMA_READ, ATOMIC
    run, roomy = side.run, 4096

    side.connect()
    for length in (0, 1, 2, 3, 4, 1023, 1024, 1025, 2048, 3000):
        run(f"send{length}", send, length, receive=roomy)
    run("send_imm", send_imm, 100, receive=roomy, imm=0x11223344)
    run("send_imm_multi", send_imm, 2500, receive=roomy, imm=0x55667788)
    run("send_solicited", send, 16, receive=roomy, solicited=True)
    for length in (0, 1, 64, 1024, 1027, 4096, 10000):
        run(f"write{length}", write, length, remote=8192)
    run("write_imm", write_imm, 48, receive=roomy, remote=8192, imm=0x0a0b0c0d)
    run("write_imm0", write_imm, 0, receive=roomy, imm=0x0a0b0c0e)
    run("write_imm_multi", write_imm, 3333, receive=roomy, remote=8192, imm=0x0a0b0c0f)
    for length in (0, 1, 5, 1024, 1025, 5000):
        run(f"read{length}", read, length, local=16384, remote=8192)
    run("cas_hit", swap, 8, local=32768, remote=32768, operands=(0x0102030405060708, 0xcafebabedeadbeef))
    run("faa", add, 8, local=32768, remote=32768, operands=(0x1111, 0))
    run("rnr_then_ok", send, 32, receive=roomy, late=0.4)

    side.connect(psn=0xfffffe)
    run("wrap_write", write, 6000, remote=8192)
    run("wrap_send", send, 3000, receive=roomy)

    closed = {"access": e.IBV_ACCESS_LOCAL_WRITE}
    errors = (
        ("bad_rkey_write", write, 64, {"rkey": 0xdead00}, {}),
        ("bad_rkey_read", read, 64, {"rkey": 0xdead00}, {}),
        ("oob_write", write, 64, {"remote": SIZE - 32}, {}),
        ("oob_read", read, 64, {"remote": SIZE - 32}, {}),
        ("oob_write_multi", write, 4096, {"remote": SIZE - 2048}, {}),
        ("unaligned_atomic", add, 8, {"remote": 4, "operands": (1, 0)}, {}),
        ("atomic_bad_rkey", add, 8, {"rkey": 0xbad00, "operands": (1, 0)}, {}),
        ("write_zero_bad_rkey", write, 0, {"rkey": 0xdead00}, {}),
        ("write_no_qp_perm", write, 64, {}, closed),
        ("read_no_qp_perm", read, 64, {}, closed),
        ("atomic_no_qp_perm", add, 8, {"operands": (1, 0)}, closed),
        ("recv_too_small", send, 256, {"receive": 100}, {}),
        ("recv_too_small_multi", send, 4000, {"receive": 1500}, {}),
        ("local_bad_lkey", send, 64, {"lkey": 0xbeef00, "receive": roomy, "answer": False}, {}),
        ("rnr_exceeded", send, 64, {}, {"rnr_retry": 1}),
        ("read_rd_zero", read, 64, {"answer": False}, {"depth": 0}),
    )
    for name, opcode, length, how, attributes in errors:
        side.connect(**attributes)
        run(f"E_{name}", opcode, length, **how)

    side.connect(kind=e.IBV_QPT_UD)
    run("ud_send", send, 200, receive=roomy)
    run("ud_send_imm", send_imm, 13, receive=roomy, imm=0x77)
    run("ud_small_recv", send, 200, receive=100, answer=False)
    side.connect(kind=e.IBV_QPT_UC)
    run("uc_send", send, 2100, receive=roomy)
    run("uc_write", write, 2100, remote=4096)
    run("uc_write_imm", write_imm, 2100, receive=roomy, remote=4096, imm=9)
    run("uc_bad_rkey", write, 64, rkey=0xdead00)


def main():
    role, port, device, gid_index, *address = sys.argv[1:]
    side = Side(role, int(port), device, int(gid_index), *address)
    scenarios(side)
    print(json.dumps(side.answers))


main()
