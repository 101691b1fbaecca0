#!/bin/sh
# Installs what some tests need beside Python: a browser for the live page, a Redis for its cache. Where that can't be done
# the tests that need it are skipped, and this says so.
missing=
command -v chromium >/dev/null 2>&1 || command -v google-chrome >/dev/null 2>&1 || missing="chromium"
command -v redis-server >/dev/null 2>&1 || missing="$missing redis-server"
[ -z "$missing" ] && exit 0
if [ "$(id -u)" = 0 ] && command -v apt-get >/dev/null 2>&1; then
    printf '\033[1m== Installing %s for the tests\033[0m\n' "$missing"
    # shellcheck disable=SC2086 - a list of packages
    { apt-get update -qq && DEBIAN_FRONTEND=noninteractive apt-get install -y -qq --no-install-recommends $missing; } \
        >/dev/null 2>&1 && exit 0
fi
printf 'charonia: without %s some tests are skipped (apt-get install %s)\n' "$missing" "$missing" >&2
