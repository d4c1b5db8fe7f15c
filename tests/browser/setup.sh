#!/usr/bin/env bash
# Installs what the demo and the browser tests need and do not find: Node's packages always, Debian's packages as root only.
# Usage: setup.sh [chromium] [xvfb]
set -eu
here=$(cd "$(dirname "$0")" && pwd)

# The first Chromium on which everything here is known to hold. Older ones answer some commands otherwise.
oldest_chromium=156

# Installs or upgrades Debian packages, or says the one command that does and ends with 2.
debian() {
  if [ "$(id -u)" = 0 ] && command -v apt-get >/dev/null; then
    echo "setup: installing $*" >&2
    # The list first: the one that came with a machine's image can be months old, and so would the browser be. Where it
    # cannot be fetched, what the old list names is still worth a try.
    apt-get update >&2 || true
    DEBIAN_FRONTEND=noninteractive apt-get install -y --no-install-recommends "$@" >&2
  else
    echo "setup: $* is missing or too old. Install it and try again: apt-get update && apt-get install -y $*   (as root)" >&2
    exit 2
  fi
}

# Whether a Chromium is there, new enough. Its version is asked for without a profile of anybody's.
new_enough_chromium() {
  local browser version
  browser=$(node --input-type=module -e "import { findChromium } from '$here/support/chromium.mjs'; console.log(findChromium() ?? '')")
  [ -n "$browser" ] || return 1
  version=$("$browser" --version 2>/dev/null | sed -n 's/^[^0-9]* \([0-9]*\)\..*/\1/p')
  [ "${version:-0}" -ge "$oldest_chromium" ]
}

command -v node >/dev/null && command -v npm >/dev/null || debian nodejs npm
if [ "$(node -p 'parseInt(process.versions.node)')" -lt 20 ]; then
  echo "setup: Node $(node --version) is too old: install Node 20 or newer and try again" >&2
  exit 2
fi

# npm keeps a copy of the lock file beside what it installed: nothing to do while the lock file is not newer.
if ! [ "$here/node_modules/.package-lock.json" -nt "$here/package-lock.json" ]; then
  echo "setup: npm ci in tests/browser" >&2
  npm ci --prefix "$here" --ignore-scripts --no-audit --no-fund --loglevel=error >&2
  touch "$here/node_modules/.package-lock.json"
fi

for wanted in "$@"; do
  case $wanted in
    chromium)
      new_enough_chromium || debian chromium
      new_enough_chromium || echo "setup: the browser found is older than $oldest_chromium, which these tests are written for: some may fail" >&2 ;;
    xvfb) command -v Xvfb >/dev/null || debian xvfb ;;
    *) echo "setup: unknown: $wanted" >&2; exit 2 ;;
  esac
done
