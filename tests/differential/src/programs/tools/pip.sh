# pip: a download whose hash is known.
export PIP_DISABLE_PIP_VERSION_CHECK=1 PIP_NO_CACHE_DIR=1 PIP_CONFIG_FILE=/dev/null
python3 -m pip -q download -d files --require-hashes -r "$DATA/requirements.txt" --index-url "$BASE/simple/" \
    --trusted-host programs.test > output 2>&1
echo "pip $? $(sum files/tool-1.0-py3-none-any.whl)"
