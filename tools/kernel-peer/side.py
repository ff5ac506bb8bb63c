"""One end of an exchange between two verbs devices, by pyverbs."""

import json
import socket
import sys
import time

import pyverbs.enums as e
from pyverbs.addr import GID, AHAttr, GlobalRoute
from pyverbs.cq import CQ
from pyverbs.device import Context
from pyverbs.mr import MR
from pyverbs.pd import PD
from pyverbs.qp import QPAttr, QPCap, QPEx, QPInitAttrEx
from pyverbs.wr import SGE

SIZE = 8192
PATIENCE = 60
OPERATIONS = (e.IBV_QP_EX_WITH_RDMA_WRITE | e.IBV_QP_EX_WITH_RDMA_READ | e.IBV_QP_EX_WITH_SEND_WITH_INV
              | e.IBV_QP_EX_WITH_LOCAL_INV | e.IBV_QP_EX_WITH_BIND_MW)
REGION = e.IBV_ACCESS_LOCAL_WRITE | e.IBV_ACCESS_REMOTE_WRITE | e.IBV_ACCESS_REMOTE_READ | e.IBV_ACCESS_MW_BIND
SUCCESS, REMOTE_ACCESS = e.IBV_WC_SUCCESS, e.IBV_WC_REM_ACCESS_ERR
RETRY_EXCEEDED, FLUSHED = e.IBV_WC_RETRY_EXC_ERR, e.IBV_WC_WR_FLUSH_ERR


class Side:
    """A device, a queue pair to that of the other side, and a stream by which both agree.

    They meet at the responder's address. `retries`: how often a request is repeated; 7 is for ever at soft-RoCE.
    """

    def __init__(self, role, port, device, gid_index, address, retries=7):
        self.retries = retries
        if role == "responder":
            with socket.create_server((address, port)) as listener:
                connection, _ = listener.accept()
        else:
            connection = socket.create_connection((address, port), timeout=60)
        connection.settimeout(60)
        self.to, self.of = connection.makefile("w"), connection.makefile("r")
        self.context = Context(name=device)
        self.pd, self.gid_index = PD(self.context), gid_index
        # soft-RoCE of Linux 6.1 hands out the kernel's number of the flag, which programs know as that of a checksum.
        self.invalidated = e.IBV_WC_IP_CSUM_OK if device.startswith("rxe") else e.IBV_WC_WITH_INV
        self.gid = self.context.query_gid(1, gid_index).gid
        self.cq = CQ(self.context, 64)
        self.buffer = MR(self.pd, SIZE, REGION)
        self.connect()

    def exchange(self, mine=None):
        self.to.write(json.dumps(mine) + "\n")
        self.to.flush()
        return json.loads(self.of.readline())

    def connect(self):
        """A new queue pair: the one before may be in error."""
        init = QPInitAttrEx(
            qp_type=e.IBV_QPT_RC, scq=self.cq, rcq=self.cq, cap=QPCap(16, 16, 1, 1, 0), sq_sig_all=1, pd=self.pd,
            comp_mask=e.IBV_QP_INIT_ATTR_PD | e.IBV_QP_INIT_ATTR_SEND_OPS_FLAGS, send_ops_flags=OPERATIONS)
        self.qp = QPEx(self.context, init)
        self.peer = self.exchange({"qpn": self.qp.qp_num, "gid": self.gid, "address": self.buffer.buf})
        path = AHAttr(gr=GlobalRoute(dgid=GID(self.peer["gid"]), sgid_index=self.gid_index), is_global=1, port_num=1)
        access = e.IBV_ACCESS_LOCAL_WRITE | e.IBV_ACCESS_REMOTE_WRITE | e.IBV_ACCESS_REMOTE_READ
        self.modify(e.IBV_QPS_INIT, e.IBV_QP_PKEY_INDEX | e.IBV_QP_PORT | e.IBV_QP_ACCESS_FLAGS, qp_access_flags=access)
        self.modify(e.IBV_QPS_RTR, e.IBV_QP_AV | e.IBV_QP_PATH_MTU | e.IBV_QP_DEST_QPN | e.IBV_QP_RQ_PSN
                    | e.IBV_QP_MAX_DEST_RD_ATOMIC | e.IBV_QP_MIN_RNR_TIMER, path_mtu=e.IBV_MTU_1024,
                    dest_qp_num=self.peer["qpn"], rq_psn=5, ah_attr=path, max_dest_rd_atomic=4, min_rnr_timer=12)
        self.modify(e.IBV_QPS_RTS, e.IBV_QP_SQ_PSN | e.IBV_QP_TIMEOUT | e.IBV_QP_RETRY_CNT | e.IBV_QP_RNR_RETRY
                    | e.IBV_QP_MAX_QP_RD_ATOMIC, sq_psn=5, timeout=17, retry_cnt=self.retries, rnr_retry=7, max_rd_atomic=4)
        self.exchange("ready")

    def modify(self, state, mask, **attributes):
        attr = QPAttr(port_num=1)
        attr.qp_state = state
        for name, value in attributes.items():
            setattr(attr, name, value)
        self.qp.modify(attr, mask | e.IBV_QP_STATE)

    def post(self, name, *operands, local=True):
        """By the extended interface; returns the status."""
        self.begin(name, *operands, local=local)
        return self.completion().status

    def begin(self, name, *operands, local=True):
        self.qp.wr_start()
        self.qp.wr_id, self.qp.wr_flags = 1, e.IBV_SEND_SIGNALED
        getattr(self.qp, name)(*operands)
        if local:
            self.qp.wr_set_sge(SGE(self.buffer.buf, 64, self.buffer.lkey))
        self.qp.wr_complete()

    def remote(self, offset):
        return self.peer["address"] + offset

    def completion(self):
        deadline = time.monotonic() + PATIENCE
        while time.monotonic() < deadline:
            count, completions = self.cq.poll(1)
            if count:
                return completions[0]
            time.sleep(0.001)
        raise TimeoutError("no completion")


def must(what, right, found):
    if right != found:
        sys.exit(f"{what}: {found}, not {right}")
