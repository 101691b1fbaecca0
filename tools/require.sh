#!/bin/sh
# Says what to install when a tool that the build needs is missing. Usage: require.sh PYTHON
python=$1
fail() {
    printf 'charonia: %s\n' "$1" >&2
    exit 1
}
command -v "$python" >/dev/null 2>&1 ||
    fail "no '$python' found. Install Python 3.11 or newer, or name it: make PYTHON=/path/to/python3"
"$python" -c 'import sys; sys.exit(sys.version_info < (3, 11))' ||
    fail "'$python' is $("$python" --version 2>&1), but Python 3.11 or newer is needed: make PYTHON=/path/to/python3.11"
"$python" -c 'import venv, ensurepip' 2>/dev/null ||
    fail "'$python' has no venv module. On Debian and Ubuntu: apt-get install python3-venv"
command -v cc >/dev/null 2>&1 || command -v gcc >/dev/null 2>&1 || command -v clang >/dev/null 2>&1 ||
    fail "no C compiler found (the extension is linked with it). On Debian and Ubuntu: apt-get install build-essential"
if ! command -v cargo >/dev/null 2>&1; then
    fail "no cargo found. Install Rust 1.88 or newer (https://rustup.rs)"
fi
