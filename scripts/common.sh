# Sourced by the other scripts: where the tree and the cache are, and how to speak to the user.

set -euo pipefail

root=$(cd "$(dirname "${BASH_SOURCE[0]}")/.." && pwd)
# Everything downloaded or generated for development lives here, never in the tree.
cache=${XDG_CACHE_HOME:-${HOME:-/tmp}/.cache}/mongo-idproxy
jobs=${IDPROXY_JOBS:-2}

# Python keeps in the cache what it compiled, so that not every test process compiles all tests again.
export PYTHONPYCACHEPREFIX=$cache/pycache
unset PYTHONDONTWRITEBYTECODE

# Clones share what was compiled: paths below the tree count as relative ones.
export CCACHE_BASEDIR=$root CCACHE_NOHASHDIR=1
# debhelper sets a locale, which the compiler's output does not depend on.
export CCACHE_SLOPPINESS=pch_defines,time_macros,include_file_mtime,include_file_ctime,locale

say() { printf '%s\n' "$*" >&2; }

die() {
  say "$(basename "$0"): $*"
  exit 1
}

# run_quietly LOG COMMAND...: shows the command's output only when it fails.
run_quietly() {
  local log=$1
  shift
  mkdir -p "$(dirname "$log")"
  if "$@" >"$log" 2>&1 </dev/null; then return 0; fi
  say "failed: $*"
  say "the end of its output ($log):"
  tail -n 40 "$log" >&2
  return 1
}

# check_out DIRECTORY COMMIT: a worktree of that commit, made or changed.
check_out() {
  local commit
  commit=$(git -C "$root" rev-parse --verify "$2^{commit}") || die "there is no commit $2"
  if [[ ! -e $1/.git ]]; then
    git -C "$root" worktree prune
    git -C "$root" worktree add --quiet --force --detach "$1" "$commit"
  fi
  git -C "$1" checkout --quiet --force "$commit"
}

# build PRESET [TARGET...]: configures and builds build/PRESET. One caller at a time.
build() {
  local preset=$1 lock
  shift
  local targets=()
  if (($#)); then targets=(--target "$@"); fi
  mkdir -p "$root/build"
  exec {lock}>"$root/build/$preset.lock"
  flock "$lock"
  cd "$root"
  run_quietly "$root/build/$preset.configure.log" cmake --preset "$preset"
  run_quietly "$root/build/$preset.build.log" \
    cmake --build --preset "$preset" -j "$jobs" "${targets[@]}"
  exec {lock}>&-
}

# build_visibly PRESET TARGET: the same, for people: shows how far it is, and with what.
build_visibly() {
  local log=$root/build/$1.build.log
  cd "$root"
  run_quietly "$root/build/$1.configure.log" cmake --preset "$1"
  NINJA_STATUS='[%p] ' cmake --build --preset "$1" -j "$jobs" --target "$2" </dev/null 2>&1 |
    tee "$log" | show_progress && return
  say "the end of its output ($log):"
  tail -n 40 "$log" >&2
  return 1
}

# show_progress: on a terminal one line that changes, elsewhere a line for each tenth.
show_progress() {
  local line percent what shown=-10
  while IFS= read -r line; do
    [[ $line =~ ^\[\ *([0-9]+)%\]\ (.*)$ ]] || continue
    percent=${BASH_REMATCH[1]} what=${BASH_REMATCH[2]}
    if [[ $what =~ idproxy_([a-z_]+)\. ]]; then
      what="compiling ${BASH_REMATCH[1]}"
    elif [[ $what == Linking* ]]; then
      what=linking
    else
      what=compiling
    fi
    if [[ -t 2 ]]; then
      printf '\r\033[K%4d %%  %s' "$percent" "$what" >&2
    elif ((percent >= shown + 10)); then
      printf '%4d %%  %s\n' "$percent" "$what" >&2
      shown=$percent
    fi
  done
  if [[ -t 2 ]]; then printf '\r\033[K' >&2; fi
}
