#!/bin/bash
# Runs the OCI image of the gateway as its user in a container without network, makes an invite in it, and stops it.
# usage: image.sh IMAGE.oci.tar   Needs root, umoci and runc.
set -euo pipefail
image=$(realpath "$1")
work=$(mktemp -d)
name=longhaul-image-$$
runc() {
    command runc --root "$work/state" "$@"
}
clean() {
    runc delete --force "$name" 2>/dev/null || true
    rm -rf "$work"
}
trap clean EXIT

mkdir "$work/layout"
tar -C "$work/layout" -xf "$image"
reference=$(umoci ls --layout "$work/layout")
umoci unpack --image "$work/layout:$reference" "$work/bundle" >/dev/null
# The volume: umoci makes a folder of root of it, other programs the folder of the image. Limits are those of the test.
node -e '
    const fs = require("fs"), file = process.argv[1], config = JSON.parse(fs.readFileSync(file));
    config.mounts = config.mounts.filter((mount) => mount.destination !== "/var/lib/longhaul-gateway");
    delete config.process.rlimits;
    config.process.terminal = false;
    fs.writeFileSync(file, JSON.stringify(config));
' "$work/bundle/config.json"

runc run --bundle "$work/bundle" "$name" >"$work/log" 2>&1 &
gateway=$!
for _ in $(seq 100); do
    grep -q '^ready ' "$work/log" && break
    kill -0 "$gateway" 2>/dev/null || { cat "$work/log" >&2; exit 1; }
    sleep 0.2
done
[ "$(stat -c %u "$work/bundle/rootfs/var/lib/longhaul-gateway/gateway.key")" -eq 65532 ]
runc exec "$name" /usr/bin/longhaul-gateway invite --name laptop --address 127.0.0.1:4433 | grep -q '^longhaul1:'
runc kill "$name" TERM
wait "$gateway" || { cat "$work/log" >&2; exit 1; }
