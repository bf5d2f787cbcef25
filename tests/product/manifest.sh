#!/bin/sh
# Prints all files of the machine: a line with type, mode, owner, path and target of a link for each, then a line with the
# hash of the contents for each file, then the accounts. What a machine changes by itself is left out.
set -eu
export LC_ALL=C

seen() { # actions of find
    find / -xdev \( -path /proc -o -path /sys -o -path /dev -o -path /run -o -path /tmp -o -path /var/tmp \
        -o -path /product-test -o -path /root -o -path /var/log -o -path /var/cache -o -path /var/lib/dpkg \
        -o -path /var/lib/apt -o -path /var/lib/systemd/random-seed -o -path /var/lib/systemd/timers \
        -o -path /var/lib/systemd/timesync -o -path /var/lib/private -o -path /etc/resolv.conf -o -path /etc/.pwd.lock \
        -o -path /etc/passwd -o -path /etc/group -o -path /etc/shadow -o -path /etc/gshadow \
        -o -path '/etc/*-' \) -prune -o "$@"
}

seen -printf '%p %y %m %u:%g %l\n' | sort
seen -type f -print0 | sort -z | xargs -0 sha256sum
# The account of the gateway stays, by Debian's custom.
for file in passwd group shadow gshadow; do
    sed "/^longhaul-gateway:/d; s|^|$file |" "/etc/$file"
done
