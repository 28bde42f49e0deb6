#!/bin/sh
# Builds the page into service/page, from where the service serves it; does nothing when these sources were built before.
# usage: tools/build_web.sh [needed]    with "needed" it is a failure when it cannot; else that is said, and the API works
set -eu
cd "$(dirname "$0")/.."
needed=${1:-}
stamp=service/page/built

say() { printf 'web: %s\n' "$*"; }

give_up() {
    say "$1, so the page is not built; the API works without it."
    say "$2, then run: make web"
    [ "$needed" != needed ] || exit 1
    exit 0
}

sources() {
    find web openapi.json -path web/node_modules -prune -o -type f \
        ! -path web/src/api/schema.d.ts ! -path web/src/api/forms.json -print0 | sort -z | xargs -0 cksum | cksum
}

# Quiet while all is well; what failed, and why, is shown.
build() {
    said=$( (tools/node_modules.sh && cd web && npm run --silent build) 2>&1 ) && return
    code=$?
    printf '%s\n' "$said" | tail -n 20
    return "$code"
}

wanted=$(sources)
if [ "$(cat "$stamp" 2>/dev/null)" = "$wanted" ]; then exit 0; fi
unfit=$(tools/node_modules.sh check) || give_up "$unfit" "Install Node.js 20.19 or newer with npm"
say "building the page"
build || give_up "the build failed" "See what is said above"
echo "$wanted" >"$stamp"
say "built"
