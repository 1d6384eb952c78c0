#!/usr/bin/env bash
# The Debian package of build/package in a clean chroot: lintian; installed, it answers its page; with servers it serves them;
# an upgrade under load fails no request; removed and purged, nothing is left.
#
#   tests/packaging/chroot_test.sh [BASE]    # as root; BASE: a Debian with a working apt, which stays as it is
#
# Without BASE, debootstrap makes one in build/chroot (MIRROR: where its packages are, RELEASE: bookworm). `./dev package test`
# runs this. There is no systemd in the chroot: the test starts the daemon as the unit does, and sends the signal that an
# upgrade under systemd stands for.
set -euo pipefail
root=$(dirname "$(dirname "$(dirname "$(readlink -f "${BASH_SOURCE[0]}")")")")
deb=$(find "$root/build/package" -maxdepth 1 -name 'evenkeel_*.deb' 2>/dev/null | head -n 1)
# Where its ports and processes are its own; see below.
inside=${EVENKEEL_CHROOT:-}

say() { printf '\n== %s\n' "$*"; }
fail() {
  printf 'chroot_test: %s\n' "$*" >&2
  [[ ! -s ${inside:-/nowhere}/tmp/daemon.log ]] || tail -n 20 "$inside/tmp/daemon.log" >&2
  exit 1
}
# in_chroot COMMAND...: a chroot has the environment of a login, not ours.
in_chroot() { chroot "$target" env -i PATH=/usr/sbin:/usr/bin:/sbin:/bin DEBIAN_FRONTEND=noninteractive LC_ALL=C.UTF-8 "$@"; }

# Every file that a package could leave, with the users; not what dpkg and apt themselves write.
snapshot() {
  (cd "$target" && find . -xdev \( -path ./proc -o -path ./sys -o -path ./dev -o -path ./tmp -o -path ./var/cache -o -path ./var/lib/dpkg \
    -o -path ./var/lib/apt -o -path ./var/log/dpkg.log -o -path ./var/log/apt -o -path ./etc/passwd- -o -path ./etc/group- \
    -o -path ./etc/shadow- -o -path ./etc/gshadow- -o -path ./etc/subuid- -o -path ./etc/subgid- \) -prune -o -print | sort
   cat etc/passwd etc/group)
}

prepare() {
  [[ -n $deb ]] || fail "no package in build/package: ./dev package makes it"
  ((EUID == 0)) || fail "chroot needs root"
  if command -v lintian >/dev/null; then
    say "lintian"
    lintian --fail-on error,warning --allow-root "$deb"
  else
    say "lintian is not installed: not run"
  fi
  local base=${1:-} work=$root/build/chroot/work
  target=$work/root
  rm -rf --one-file-system "$work"
  mkdir -p "$target" "$work/upper" "$work/scratch"
  if [[ -z $base ]]; then
    base=$root/build/chroot/${RELEASE:-bookworm}
    [[ -e $base/.complete ]] || debootstrap --variant=minbase "${RELEASE:-bookworm}" "$base" ${MIRROR:+"$MIRROR"} >"$base.log"
    touch "$base/.complete"
  fi
  # What is written goes beside the base, or into a copy of it.
  mount -t overlay overlay -o "lowerdir=$base,upperdir=$work/upper,workdir=$work/scratch" "$target" || cp -a "$base/." "$target"
  printf '#!/bin/sh\nexit 101\n' >"$target/usr/sbin/policy-rc.d"
  chmod 755 "$target/usr/sbin/policy-rc.d"
  mount --bind /dev "$target/dev"
  mount -t proc proc "$target/proc"
  cp "$deb" "$target/tmp/old.deb"

  say "dependencies"
  in_chroot sh -c 'apt-get update -qq && apt-get install -y -qq --no-install-recommends /tmp/old.deb >/tmp/apt.log 2>&1 || { cat /tmp/apt.log; exit 1; }
    dpkg --purge evenkeel >/dev/null'
  umount "$target/proc"
  # A network and processes of its own: no port is taken, and everything ends with the test.
  EVENKEEL_CHROOT=$target unshare --net --pid --fork "${BASH_SOURCE[0]}"
  umount "$target/proc" "$target/dev"
  umount "$target" 2>/dev/null || true
  rm -rf --one-file-system "$work"
}

