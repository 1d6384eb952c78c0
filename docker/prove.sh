#!/usr/bin/env bash
# Tests docker/Dockerfile without a registry and without Docker: makes a Debian 12 base with debootstrap, builds with
# buildah, then runs the result: health check, load, and SIGTERM during a stream.
#
#   docker/prove.sh [FOLDER]     # as root; FOLDER keeps the base image for the next run
#
# docs/operations.md says how the image is used.
set -euo pipefail
root=$(dirname "$(dirname "$(readlink -f "${BASH_SOURCE[0]}")")")
work=${1:-$(mktemp -d)}
mkdir -p "$work"

say() { printf '\n== %s\n' "$*"; }
fail() {
  printf 'prove: %s\n' "$*" >&2
  exit 1
}
for tool in buildah debootstrap curl ss; do
  command -v "$tool" >/dev/null || fail "$tool is missing: apt-get install buildah debootstrap curl iproute2"
done

# One folder and the vfs driver, which works without overlay mounts.
store=(--root "$work/images" --runroot "$work/run" --storage-driver vfs)
b() { buildah "${store[@]}" "$@"; }

say "Debian 12 base image"
if [[ ! -e $work/base/.complete ]]; then
  debootstrap --variant=minbase bookworm "$work/base" ${MIRROR:+"$MIRROR"} >"$work/debootstrap.log"
  rm -rf "$work/base/var/cache/apt/archives"/*.deb
  touch "$work/base/.complete"
fi
if ! b inspect --type image localhost/debian:12 >/dev/null 2>&1; then
  container=$(b from scratch)
  b add -q "$container" "$work/base" / >/dev/null
  b commit -q --rm "$container" localhost/debian:12 >/dev/null
fi

say "build"
context=$work/context
rm -rf "$context"
mkdir -p "$context"
git -C "$root" archive HEAD | tar -x -C "$context"
time b build -q --layers --isolation chroot --build-arg BASE=localhost/debian:12 --build-arg PGO= --format docker \
  -f "$context/docker/Dockerfile" -t localhost/evenkeel "$context"
b inspect --type image --format \
  'user {{.Docker.Config.User}}, stops on {{.Docker.Config.StopSignal}}, healthcheck {{.Docker.Config.Healthcheck.Test}}' \
  localhost/evenkeel
b images --format '{{.Name}} {{.Size}}'

say "run"
container=$(b from localhost/evenkeel)
pids=()
end() {
  for pid in "${pids[@]}"; do kill -KILL "$pid" 2>/dev/null || true; done
  wait 2>/dev/null || true
  b rm "$container" >/dev/null 2>&1 || true
}
trap end EXIT
# The process that listens there. buildah starts it through other processes, so its pid is not ours.
pid_of() { ss -Hltnp "sport = :${1##*:}" | sed -n 's/.*pid=\([0-9]*\).*/\1/p' | head -n 1; }
in_container() { b run --isolation chroot --user 65532:65532 "$container" -- "$@"; }

# until_ready LOG: waits for the line `ready`.
until_ready() {
  for _ in $(seq 200); do
    if grep -q '^ready' "$1"; then return 0; fi
    sleep 0.1
  done
  cat "$1" >&2
  fail "not ready"
}
in_container evenkeel sim --listen 127.0.0.1:0 --count 2 --engine vllm --speed 20 >"$work/sim.log" 2>&1 &
until_ready "$work/sim.log"
pids+=("$(pid_of "$(sed -n 's/^listening name=sim-0 address=\([^ ]*\).*/\1/p' "$work/sim.log")")")
backends=$(sed -n 's/^listening name=sim-[0-9]* address=\([^ ]*\).*/"\1"/p' "$work/sim.log" | paste -sd,)
mount=$(b mount "$container")
cat >"$mount/etc/evenkeel/evenkeel.yaml" <<YAML
listeners: [{name: public, address: "127.0.0.1:0"}]
admin: {address: "127.0.0.1:0"}
pools: [{name: llama, engine: vllm, backends: [$backends]}]
access_log: {path: "off"}
YAML
in_container evenkeel run -c /etc/evenkeel/evenkeel.yaml >"$work/evenkeel.log" 2>&1 &
until_ready "$work/evenkeel.log"
public=$(sed -n 's/^listening name=public address=//p' "$work/evenkeel.log")
admin=$(sed -n 's/^listening name=admin address=//p' "$work/evenkeel.log")
daemon=$(pid_of "$admin")
pids+=("$daemon")
echo "user of the process: $(awk '/^Uid:/ {print $2}' "/proc/$daemon/status")"
[[ $(awk '/^Uid:/ {print $2}' "/proc/$daemon/status") == 65532 ]] || fail "not the user of the image"

say "health check"
in_container evenkeel ctl status --admin "$admin"
if in_container evenkeel ctl status --admin 127.0.0.1:1 2>/dev/null; then fail "healthy although nothing listens"; fi

say "load, and TERM during a stream"
"$mount/usr/bin/evenkeel" version
size=$(stat -c %s "$mount/usr/bin/evenkeel")
echo "size of the binary: $((size >> 20)) MiB"
((size < 20 << 20)) || fail "the binary holds its debug information"
in_container evenkeel load "http://$public" --requests 200 --rate 50 --stream --json >"$work/load.json"
grep -o '"requests":{[^}]*}' "$work/load.json"
rm -f "$work/stream.txt"
curl -sS -N -H 'content-type: application/json' -d '{"model":"'"$(curl -s "http://$public/v1/models" |
  sed -n 's/.*"id":"\([^"]*\)".*/\1/p')"'","prompt":"drain","max_tokens":400,"stream":true}' \
  "http://$public/v1/completions" >"$work/stream.txt" &
stream=$!
for _ in $(seq 100); do
  if [[ -s $work/stream.txt ]]; then break; fi
  sleep 0.05
done
kill -TERM "$daemon"
wait "$stream" || fail "the stream was cut off"
tail -c 20 "$work/stream.txt" | grep -q '\[DONE\]' || fail "the stream is incomplete"
for _ in $(seq 100); do
  if [[ ! -e /proc/$daemon ]]; then break; fi
  sleep 0.1
done
[[ ! -e /proc/$daemon ]] || fail "the daemon does not exit"
tail -n 3 "$work/evenkeel.log"
say "passed: built, ran as 65532, healthy, no failed request under load, drained"
