# Sourced by the other scripts: where the tree and the cache are, and how to speak to the user.

set -euo pipefail

root=$(cd "$(dirname "${BASH_SOURCE[0]}")/.." && pwd)
# Everything downloaded or generated for development lives here, never in the tree.
cache=${XDG_CACHE_HOME:-${HOME:-/tmp}/.cache}/mongo-idproxy
jobs=${IDPROXY_JOBS:-2}

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

# build PRESET [TARGET...]: configures and builds build/PRESET.
build() {
  local preset=$1
  shift
  local targets=()
  if (($#)); then targets=(--target "$@"); fi
  cd "$root"
  run_quietly "$root/build/$preset.configure.log" cmake --preset "$preset"
  run_quietly "$root/build/$preset.build.log" \
    cmake --build --preset "$preset" -j "$jobs" "${targets[@]}"
}
