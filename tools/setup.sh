#!/bin/sh
# Makes .venv with everything Vigil needs, from requirements.lock; does nothing when that was done before.
# usage: tools/setup.sh [sshd | chromium]    with either it also sees to that program for the tests
set -eu
cd "$(dirname "$0")/.."

say() { printf 'setup: %s\n' "$*"; }
fail() { printf 'setup: %s\n' "$*" >&2; exit 1; }

find_python() {
    for name in python3.11 python3.12 python3.13 python3; do
        if command -v "$name" >/dev/null && "$name" -c 'import sys; sys.exit(sys.version_info < (3, 11))'; then
            echo "$name"
            return
        fi
    done
    fail "Python 3.11 or newer is needed; install it (apt-get install python3) and try again"
}

# Debian keeps what venv needs in a package of its own.
make_venv() {
    python=$(find_python)
    say "making .venv with $("$python" --version)"
    if "$python" -m venv --clear .venv >/dev/null 2>&1; then return; fi
    package="$("$python" -c 'import sys; print(f"python3.{sys.version_info.minor}-venv")')"
    install_package "$package"
    "$python" -m venv --clear .venv
}

install_package() {
    if [ "$(id -u)" != 0 ] || ! command -v apt-get >/dev/null; then
        fail "the package $1 is needed: run  sudo apt-get install $1  and try again"
    fi
    say "installing the package $1"
    apt-get update -qq >/dev/null
    # A daemon that the package brings is not started: only its files are wanted.
    policy=/usr/sbin/policy-rc.d
    if [ ! -e "$policy" ]; then
        printf '#!/bin/sh\nexit 101\n' >"$policy"
        chmod 755 "$policy"
        trap 'rm -f "$policy"' EXIT
    fi
    DEBIAN_FRONTEND=noninteractive apt-get install -y -qq --no-install-recommends "$1" >/dev/null
}

stamp=.venv/installed
wanted=$(cat requirements.lock pyproject.toml | cksum)
if [ "$(cat "$stamp" 2>/dev/null)" != "$wanted" ]; then
    make_venv
    say "installing what requirements.lock names"
    .venv/bin/python -m pip install --quiet --disable-pip-version-check --require-hashes -r requirements.lock
    .venv/bin/python -m pip install --quiet --disable-pip-version-check --no-deps --editable .
    echo "$wanted" >"$stamp"
fi

if [ "${1:-}" = sshd ] && [ ! -x /usr/sbin/sshd ] && ! command -v sshd >/dev/null; then
    install_package openssh-server
fi
if [ "${1:-}" = chromium ] && ! command -v chromium >/dev/null && ! command -v google-chrome >/dev/null; then
    install_package chromium
fi
say "ready"
