"""Further observations: requests that are at fault, connections that servers close, clients that leave, an engine that breaks in
the middle of its work. Each is a function of the trial and the sighting it adds to."""

import contextlib
import http.client
import os
import signal
import time

import servers
from clients import GONE, Clients, Watch, ask, tally
from process import wait_until

MALFORMED = b'{"model": "random", "messages": [{"role": '
LARGE = (9_000, 30_000, 70_000)  # bytes of one header line: Triton and llama.cpp take 8 KiB
IN_A_ROW = 250  # requests on one connection: llama.cpp closes its own after 100
PAUSE = 6  # seconds; llama.cpp and MLServer close idle connections after 5


def odd(trial, sighting):
    """Requests that are at fault themselves."""
    before = errors_of(trial)
    if trial.kind.quick.body is not None:
        answers = [raw(trial, trial.kind.quick.target, MALFORMED) for _ in range(20)]
        sighting.fact(f"malformed JSON: {tally(answers)}")
        sighting.fact(f"{errors_of(trial) - before} counted against the servers")
    for size in LARGE:
        answers = [raw(trial, trial.kind.quick.target, trial.kind.quick.payload(), {"x-large": "x" * size}) for _ in range(4)]
        sighting.fact(f"a header line of {size // 1000} KB: {tally(answers)}")
    unharmed(trial, sighting)


def raw(trial, target, body, fields=None):
    """The status and reason of one request on its own connection."""
    connection = http.client.HTTPConnection(trial.daemon.address, timeout=30)
    try:
        connection.request(trial.kind.quick.method, target, body, {**servers.JSON, **(fields or {})})
        answer = connection.getresponse()
        answer.read()
        return " ".join(filter(None, [str(answer.status), answer.headers.get("x-evenkeel-reason")]))
    except GONE as failure:
        return type(failure).__name__
    finally:
        connection.close()


def errors_of(trial):
    return sum(each["errors_total"] for server in trial.servers for each in trial.documents(server))


def unharmed(trial, sighting):
    """Both servers are in rotation, and their connections are in step: each request gets its own answer."""
    states = {each["state"] for server in trial.servers for each in trial.documents(server)}
    sighting.claim(states == {"up"}, f"afterwards they are {', '.join(sorted(states))}")
    after = several(trial, 20)
    sighting.claim(all(each.good for each in after), f"failed afterwards: {tally(each.failure for each in after if not each.good)}")


def several(trial, count):
    connection = http.client.HTTPConnection(trial.daemon.address, timeout=60)
    try:
        return [ask(connection, trial.kind.quick) for _ in range(count)]
    finally:
        connection.close()


def kept(trial, sighting):
    """Many requests on one connection, and one after a pause: servers close theirs meanwhile."""
    outcomes = several(trial, IN_A_ROW if not trial.folded else 30)
    failed = [each.failure for each in outcomes if not each.good]
    sighting.fact(f"{len(outcomes)} requests on one connection")
    sighting.claim(not failed, f"failed: {tally(failed)}")
    if trial.folded:
        return
    time.sleep(PAUSE)  # what is observed is what follows a pause
    failed = [each.failure for each in several(trial, 20) if not each.good]
    sighting.fact(f"20 more after a pause of {PAUSE} s")
    sighting.claim(not failed, f"failed after the pause: {tally(failed)}")


def left(trial, sighting):
    """A client that leaves in the middle of its stream."""
    first = trial.servers[0]
    if first.ended_early() is None:
        sighting.fact("the engine does not tell when it stops")
        return
    before = errors_of(trial)
    delays = []
    for _ in range(3):
        stream = trial.stream_on(first)
        wait_until(lambda s=stream: s.pieces >= 3, 60, "a few pieces")
        known = wait_until(lambda: (now := first.ended_early()) is not True and [now], 10, "its work on its page")[0]
        gone = time.monotonic()
        stream.leave()
        try:
            wait_until(lambda k=known: first.ended_early() != k, 10, "the end of the work")
            delays.append(time.monotonic() - gone)
        except AssertionError:
            break
    if len(delays) < 3:
        sighting.fact("the engine goes on for more than 10 s after a client has left")
        sighting.claim(not trial.kind.aborts, "it was known to stop")
    else:
        sighting.fact(f"a client leaves: the engine shows it {1000 * sorted(delays)[1]:.0f} ms later (median of 3)")
        sighting.claim(sorted(delays)[1] < 2, "that is late")
    sighting.claim(errors_of(trial) == before, "it was counted against the server")
    wait_until(lambda: all(each["in_flight"] == 0 for server in trial.servers for each in trial.documents(server)), 20,
               "no request in flight")
    unharmed(trial, sighting)


def broken(trial, sighting):
    """The process that does the work is killed; the one that answers requests goes on for a while."""
    first = trial.servers[0]
    for each in trial.servers:
        if not each.running():
            each.kill()
            each.start()
            trial.wait_up(each)
    before = errors_of(trial)
    with Watch(trial.daemon) as watch, Clients(trial.daemon.address, trial.kind.quick, 3, later=0.02) as clients:
        wait_until(lambda: clients.served_by(first) > 1, 20, "its share of requests")
        stream = trial.stream_on(first)
        wait_until(lambda: stream.pieces >= 3, 60, "a few pieces")
        killed = time.monotonic()
        kill_core(first)
        stream.wait(60)
        states = watch.states["http", first.address]
        wait_until(lambda: any(when > killed and word != "up" for when, word in states), 30, "a state that is not up")
        time.sleep(trial.seconds / 4)  # observe that it is avoided
    out = next(when for when, word in states if when > killed and word != "up")
    sighting.fact(f"stream {stream.end} after {(stream.ended or time.monotonic()) - killed:.1f} s")
    sighting.fact(f"out of rotation after {out - killed:.1f} s ({', '.join(states.words())})")
    sighting.claim(stream.end != "complete", "the broken stream looked complete")
    sighting.claim(errors_of(trial) > before, "nothing was counted against the server")
    failed = clients.failed()
    sighting.fact(f"of {len(clients.outcomes)} other requests {len(failed)} failed"
                  + (f" ({tally(each.failure for each in failed)})" if failed else ""))
    late = [each for each in failed if each.began > killed + 2]
    sighting.claim(not late, f"failed after 2 s: {tally(each.failure for each in late)}")
    first.kill()


def kill_core(server):
    for each in servers.family_of(server.serving.process.pid):
        with contextlib.suppress(OSError):
            if servers.title_of(each).startswith(server.core):
                os.kill(each, signal.SIGKILL)
                return
    raise AssertionError(f"no process {server.core}")


OBSERVATIONS = {"odd": odd, "kept": kept, "left": left, "broken": broken}
