#!/bin/sh
# Writes an image of the gateway as an OCI archive (image-spec 1.1: an image layout in a tar file), from its package.
# The image contains the program of the package, the C library that it is linked with, and a user; nothing else: the
# program has the certificates of public authorities within. The same input gives the same bytes.
set -eu
umask 022

package=$(realpath "${1:?usage: $0 PACKAGE.deb IMAGE.tar}")
image=$(realpath -m "${2:?usage: $0 PACKAGE.deb IMAGE.tar}")
export LC_ALL=C TZ=UTC
epoch=${SOURCE_DATE_EPOCH:-0}
version=$(dpkg-deb -f "$package" Version)
# Debian's names of architectures are those of OCI, where they have the same number of bits.
architecture=$(dpkg-deb -f "$package" Architecture)
user=65532
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
root=$work/root
layout=$work/layout
mkdir -p "$root/etc/longhaul" "$root/usr/bin" "$root/usr/share/doc" "$root/var/lib/longhaul-gateway" "$layout/blobs/sha256"

dpkg-deb -x "$package" "$work/package"
cp "$work/package/usr/bin/longhaul-gateway" "$root/usr/bin/"
cp -r "$work/package/usr/share/doc/longhaul-gateway" "$root/usr/share/doc/"
# The settings of the package, which name the state directory.
cp "$work/package/etc/longhaul/gateway.toml" "$root/etc/longhaul/"
echo "longhaul-gateway:x:$user:$user:Longhaul gateway:/var/lib/longhaul-gateway:/nonexistent" >"$root/etc/passwd"
echo "longhaul-gateway:x:$user:" >"$root/etc/group"

# The loader and the libraries, at the places where the program looks for them.
ldd "$root/usr/bin/longhaul-gateway" | grep -o '/[^ ]*' | sort -u | while read -r library; do
    mkdir -p "$root$(dirname "$library")"
    cp -L "$library" "$root$library"
    chmod 755 "$root$library"
done
cp /usr/share/doc/libc6/copyright "$root/usr/share/doc/libc6.copyright"

archive() { # tar file, folder, paths...
    file=$1
    folder=$2
    shift 2
    tar --format=gnu --sort=name --mtime="@$epoch" --numeric-owner --owner=0 --group=0 -C "$folder" -cf "$file" "$@"
}

blob() { # file; prints its digest and moves it into the layout
    digest=$(sha256sum "$1" | cut -d ' ' -f 1)
    mv "$1" "$layout/blobs/sha256/$digest"
    echo "$digest"
}

size() { # digest
    stat -c %s "$layout/blobs/sha256/$1"
}

chmod 700 "$root/var/lib/longhaul-gateway"
archive "$work/layer.tar" "$root" --exclude=./var/lib/longhaul-gateway .
tar --format=gnu --mtime="@$epoch" --numeric-owner --owner=$user --group=$user -C "$root" -rf "$work/layer.tar" \
    ./var/lib/longhaul-gateway
unpacked=$(sha256sum "$work/layer.tar" | cut -d ' ' -f 1)
gzip -n -9 "$work/layer.tar"
layer=$(blob "$work/layer.tar.gz")

created=$(date -u -d "@$epoch" +%Y-%m-%dT%H:%M:%SZ)
cat >"$work/config" <<JSON
{"created":"$created","architecture":"$architecture","os":"linux","config":{"User":"$user:$user","ExposedPorts":{"4433/udp":{}},"Entrypoint":["/usr/bin/longhaul-gateway"],"Cmd":["run"],"WorkingDir":"/var/lib/longhaul-gateway","Volumes":{"/var/lib/longhaul-gateway":{}},"StopSignal":"SIGTERM","Labels":{"org.opencontainers.image.title":"longhaul-gateway","org.opencontainers.image.version":"$version","org.opencontainers.image.licenses":"Apache-2.0 OR MIT"}},"rootfs":{"type":"layers","diff_ids":["sha256:$unpacked"]},"history":[{"created":"$created","created_by":"longhaul-gateway $version"}]}
JSON
config=$(blob "$work/config")
cat >"$work/manifest" <<JSON
{"schemaVersion":2,"mediaType":"application/vnd.oci.image.manifest.v1+json","config":{"mediaType":"application/vnd.oci.image.config.v1+json","digest":"sha256:$config","size":$(size "$config")},"layers":[{"mediaType":"application/vnd.oci.image.layer.v1.tar+gzip","digest":"sha256:$layer","size":$(size "$layer")}]}
JSON
manifest=$(blob "$work/manifest")
cat >"$layout/index.json" <<JSON
{"schemaVersion":2,"mediaType":"application/vnd.oci.image.index.v1+json","manifests":[{"mediaType":"application/vnd.oci.image.manifest.v1+json","digest":"sha256:$manifest","size":$(size "$manifest"),"platform":{"architecture":"$architecture","os":"linux"},"annotations":{"org.opencontainers.image.ref.name":"longhaul-gateway:${version%-*}"}}]}
JSON
echo '{"imageLayoutVersion":"1.0.0"}' >"$layout/oci-layout"
archive "$image" "$layout" blobs index.json oci-layout
