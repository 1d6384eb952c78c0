# shellcheck shell=bash
# ./dev package: what a release consists of, in build/package. Sourced by ./dev.
#
#   ./dev package                  # the profile-guided build, trained on this machine
#   ./dev package --profile FILE   # the same with the profile of another run: the same bytes from the same commit
#   ./dev package --no-pgo         # quicker; the same bytes, too
#   ./dev package twice            # --no-pgo, here and in a clone elsewhere, without a cache: fails if the bytes differ
#   ./dev package test [BASE]      # installs, upgrades and removes it in a chroot; see tests/packaging/chroot_test.sh
#
# MINISIGN_KEY (a file of `minisign -G -W`) or GPG_KEY (a key's id) in the environment: SHA256SUMS is signed with it.
# shellcheck disable=SC2154 # the lists of packages are in install.sh

readonly packages=build/package

verb_package() {
  local build=build/release-pgo profile=
  if [[ ${1:-} == test ]]; then
    exec tests/packaging/chroot_test.sh "${@:2}"
  fi
  if [[ "$*" == twice ]]; then
    verb_package --no-pgo
    compare_with_a_clone
    return
  fi
  case "${1:-} $#" in
    ' 0') ;;
    '--no-pgo 1') build=build/release ;;
    '--profile 2') profile=$(readlink -f "$2") ;;
    *) usage_error "package takes --no-pgo, --profile FILE, twice or test [BASE]" ;;
  esac
  [[ -z $profile || -f $profile ]] || die "no such file: $profile"
  install "${to_package[@]}"
  local commit version name
  commit=$(git rev-parse HEAD) || die "package needs the history: the commit's time is that of every file"
  [[ -z $(git status --porcelain) ]] || say "there are changes that are not committed: the package is not that of $commit"
  SOURCE_DATE_EPOCH=$(git log -1 --format=%ct)
  export SOURCE_DATE_EPOCH LC_ALL=C.UTF-8
  version=$(sed -n 's/^project(evenkeel VERSION \([0-9.]*\).*/\1/p' CMakeLists.txt)
  name=evenkeel_${version}

  build_for_package "$build" "$profile"
  rm -rf "$packages"
  mkdir -p "$packages"
  say "packing"
  (umask 022 && DESTDIR=$PWD/$packages/root cmake --install "$build" --prefix /usr >/dev/null)
  pack_tarball "$packages/root" "evenkeel-$version" "$packages/${name}_linux_$(dpkg --print-architecture).tar.xz"
  pack_deb "$packages/root" "$version" "$packages/${name}_$(dpkg --print-architecture).deb"
  ninja -C "$build" -t deps | sed -n 's/^ *\(\/usr\/include\/.*\)/\1/p' | sort -u >"$packages/headers"
  python3 -B tools/sbom.py "$build/evenkeel" "$version" "$commit" "$SOURCE_DATE_EPOCH" "$packages/headers" >"$packages/$name.spdx.json"
  if [[ $build == *-pgo ]]; then pack build/profile . "$packages/${name}_profile.tar.xz"; fi
  rm -rf "$packages/root" "$packages/headers"
  (cd "$packages" && sha256sum -- * >SHA256SUMS)
  sign "$packages/SHA256SUMS"
  (cd "$packages" && ls -l -- * >&2)
}

# compare_with_a_clone: makes the package of this commit again, in another folder.
compare_with_a_clone() {
  local clone
  clone=$(mktemp -d)
  # shellcheck disable=SC2064 # the folder is local
  trap "rm -rf '$clone'" EXIT
  git clone -q . "$clone/evenkeel"
  (cd "$clone/evenkeel" && CCACHE_DISABLE=1 ./dev package --no-pgo)
  diff "$packages/SHA256SUMS" "$clone/evenkeel/$packages/SHA256SUMS" >&2 || die "the second package has other bytes"
  say "both packages have the same bytes"
}

# build_for_package BUILD PROFILE: compiles the program. Paths of this checkout are not in it.
build_for_package() {
  case "$1 ${2:+profile}" in
    'build/release ')
      configure release
      compile release evenkeel
      ;;
    'build/release-pgo ') build_with_profile ;;
    *)
      rm -rf build/profile build/release-pgo
      mkdir -p build/profile
      tar -xf "$2" -C build/profile
      # g++ takes the source of a profile that was trained in another folder for a changed one.
      configure release-pgo -DCMAKE_CXX_FLAGS=-Wno-coverage-mismatch
      compile release-pgo evenkeel
      ;;
  esac
}

