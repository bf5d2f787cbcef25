# shellcheck shell=sh
# The test programs of the workspace, for scripts that start them. Sourced in the folder of the repository.

# Builds all test programs and writes a line for each into the file: suite, folder of its crate, path. A suite is named
# FOLDER:TARGET, such as client-agent:agent, client-agent:lib or tests/e2e:e2e.
build_test_programs() { # file
    ${CARGO:-cargo} test --locked --workspace --tests --no-run --message-format=json-render-diagnostics >"$1.messages"
    target='"manifest_path":"'$PWD'/\([^"]*\)/Cargo.toml","target":{"kind":\["\([a-z]*\)".*"name":"\([^"]*\)","src_path"'
    sed -n "s|^.*$target.*\"profile\":{[^}]*\"test\":true}.*\"executable\":\"\([^\"]*\)\".*|\1 \2 \3 \4|p" "$1.messages" |
        while read -r folder kind name path; do
            case "$kind" in
            test) echo "$folder:$name $folder $path" ;;
            bin) echo "$folder:bin:$name $folder $path" ;;
            *) echo "$folder:lib $folder $path" ;;
            esac
        done | sort >"$1"
    rm "$1.messages"
    [ -s "$1" ]
}
