#!/bin/sh
# Builds the operators' page from web/ into the package (service/page); does nothing when that was done before.
set -eu
cd "$(dirname "$0")/.."

say() { printf 'web: %s\n' "$*"; }

if ! command -v npm >/dev/null || ! node -e 'const [a, b] = process.versions.node.split(".").map(Number)
process.exit(a > 20 || (a === 20 && b >= 19) ? 0 : 1)'; then
    say "the page is not built: Node.js 20.19 or newer with npm is needed once; the API works without it"
    exit 0
fi

stamp=web/node_modules/.built-from
wanted=$(find web openapi.json -type d -name node_modules -prune -o -type f ! -path web/src/api/schema.d.ts -print |
    LC_ALL=C sort | xargs cksum | cksum)
if [ -f service/page/index.html ] && [ "$(cat "$stamp" 2>/dev/null)" = "$wanted" ]; then exit 0; fi
say "building the page"
cd web
if ! npm ci --silent --no-audit --no-fund || ! npm run --silent build >/dev/null; then
    say "the page could not be built; the API works without it"
    exit 0
fi
cd ..
echo "$wanted" >"$stamp"