# pack FOLDER NAME FILE: a tar of the folder, which it calls NAME, with the same bytes for the same files.
pack() {
  tar --sort=name --mtime="@$SOURCE_DATE_EPOCH" --owner=0 --group=0 --numeric-owner --mode=go=rX,u+rw \
    --transform "s|^\.|$2|" -C "$1" -c . | xz -6 --threads=1 >"$3"
}

# pack_tarball ROOT NAME FILE: for other systems: tar -xf FILE -C / --strip-components=1
pack_tarball() { pack "$1" "$2" "$3"; }

# pack_deb ROOT VERSION FILE: adds to ROOT what only Debian wants.
pack_deb() {
  local root=$1 version=$2 doc=$1/usr/share/doc/evenkeel size depends
  mkdir -p "$root/DEBIAN" "$root/var/lib/evenkeel" "$root/var/log/evenkeel" "$root/usr/share/lintian/overrides"
  find "$root/usr/share/man" -type f -exec gzip -9n {} +
  rm -rf "$root/usr/lib/sysusers.d" # postinst makes the user
  cp tools/debian/copyright "$doc/copyright"
  cp tools/debian/lintian-overrides "$root/usr/share/lintian/overrides/evenkeel"
  cat <<END | gzip -9n >"$doc/changelog.gz"
evenkeel ($version) unstable; urgency=medium

  * Release $version; CHANGELOG.md has its changes by capability.

 -- $(sed -n 's/^Maintainer: //p' tools/debian/control)  $(date -u -R -d "@$SOURCE_DATE_EPOCH")
END
  depends=$(shared_libraries "$root/usr/bin/evenkeel")
  [[ $depends ]] || die "dpkg-shlibdeps cannot tell which packages the program needs"
  size=$(find "$root" -path "$root/DEBIAN" -prune -o -type f -printf '%s\n' | awk '{sum += int(($1 + 1023) / 1024)} END {print sum}')
  sed -e "s/@VERSION@/$version/" -e "s/@ARCHITECTURE@/$(dpkg --print-architecture)/" -e "s/@SIZE@/$size/" \
    -e "s/@DEPENDS@/$depends/" tools/debian/control >"$root/DEBIAN/control"
  cp tools/debian/{postinst,prerm,postrm} "$root/DEBIAN/"
  (cd "$root" && find etc -type f -printf '/%p\n' | sort) >"$root/DEBIAN/conffiles"
  (cd "$root" && find usr -type f -print0 | sort -z | xargs -0 md5sum) >"$root/DEBIAN/md5sums"
  find "$root" -type d -exec chmod 755 {} +
  find "$root" -type f -exec chmod 644 {} +
  chmod 755 "$root/usr/bin/evenkeel" "$root/DEBIAN"/{postinst,prerm,postrm}
  find "$root" -exec touch -h -d "@$SOURCE_DATE_EPOCH" {} +
  dpkg-deb --root-owner-group -Zxz --threads-max=1 --build "$root" "$3" >/dev/null
}

# shared_libraries BINARY: the packages that it needs, for Depends.
shared_libraries() {
  local work binary
  work=$(mktemp -d)
  binary=$(readlink -f "$1")
  mkdir "$work/debian"
  printf 'Source: evenkeel\n\nPackage: evenkeel\nArchitecture: any\n' >"$work/debian/control"
  (cd "$work" && dpkg-shlibdeps -O "$binary" 2>/dev/null) | sed -n 's/^shlibs:Depends=//p'
  rm -rf "$work"
}

# sign FILE: with the key that the environment names, if any.
sign() {
  if [[ -n ${MINISIGN_KEY:-} ]]; then
    install minisign
    minisign -S -s "$MINISIGN_KEY" -m "$1" -t "evenkeel SHA256SUMS" >/dev/null
  elif [[ -n ${GPG_KEY:-} ]]; then
    gpg --batch --yes --armor --local-user "$GPG_KEY" --detach-sign "$1"
  else
    say "not signed: neither MINISIGN_KEY nor GPG_KEY is set"
  fi
}
