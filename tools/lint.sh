# shellcheck shell=bash
# ./dev format and ./dev lint: clang-format, clang-tidy, shellcheck. Sourced by ./dev.
# shellcheck disable=SC2154 # the lists of packages are in install.sh

our_sources() { find src include tests bench -name '*.cc' -o -name '*.h' | sort; }

verb_format() {
  install clang-format-19
  our_sources | xargs clang-format-19 -i
}

our_scripts=(dev .ci/run tools/install.sh tools/lint.sh tools/package.sh tools/debian/postinst tools/debian/prerm
  tools/debian/postrm tests/packaging/chroot_test.sh docker/prove.sh)

verb_lint() {
  if [[ ${1:-} == --changed ]]; then
    (($# <= 2)) || usage_error "lint --changed takes one BASE"
    lint_changed "${2:-}"
    return
  fi
  (($# == 0)) || usage_error "lint takes no argument, or: --changed [BASE]"
  install "${to_lint[@]}" "${to_test[@]}"
  say "clang-format"
  our_sources | xargs clang-format-19 --dry-run -Werror
  say "shellcheck"
  check_scripts "${our_scripts[@]}"
  configure_for_tidy
  say "clang-tidy over src and bench (tests do unusual things on purpose)"
  run-clang-tidy-19 -quiet -p build/clang-dev "^$PWD/(src|bench)/"
}

# check_scripts FILE...: those of the files that are shell scripts
check_scripts() {
  local file scripts=()
  for file; do
    if head -n 1 "$file" | grep -qE '^#!.*\b(ba)?sh\b|^# shellcheck shell='; then scripts+=("$file"); fi
  done
  ((${#scripts[@]} == 0)) || shellcheck -x "${scripts[@]}"
}

# clang-tidy needs clang's compile commands and the headers that protoc generates.
configure_for_tidy() {
  configure clang-dev
  compile clang-dev kserve_proto
}

# The commit to compare with: BASE, else where HEAD left main, else (on main itself) the commit before.
lint_base() {
  local base=$1 main
  if [[ -z $base ]]; then
    for main in origin/main origin/master main master; do
      base=$(git merge-base HEAD "$main" 2>/dev/null) && break
    done
  fi
  if [[ $base == "$(git rev-parse HEAD 2>/dev/null)" ]]; then base=HEAD~1; fi
  git rev-parse --verify --quiet "${base:-none}^{commit}"
}

# lint_changed BASE: checks the files that differ from BASE. Passes, and says so, where there is no history to compare
# with or the tools cannot be installed.
lint_changed() {
  local base changed sources compiled
  if ! base=$(lint_base "$1"); then
    [[ -z $1 ]] || die "no such commit: $1"
    say "no git history to compare with; lint skipped"
    return 0
  fi
  if ! (install "${to_lint[@]}"); then
    say "the lint tools cannot be installed; lint skipped"
    return 0
  fi
  mapfile -t changed < <({ git diff --name-only --diff-filter=d "$base" && git ls-files --others --exclude-standard; } | sort -u)
  mapfile -t sources < <(printf '%s\n' "${changed[@]}" | grep -E '^(src|include|tests|bench)/.*\.(cc|h)$' || true)
  mapfile -t compiled < <(printf '%s\n' "${changed[@]}" | grep -E '^(src|bench)/.*\.cc$' || true)
  check_subjects "$base"
  say "${#changed[@]} files differ from $(git rev-parse --short "$base"): ${#sources[@]} of C++"
  ((${#changed[@]} == 0)) || check_scripts "${changed[@]}"
  ((${#sources[@]} == 0)) || clang-format-19 --dry-run -Werror "${sources[@]}"
  ((${#compiled[@]} == 0)) || tidy "${compiled[@]}"
}

# check_subjects BASE: the subject of each commit since BASE is "area: verb ...", at most 72 characters
check_subjects() {
  local wrong
  wrong=$(git log --no-merges --format=%s "$1..HEAD" | grep -vE '^[a-z0-9_./-]+: [a-z].*[^.]$' || true)
  wrong+=$(git log --no-merges --format=%s "$1..HEAD" | grep -E '.{73}' || true)
  [[ -z $wrong ]] || die "the subject of a commit is \"area: verb ...\" of at most 72 characters, without a full stop, unlike: $wrong"
}

# tidy FILE...: runs clang-tidy on these files, one per core at a time. Files for which LINT_SECONDS do not suffice are named
# and pass.
tidy() {
  install "${to_test[@]}"
  configure_for_tidy
  say "clang-tidy over $# files"
  # shellcheck disable=SC2016 # expanded by the inner shell
  printf '%s\0' "$@" | xargs -0 -n 1 -P "$(nproc)" bash -c '
    if (($(date +%s) >= $1)); then
      echo "dev: no time left for $2"
    else
      clang-tidy-19 -quiet -p build/clang-dev "$2" 2>&1 | sed "/^[0-9]* warnings\? generated/d"
      exit "${PIPESTATUS[0]}"
    fi' bash "$(($(date +%s) + ${LINT_SECONDS:-1200}))"
}