# until_lines COUNT TEXT FILE
until_lines() {
  for _ in $(seq 300); do
    if (($(grep -c "$2" "$3") >= $1)); then return 0; fi
    sleep 0.1
  done
  fail "no line '$2' in ${3##*/}"
}
# The daemon as evenkeel.service runs it.
start_daemon() {
  chroot --userspec=evenkeel:evenkeel "$target" env -i PATH=/usr/bin:/bin /usr/bin/evenkeel run >"$target/tmp/daemon.log" 2>&1 &
  until_lines 1 '^ready' "$target/tmp/daemon.log"
}
# daemon_pid [OLD]: the process of the daemon, other than OLD.
daemon_pid() {
  local each
  for each in "$target"/proc/[0-9]*; do
    [[ ${each##*/} != "${1:-}" ]] || continue
    if tr '\0' ' ' 2>/dev/null <"$each/cmdline" | grep -q '^/usr/bin/evenkeel run'; then echo "${each##*/}"; fi
  done
}
# answer_of PATH: status and body of a request to the daemon.
answer_of() {
  exec 3<>/dev/tcp/127.0.0.1/8080
  printf 'GET %s HTTP/1.1\r\nhost: test\r\nconnection: close\r\n\r\n' "$1" >&3
  cat <&3
  exec 3>&-
}

# upgrade NUMBER HOW: installs the package as another version while requests run.
upgrade() {
  local number=$1 old new load
  say "upgrade under load, $2"
  rm -rf "$target/tmp/new"
  dpkg-deb -R "$target/tmp/old.deb" "$target/tmp/new"
  sed -i "s/^Version: .*/&+$number/" "$target/tmp/new/DEBIAN/control"
  dpkg-deb --root-owner-group -b "$target/tmp/new" "$target/tmp/new.deb" >/dev/null
  old=$(daemon_pid)
  in_chroot evenkeel load http://127.0.0.1:8080 --concurrency 16 --duration 15s --stream >"$target/tmp/load.log" 2>&1 &
  load=$!
  sleep 3
  if ((number == 1)); then
    mkdir -p "$target/run/systemd/system" "$target/tmp/stub"
    # In the place of systemd's, which says that the service is active.
    printf '#!/bin/sh\nexit 0\n' >"$target/tmp/stub/systemctl"
    chmod 755 "$target/tmp/stub/systemctl"
    in_chroot env PATH=/tmp/stub:/usr/sbin:/usr/bin:/sbin:/bin dpkg -i /tmp/new.deb
    rm -r "$target/run/systemd/system" "$target/tmp/stub"
    rmdir "$target/run/systemd" 2>/dev/null || true
  else
    in_chroot dpkg -i /tmp/new.deb
    kill -USR2 "$old"
  fi
  until_lines $((number + 1)) '^ready' "$target/tmp/daemon.log"
  new=$(daemon_pid "$old")
  [[ -n $new ]] || fail "no new process"
  [[ $(cat "$target/proc/$new/comm") == evenkeel ]] || fail "the name of process $new is another"
  [[ $(readlink "$target/proc/$new/exe") != *deleted* ]] || fail "process $new is not the new binary"
  wait "$load" || { cat "$target/tmp/load.log"; fail "requests failed during the upgrade"; }
  head -n 4 "$target/tmp/load.log"
  grep -q 127.0.0.1:8001 "$target/etc/evenkeel/evenkeel.yaml" || fail "the upgrade has replaced the configuration"
  echo "process $old passed on to process $new; no request failed"
  for _ in $(seq 300); do
    [[ -n $(daemon_pid "$new") ]] || return 0
    sleep 0.1
  done
  fail "process $old does not end"
}

install_and_upgrade() {
  mount -t proc proc "$target/proc"
  ip link set lo up
  say "install"
  local before after
  before=$(snapshot)
  in_chroot dpkg -i /tmp/old.deb
  in_chroot evenkeel check
  in_chroot sh -c 'test -s /usr/share/man/man1/evenkeel.1.gz && test -s /usr/share/doc/evenkeel/observability/runbooks.md'
  [[ $(in_chroot stat -c %U /var/lib/evenkeel) == evenkeel ]] || fail "the user has no folder for its state"

  say "the page of the packaged configuration"
  start_daemon
  answer_of / | tee "$target/tmp/page"
  grep -q "^HTTP/1.1 503" "$target/tmp/page" || fail "no page"
  grep -q "pools.*evenkeel.yaml" "$target/tmp/page" || fail "the page does not say what to do"

  say "servers are added"
  in_chroot evenkeel sim --listen 127.0.0.1:8001 --count 2 --engine vllm --speed 20 >"$target/tmp/sim.log" 2>&1 &
  until_lines 1 '^ready' "$target/tmp/sim.log"
  echo 'pools: [{name: llm, engine: vllm, backends: [http://127.0.0.1:8001, http://127.0.0.1:8002]}]' >"$target/etc/evenkeel/evenkeel.yaml"
  in_chroot evenkeel check
  in_chroot evenkeel ctl reload
  in_chroot evenkeel load http://127.0.0.1:8080 --requests 20 --concurrency 4 --stream | head -n 3

  upgrade 1 "as under systemd: the package has the daemon start the new binary"
  upgrade 2 "without systemd: the daemon gets USR2"
  local new
  new=$(daemon_pid)

  say "remove, purge"
  kill -TERM "$new"
  for _ in $(seq 300); do
    [[ -n $(daemon_pid) ]] || break
    sleep 0.1
  done
  [[ -z $(daemon_pid) ]] || fail "process $(daemon_pid) does not end"
  in_chroot dpkg --remove evenkeel
  [[ -e $target/etc/evenkeel/evenkeel.yaml ]] || fail "removing took the configuration"
  in_chroot dpkg --purge evenkeel
  after=$(snapshot)
  diff <(echo "$before") <(echo "$after") || fail "purging left something"
  say "passed: installed, served, upgraded under load, removed without a trace"
}

if [[ -n $inside ]]; then
  target=$inside
  install_and_upgrade
elif [[ ${EVENKEEL_CHROOT_MOUNTS:-} != own ]]; then
  # Mounts of its own: they end with it.
  EVENKEEL_CHROOT_MOUNTS=own exec unshare --mount "${BASH_SOURCE[0]}" "$@"
else
  prepare "$@"
fi
