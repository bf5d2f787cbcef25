#!/bin/sh
# Builds the packages into target/packages/out: packages for Debian, their debug symbols, an OCI image of the gateway,
# and lists of the parts of each program (SBOM).
#
# PACKAGE_PROFILE is the build profile: release; demo, which is sooner built; or dev, for tests of the packages. Packages
# of the release profile are equal, byte by byte, wherever they are built from a commit with the same toolchain and
# system libraries (scripts/packages-equal.sh).
set -eu
umask 022
cd "$(dirname "$0")/.."

profile=${PACKAGE_PROFILE:-release}
cargo=${CARGO:-cargo}
root=$PWD
target=${CARGO_TARGET_DIR:-$root/target}
case $target in /*) ;; *) target=$root/$target ;; esac
stage=$root/target/packages
out=$stage/out
version=$(sed -n '/^\[workspace.package\]/,/^\[/s/^version = "\(.*\)"/\1/p' Cargo.toml)

LONGHAUL_COMMIT=${LONGHAUL_COMMIT-$(scripts/commit.sh)}
# The time of the commit, or the day of the release if there is no repository.
released=$(sed -n "s/^## $version - //p" CHANGELOG.md | head -n 1)
SOURCE_DATE_EPOCH=${SOURCE_DATE_EPOCH:-$(git log -1 --format=%ct 2>/dev/null || date -u -d "${released:-1970-01-01}" +%s)}
export LONGHAUL_COMMIT SOURCE_DATE_EPOCH LC_ALL=C TZ=UTC

# Folders and programs that the packages contain.
programs() {
    echo "installer longhaul
client-agent longhaul-agent
server-gateway longhaul-gateway
tests/lab/bench longhaul-bench"
}

compile() {
    if [ "$profile" = dev ]; then
        # The features of the whole workspace, for which `make test` has compiled the crates.
        "$cargo" build --locked --workspace --bin longhaul --bin longhaul-agent --bin longhaul-gateway \
            --bin longhaul-bench --bin longhaul-manuals
        # cargo-deb takes programs from release folders only.
        built=$stage/dev/release
        mkdir -p "$built"
        for program in longhaul longhaul-agent longhaul-gateway longhaul-bench longhaul-manuals; do
            cp "$target/debug/$program" "$built/"
        done
        return
    fi
    if [ "$profile" = release ]; then
        # Names of folders must not get into the programs.
        home=${CARGO_HOME:-$HOME/.cargo}
        for map in "$root=/usr/src/longhaul" "$target=/usr/src/target" "$home=/usr/src/cargo"; do
            RUSTFLAGS="${RUSTFLAGS:-} --remap-path-prefix=$map"
            CFLAGS="${CFLAGS:-} -ffile-prefix-map=$map"
        done
        export RUSTFLAGS CFLAGS
    fi
    "$cargo" build --locked --profile "$profile" -p longhaul -p longhaul-agent -p longhaul-gateway -p longhaul-bench \
        -p longhaul-manuals
    built=$target/$profile
}

# Files that are made from the source: manual pages, completions, the user service, changelogs.
documents() {
    rm -rf "$stage/manuals"
    "$built/longhaul-manuals" "$stage/manuals"
    sed 's|@COMMAND@|/usr/bin/longhaul-agent run|' installer/assets/longhaul-agent.service >"$stage/longhaul-agent.service"
    cp CHANGELOG.md "$stage/CHANGELOG.md"
    for package in longhaul longhaul-gateway longhaul-bench; do
        printf '%s (%s-1) stable; urgency=medium\n\n  * Version %s: see changelog.gz.\n\n -- %s  %s\n' \
            "$package" "$version" "$version" "$(maintainer)" "$(date -R -d "@$SOURCE_DATE_EPOCH")" \
            >"$stage/$package.changelog"
    done
}

maintainer() {
    sed -n 's/^maintainer = "\(.*\)"/\1/p' installer/Cargo.toml
}

# Licences of the crates in each program, and of the dictionaries. They are read from the files of the crates alone, so that
# the notices of a commit are always equal, and change only with the dependencies.
notices() {
    mkdir -p "$stage/notices"
    state=$(cat Cargo.lock installer/packages/about.toml installer/packages/notices.hbs \
        cache/codec/src/dictionary/LICENSES | sha256sum)
    if [ "$(cat "$stage/notices/made-from" 2>/dev/null)" = "$state" ]; then
        return
    fi
    # cargo-about reads the dependencies for all systems; a build has downloaded those for this one only.
    "$cargo" fetch --locked
    programs | while read -r folder program; do
        file=$stage/notices/$program.txt
        "$cargo" about generate --frozen --fail --manifest-path "$folder/Cargo.toml" \
            -c installer/packages/about.toml installer/packages/notices.hbs -o "$file"
        if [ "$program" != longhaul ]; then
            printf '\n%080d\nDictionaries\n\n' 0 | tr 0 = >>"$file"
            cat cache/codec/src/dictionary/LICENSES >>"$file"
        fi
    done
    echo "$state" >"$stage/notices/made-from"
}

# The parts of each program as CycloneDX, without names of this machine's folders.
parts() {
    file=parts-of-package
    "$cargo" cyclonedx --quiet --format json --spec-version 1.5 --no-build-deps --target x86_64-unknown-linux-gnu \
        --override-filename $file
    programs | while read -r folder program; do
        sed "s|$root|/usr/src/longhaul|g" "$folder/$file.json" >"$out/${program}_$version.cdx.json"
    done
    # The tool writes beside the manifests of all crates.
    find . -name "$file.json" -not -path './target/*' -delete
}

debs() {
    flags="--profile $profile --dbgsym"
    [ "$profile" = release ] || flags="$flags --fast"
    [ "$profile" != dev ] || flags="--no-dbgsym --strip --fast"
    for package in longhaul longhaul-gateway longhaul-bench; do
        # shellcheck disable=SC2086 # a list of flags
        CARGO_TARGET_DIR=$(dirname "$built") "$cargo" deb --quiet --no-build --locked $flags -p "$package" --output "$out/"
    done
}

rm -rf "$out"
mkdir -p "$out"
compile
documents
notices
debs
parts
scripts/oci-image.sh "$out"/longhaul-gateway_*.deb "$out/longhaul-gateway_${version}.oci.tar"
(cd "$out" && sha256sum -- * >SHA256SUMS)
ls -l "$out"
