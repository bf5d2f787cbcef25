# npm: install from a registry, and again from the lock file.
export npm_config_cache="$PWD/cache" npm_config_cafile="$CA" npm_config_registry="$BASE/npm/" npm_config_audit=false \
    npm_config_fund=false npm_config_fetch_retries=0 npm_config_update_notifier=false npm_config_userconfig="$PWD/npmrc"
if [ -n "$PROXY" ]; then export npm_config_proxy="$PROXY" npm_config_https_proxy="$PROXY"; fi
mkdir package
cd package
echo '{"name": "judge", "version": "1.0.0"}' > package.json
npm install tool > output 2>&1
echo "install $? $(sum node_modules/tool/noise)"
rm -rf node_modules ../cache
npm ci > output 2>&1
echo "install from the lock file $? $(sum node_modules/tool/noise)"
