"""A network namespace of its own with a tap, on which the host's side and the machine meet."""

import os
import shutil
import subprocess
import sys

from machine import Unavailable

INSIDE = "KERNEL_PEER_INSIDE"
TAP = "tap0"
MTU = 4200  # carries a path MTU of 4096
# By family: the host's side, the machine.
ADDRESSES = {"v4": ("10.77.0.1", "10.77.0.2"), "v6": ("fd77::1", "fd77::2")}
PREFIX = {"v4": 24, "v6": 64}
SETUP = f"""
ip link set lo up
ip tuntap add {TAP} mode tap
ip link set {TAP} mtu {MTU} up
""" + "".join(
    f"ip addr add {host}/{PREFIX[family]} dev {TAP}{' nodad' if family == 'v6' else ''}\n"
    for family, (host, _) in ADDRESSES.items())


def machine_addresses():
    return [f"{machine}/{PREFIX[family]}" for family, (_, machine) in ADDRESSES.items()]


def enter():
    """Runs this program again in a namespace; returns in there."""
    if os.environ.get(INSIDE):
        done = subprocess.run(["sh", "-e", "-c", SETUP], stderr=subprocess.PIPE, text=True)
        if done.returncode != 0:
            raise Unavailable(f"no tap in a network namespace: {done.stderr.strip()}")
        return
    if not os.path.exists("/dev/net/tun"):
        raise Unavailable("there is no /dev/net/tun: a container must be given it (docker run --device=/dev/net/tun)")
    if not shutil.which("unshare"):
        raise Unavailable("unshare is not installed (util-linux)")
    options = "-n" if os.geteuid() == 0 else "-rn"
    tried = subprocess.run(["unshare", options, "true"], stderr=subprocess.PIPE, text=True)
    if tried.returncode != 0:
        raise Unavailable(f"no network namespace may be made here: {tried.stderr.strip()}")
    os.environ[INSIDE] = "1"
    os.execvp("unshare", ["unshare", options, sys.executable, *sys.argv])
