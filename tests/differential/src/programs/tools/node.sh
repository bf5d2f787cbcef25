# The modules http and https of node.
for file in noise.bin text.txt negotiated/text.txt packed/file.tar.gz none; do echo "$BASE/$file"; done | node "$SOURCES/client.js"
echo "node $?"
