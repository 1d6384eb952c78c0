"""What the kernel refuses is an error with its cure, and ends no process that serves: a start exits with 1, a reload and an
upgrade leave what runs."""

import json
import os
import pathlib
import signal
import subprocess

import case
from process import BINARY, Daemon, SANITIZED
from reloading import ReloadCase, serve
from stream import exchange
from upgrading import UpgradeCase

SHIM = r"""
#define _GNU_SOURCE
#include <dlfcn.h>
#include <errno.h>
#include <spawn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <unistd.h>

/* Fails with the number in the file REFUSALS/NAME, for as long as that file exists. */
static int refused(const char* name) {
  const char* folder = getenv("REFUSALS");
  if (folder == NULL) return 0;
  const int before = errno;
  char path[4096];
  snprintf(path, sizeof path, "%s/%s", folder, name);
  FILE* file = fopen(path, "r");
  errno = before;
  if (file == NULL) return 0;
  int number = 0;
  if (fscanf(file, "%d", &number) != 1) number = 0;
  fclose(file);
  errno = before;
  return number;
}

#define CALL(name, result, parameters, arguments, when)                        \
  result name parameters {                                                     \
    static result(*real) parameters = NULL;                                    \
    if (real == NULL) real = (result(*) parameters)dlsym(RTLD_NEXT, #name);    \
    int number = (when) ? refused(#name) : 0;                                  \
    if (number != 0) {                                                         \
      errno = number;                                                          \
      return -1;                                                               \
    }                                                                          \
    return real arguments;                                                     \
  }

CALL(epoll_ctl, int, (int epoll, int operation, int fd, struct epoll_event* event), (epoll, operation, fd, event),
     operation == EPOLL_CTL_ADD)
CALL(epoll_create1, int, (int flags), (flags), 1)
CALL(eventfd, int, (unsigned value, int flags), (value, flags), 1)
CALL(timerfd_create, int, (int clock, int flags), (clock, flags), 1)
CALL(signalfd, int, (int fd, const void* mask, int flags), (fd, mask, flags), 1)
CALL(socketpair, int, (int domain, int type, int protocol, int* ends), (domain, type, protocol, ends), 1)

int posix_spawn(pid_t* pid, const char* path, const posix_spawn_file_actions_t* actions, const posix_spawnattr_t* attributes,
                char* const arguments[], char* const environment[]) {
  static int (*real)(pid_t*, const char*, const posix_spawn_file_actions_t*, const posix_spawnattr_t*, char* const[],
                     char* const[]) = NULL;
  if (real == NULL) *(void**)&real = dlsym(RTLD_NEXT, "posix_spawn");
  int number = refused("posix_spawn");
  return number != 0 ? number : real(pid, path, actions, attributes, arguments, environment);
}
"""
NO_SPACE, TOO_MANY, NO_MEMORY, AGAIN = 28, 24, 12, 11


class Refusing:
    """What the process that a test starts is refused."""

    def build(self):
        if SANITIZED:
            self.skipTest("a sanitizer's library comes first")
        self.refusals = pathlib.Path(self.folder())
        source = self.refusals / "shim.c"
        source.write_text(SHIM)
        library = self.refusals / "shim.so"
        subprocess.run(["cc", "-shared", "-fPIC", "-o", library, source, "-ldl"], check=True, timeout=120)
        return {"LD_PRELOAD": str(library), "REFUSALS": str(self.refusals)}

    def refuse(self, call, number):
        (self.refusals / call).write_text(str(number))

    def allow(self, call):
        (self.refusals / call).unlink()


