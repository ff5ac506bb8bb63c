"""What is run between softrnic and the kernel where the connection manager brings them together: a table.

Whoever has sent what is read from the wire, beside what the programs say and end with.
"""

from pairings import both, says

REFUSED_NO_LISTENER = "error 8"  # the REJ's reason: nobody has this service ID


def programs(server, client):
    """Programs that take addresses: `HERE` is that of the own end, `THERE` that of the other one."""
    def start(end, role, other, family):
        places = {"HERE": end.address(family), "THERE": other.address(family)}
        return end.managed([places.get(word, word) for word in (server if role == "server" else client)], {})
    return start


def program(name, server, client):
    return programs([name, *server], [name, *client])


def perftest(name, *options):
    """perftest with queue pairs that the connection manager connects; over IPv4, for it takes no other addresses."""
    def start(end, role, other, family):
        words = ["-R", "-F", "-x", end.gid_index(family), *options]
        if role == "client":
            words.append(other.address(family))
        return end.managed([name, *words], {})
    return start


def example(name, port):
    """An example of softrnic's own: the connection manager of its emulated device here, the kernel's by librdmacm there."""
    def start(end, role, other, family):
        word, place = ("serve", end) if role == "server" else ("ask", other)
        address = place.address(family)
        return end.connecting([name, word, f"[{address}]:{port}" if family == "v6" else f"{address}:{port}"], family)
    return start


def begins(end, *rest):
    """Judges that the end asks first to end the connection, and that these messages pass, too."""
    def judge(messages):
        asking = [who for who, message in messages if message == "DREQ"]
        if asking[:1] != [end]:
            return f"not the {end} is the first to end it: {messages}"
        return passes("REQ", "REP", "RTU", "DREP", *rest)(messages)
    return judge


def passes(*wanted):
    """Judges that these messages pass."""
    def judge(messages):
        missing = [message for message in wanted if message not in [known for _, known in messages]]
        return f"no {missing}: {messages}" if missing else None
    return judge


def refused(message):
    """Judges that the server's end refuses with this message, and that nothing is connected."""
    def judge(messages):
        if ("server", message) not in messages:
            return f"no {message} of the server: {messages}"
        return "there is a REP" if "REP" in [known for _, known in messages] else None
    return judge


def survivor_says(*texts):
    """Judges that who is left says one of these."""
    def judge(client, server):
        return None if any(text in client + server for text in texts) else f"who is left says: {client[-300:]} | {server[-300:]}"
    return judge


def managed_pairings():
    table = []
    ping = program("rping", ["-s", "-a", "HERE", "-C", "20", "-V"], ["-c", "-a", "THERE", "-C", "20", "-V", "-v"])
    table += both("rping", ping, 7174, by_manager=True, quick=[("out", "v4"), ("in", "v6")],
                  judge=says("rdma-ping-19:"), judge_messages=begins("client"))
    large = program("rping", ["-s", "-a", "HERE", "-C", "5", "-V", "-S", "60000", "-q"],
                    ["-c", "-a", "THERE", "-I", "HERE", "-C", "5", "-V", "-S", "60000", "-q"])
    table += both("rping", large, 7174, name="60000 bytes, own transitions", by_manager=True, judge_messages=begins("client"))
    several = program("ucmatose", ["-b", "HERE", "-c", "3", "-C", "10", "-S", "1000"],
                      ["-s", "THERE", "-c", "3", "-C", "10", "-S", "1000"])
    table += both("ucmatose", several, 7471, name="3 connections", by_manager=True, quick=[("in", "v4")],
                  judge=says("return status 0"), judge_messages=begins("server"))
    datagrams = program("udaddy", ["-b", "HERE", "-c", "2", "-C", "10"], ["-s", "THERE", "-c", "2", "-C", "10"])
    table += both("udaddy", datagrams, 7174, by_manager=True, quick=[("out", "v6")],
                  judge=says("return status 0"), judge_messages=passes("SIDR_REQ", "SIDR_REP"))
    # The kernel's side asks only: perftest's server listens anew between its two connections, for which the emulated
    # processor takes so long that a client of the host is refused.
    for name, options in (("ib_write_bw", ("-n", "60", "-s", "65536", "-t", "8")), ("ib_read_bw", ("-n", "60", "-s", "65536", "-t", "8", "-o", "8")),
                          ("ib_send_lat", ("-n", "40", "-s", "64"))):
        table += both(name, perftest(name, *options), 18515, name="-R", by_manager=True, judge_messages=passes("REQ", "REP", "RTU"),
                      directions=("in",), families=("v4",), quick=[("in", "v4")] if name == "ib_write_bw" else [])
    table += both("cm_echo", example("cm_echo", 7471), 7471, by_manager=True, quick=[("in", "v4")],
                  judge=says("4 clients were served; the last one: the program there refused: closing time"),
                  judge_messages=begins("client", "REJ"))
    # Nobody listens to the port, but somebody is there.
    for name, client, texts, message in (
            ("rping", ["-c", "-a", "THERE", "-C", "1"], ("RDMA_CM_EVENT_REJECTED", REFUSED_NO_LISTENER), "REJ"),
            ("udaddy", ["-s", "THERE"], ("RDMA_CM_EVENT_UNREACHABLE",), "SIDR_REP")):
        table += both("no listener", programs(["rping", "-s", "-a", "HERE", "-p", "7999"], [name, *client]), 7999, name=name,
                      by_manager=True, server_stays=True, client_fails=True, quick=[("in", "v4")] if name == "rping" else [],
                      judge=says(*texts), judge_messages=refused(message))
    # One dies; the other one must end and say so. (rping calls it a success when its peer disconnects.)
    endless = program("rping", ["-s", "-a", "HERE", "-V"], ["-c", "-a", "THERE", "-V"])
    for who in ("server", "client"):
        table += both("dead peer", endless, 7174, name=f"rping, the {who}", by_manager=True, kills=who, kill_after=2.0,
                      client_fails=None, server_fails=None, quick=[("out", "v4")] if who == "server" else [],
                      judge=survivor_says("DISCONNECT", "status 12"))
    return table
