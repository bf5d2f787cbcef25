# Sourced by the scenarios: BASE is the server, PROXY the agent or empty, CA the trusted certificates, DATA the server's folder.
sum() { if [ -f "$1" ]; then sha256sum < "$1" | cut -c 1-16; else echo none; fi; }
