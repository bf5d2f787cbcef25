#!/bin/sh
# Compares docs/grafana/longhaul.json with the schema of Grafana, whose package contains it as types. Needs Node and npm, and
# the network for two packages.
set -eu
cd "$(dirname "$0")/.."
# The options of the single panels are no part of the schema.
SCHEMA=13.2.3
TYPESCRIPT=7.0.2

work=$(mktemp -d "${TMPDIR:-/tmp}/longhaul-grafana-XXXXXX")
trap 'rm -rf "$work"' EXIT
{
    echo 'import type { Dashboard } from "@grafana/schema";'
    # A literal, so that the compiler also refuses fields that the schema does not have.
    echo 'export const dashboard: Dashboard ='
    cat docs/grafana/longhaul.json
} >"$work/dashboard.ts"
cat >"$work/tsconfig.json" <<'JSON'
{
  "compilerOptions": {
    "strict": true, "noEmit": true, "module": "nodenext", "skipLibCheck": true, "types": []
  },
  "files": ["dashboard.ts"]
}
JSON
cd "$work"
echo '{"private": true}' >package.json
npm install --ignore-scripts --no-audit --no-fund --loglevel=error \
    "@grafana/schema@$SCHEMA" "typescript@$TYPESCRIPT" >/dev/null
npx tsc --project .
echo "docs/grafana/longhaul.json follows the schema of Grafana $SCHEMA"
