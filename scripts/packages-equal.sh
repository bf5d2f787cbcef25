#!/bin/sh
# Proves that packages are reproducible: builds this commit in two folders with different names and target folders, and
# compares the results byte by byte.
set -eu
cd "$(dirname "$0")/.."
commit=$(git rev-parse HEAD)
work=$(mktemp -d "${TMPDIR:-/tmp}/longhaul-equal-XXXXXX")
trap 'rm -rf "$work"' EXIT
for copy in one another-folder; do
    git clone --quiet --no-hardlinks . "$work/$copy/source"
    git -C "$work/$copy/source" checkout --quiet "$commit"
    (cd "$work/$copy/source" && CARGO_TARGET_DIR="$work/$copy/target" scripts/packages.sh >/dev/null)
    # The second build must not find the first one.
    mv "$work/$copy/source/target/packages/out" "$work/$copy/out"
    rm -rf "$work/$copy/source" "$work/$copy/target"
done
diff "$work/one/out/SHA256SUMS" "$work/another-folder/out/SHA256SUMS"
cat "$work/one/out/SHA256SUMS"
echo "the packages of $commit are equal"
