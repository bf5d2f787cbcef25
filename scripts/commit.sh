#!/bin/sh
# Prints the commit of the source, with `-dirty` if tracked files were changed since; nothing outside of a repository.
cd "$(dirname "$0")/.."
git describe --always --abbrev=40 --exclude='*' --dirty 2>/dev/null || true
