# Part of the product test (run.sh): the completions work in the shells themselves.
# shellcheck shell=bash

complete_bash() { # program, word that is begun
    as_ann bash --norc -c '
        . /usr/share/bash-completion/bash_completion
        _completion_loader "$1"
        COMP_WORDS=("$1" "$2") COMP_CWORD=1 COMP_LINE="$1 $2" COMP_POINT=${#COMP_LINE}
        function=$(complete -p "$1" | sed -n "s/.*-F \([^ ]*\) .*/\1/p")
        "$function" "$1" "$2" "$1"
        printf "%s\n" "${COMPREPLY[@]}"' bash "$1" "$2"
}

# fish makes folders of its own in the home; these are in another place.
complete_fish() {
    as_ann env XDG_CONFIG_HOME=/tmp/fish XDG_DATA_HOME=/tmp/fish fish -c 'complete -C "$argv[1] $argv[2]"' "$1" "$2" | cut -f 1
}

# A real terminal of zsh: the word that is begun is completed as by the tab key.
complete_zsh() { # program, word that is begun, its unique end
    as_ann env TERM=dumb timeout 60 zsh -f -c '
        zmodload zsh/zpty
        zpty shell zsh -f -i
        zpty -w shell "PS1=; autoload -Uz compinit; compinit -u -d /tmp/zcompdump; bindkey \"^I\" complete-word; echo ready-\$((40 + 2))"
        zpty -r shell text "*ready-42*" || exit 1
        zpty -w -n shell "$1 $2"$'"'\t'"'
        zpty -r shell text "*$3*" || exit 1
        zpty -d shell
        print -r -- "$text"' zsh "$1" "$2" "$3"
}

use_completions() {
    local program word rest shell
    while read -r program word rest; do
        for shell in bash fish; do
            "complete_$shell" "$program" "$word" | grep -qx "$word$rest" || fail "$shell does not complete: $program $word"
        done
        complete_zsh "$program" "$word" "$rest" | grep -q "$rest" || fail "zsh does not complete: $program $word"
    done <<WORDS
longhaul unins tall
longhaul doc tor
longhaul-agent check-g ateway
longhaul-gateway check-c onfig
WORDS
    inside rm -rf /tmp/zcompdump /tmp/fish
    ok "bash, fish and zsh complete the commands"
}
