"""Ports for servers that start later, and addresses that refuse connections."""

import atexit
import contextlib
import pathlib
import random
import socket

REFUSING = contextlib.ExitStack()  # sockets that stay open until the process ends
atexit.register(REFUSING.close)


def unassigned_ports():
    """Ports that the kernel gives to no connection and no listener on port 0, if enough are left."""
    setting = pathlib.Path("/proc/sys/net/ipv4/ip_local_port_range").read_text(encoding="ascii")
    lowest, highest = map(int, setting.split())
    ports = max(range(10_000, min(lowest, 32_768)), range(highest + 1, 65_536), key=len)
    return ports if len(ports) >= 1000 else range(10_000, 65_536)


def free_ports(count, hosts=("127.0.0.1",)):
    """Ports that are free on all of these hosts, and that nothing is likely to take before their servers start."""
    found = []
    for port in random.sample(unassigned_ports(), 1000):
        with contextlib.ExitStack() as kept, contextlib.suppress(OSError):
            for host in hosts:
                kept.enter_context(socket.socket()).bind((host, port))
            found.append(port)
        if len(found) == count:
            return found
    raise AssertionError("no free ports")


def free_port(hosts=("127.0.0.1",)):
    return free_ports(1, hosts)[0]


def refusing_address():
    """An address that refuses connections as long as this process lives: its port is bound, so that no server gets
    it, but nothing listens there."""
    sock = REFUSING.enter_context(socket.socket())
    sock.bind(("127.0.0.1", 0))
    return "127.0.0.1:%d" % sock.getsockname()[1]