class Starts(case.Case, Refusing):
    def run_with(self, env=None, limits=()):
        config = pathlib.Path(self.folder()) / "evenkeel.yaml"
        config.write_text('{"workers": 2, "listeners": [{"name": "public", "address": "127.0.0.1:0"}], '
                          '"admin": {"address": "127.0.0.1:0"}, "pools": [{"name": "p", "backends": ["127.0.0.1:1"]}]}')
        prefix = ["prlimit", *limits, "--"] if limits else []
        return subprocess.run([*prefix, BINARY, "run", "-c", str(config)], capture_output=True, text=True, timeout=60,
                              env={**os.environ, **(env or {})}, check=False)

    def test_too_few_descriptors_end_the_start_with_the_cure(self):
        for limit in (4, 5, 6, 8, 10, 12, 14, 16, 18, 20, 24, 28, 32, 36, 39):
            ended = self.run_with(limits=[f"--nofile={limit}:{limit}"])
            self.assertEqual(ended.returncode, 1, (limit, ended.stderr))
            self.assertRegex(ended.stderr, "ulimit -n|Too many open files", limit)

    def test_a_refused_call_ends_the_start_with_the_cure(self):
        env = self.build()
        for call, number, cure in (("epoll_ctl", NO_SPACE, "fs.epoll.max_user_watches"),
                                   ("epoll_create1", TOO_MANY, "ulimit -n"), ("eventfd", TOO_MANY, "ulimit -n"),
                                   ("timerfd_create", NO_MEMORY, "memory"), ("signalfd", TOO_MANY, "ulimit -n")):
            with self.subTest(call):
                self.refuse(call, number)
                ended = self.run_with(env)
                self.assertEqual(ended.returncode, 1, ended.stderr)
                self.assertIn(cure, ended.stderr)
                self.allow(call)


class Reloads(ReloadCase, Refusing):
    def test_a_reload_that_cannot_watch_its_listener_is_rejected(self):
        env = self.build()
        backend = self.backend(serve)
        config = {"listeners": [{"name": "public"}], "pools": [{"name": "pool", "backends": [backend.address]}]}
        daemon = Daemon(self.folder(), config, env=env)
        self.addCleanup(daemon.finish)
        whole = json.loads(daemon.config_path.read_text())
        whole["listeners"].append({"name": "second", "address": "127.0.0.1:0"})
        daemon.config_path.write_text(json.dumps(whole))
        for number in (NO_SPACE, NO_MEMORY):
            self.refuse("epoll_ctl", number)
            answer = self.reload_by_command(daemon)
            self.assertEqual(answer.returncode, 1)
            self.assertIn("cannot wait for connections", answer.stderr)
            self.allow("epoll_ctl")
            self.assertEqual(exchange(daemon.address).status, 200)
        self.assertEqual(self.reload_by_command(daemon).returncode, 0)

    def reload_by_command(self, daemon):
        """Its connection was accepted before a call is refused, so it comes by a signal and the log tells the result."""
        before = len(daemon.lines)
        daemon.signal(signal.SIGHUP)
        line = self.eventually(lambda: next((each for each in daemon.lines[before:]
                                             if "reload rejected" in each or "reloaded " in each), None))
        rest = "\n".join(daemon.lines[before:])
        return subprocess.CompletedProcess([], int("rejected" in line), "", rest)


class Upgrades(UpgradeCase, Refusing):
    def test_a_refused_call_leaves_the_process_that_serves(self):
        env = self.build()
        for name, value in env.items():
            os.environ[name] = value
            self.addCleanup(os.environ.pop, name)
        self.start(self.backend(serve))
        for call, number in (("epoll_ctl", NO_SPACE), ("epoll_create1", TOO_MANY), ("posix_spawn", AGAIN),
                             ("socketpair", TOO_MANY), ("eventfd", TOO_MANY), ("signalfd", TOO_MANY)):
            with self.subTest(call):
                before = len(self.served.lines)
                self.refuse(call, number)
                os.kill(self.main, signal.SIGUSR2)
                self.eventually(lambda: any("upgrade failed; this process continues" in line
                                            for line in self.served.lines[before:]), "the failure")
                self.allow(call)
                self.assertEqual(exchange(self.served.address).status, 200)


if __name__ == "__main__":
    case.main()
