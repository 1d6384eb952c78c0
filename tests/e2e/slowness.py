"""How slow this machine is at the moment, for limits of time in tests."""

import os
import time

IDLE_SECONDS = 0.08  # that the sum below takes on a fast core


def slowness():
    """How many times longer than on an idle machine with fast cores work takes here, at least 1: other processes count, now
    and on average over the last minute."""
    began = time.monotonic()
    sum(number * number for number in range(1_000_000))
    now = (time.monotonic() - began) / IDLE_SECONDS
    return max(1.0, now, os.getloadavg()[0] / os.cpu_count())
