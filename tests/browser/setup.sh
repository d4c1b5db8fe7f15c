#!/usr/bin/env bash
# Installs what the demo and the browser tests need and do not find: Node's packages always, Debian's packages as root only.
# Usage: setup.sh [chromium] [xvfb]
set -eu
here=$(cd "$(dirname "$0")" && pwd)

# Installs Debian packages, or says the one command that does and ends with 2.
debian() {
  if [ "$(id -u)" = 0 ] && command -v apt-get >/dev/null; then
    echo "setup: installing $*" >&2
    # A list of packages that is missing or old is the usual reason for a failure: fetch it, then try once more.
    DEBIAN_FRONTEND=noninteractive apt-get install -y --no-install-recommends "$@" >&2 ||
      { apt-get update >&2 && DEBIAN_FRONTEND=noninteractive apt-get install -y --no-install-recommends "$@" >&2; }
  else
    echo "setup: $* is missing. Install it and try again: apt-get install -y $*   (as root)" >&2
    exit 2
  fi
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
      node --input-type=module -e "import { findChromium } from '$here/support/chromium.mjs'; process.exit(findChromium() ? 0 : 1)" || debian chromium ;;
    xvfb) command -v Xvfb >/dev/null || debian xvfb ;;
    *) echo "setup: unknown: $wanted" >&2; exit 2 ;;
  esac
done
