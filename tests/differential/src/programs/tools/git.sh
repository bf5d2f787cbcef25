# git over smart http: clone, shallow clone, push of more than the buffer of one request.
export HOME="$PWD" GIT_CONFIG_NOSYSTEM=1 GIT_TERMINAL_PROMPT=0 GIT_AUTHOR_DATE=2026-01-01T00:00:00Z GIT_COMMITTER_DATE=2026-01-01T00:00:00Z
git config --global user.name judge
git config --global user.email judge@programs.test
git config --global init.defaultBranch main
git config --global http.postBuffer 65536
git init -q --bare "$DATA/git/$WAY.git"
git -C "$DATA/git/$WAY.git" config http.receivepack true
git clone -q "$BASE/git/$WAY.git" first 2> errors
echo "clone of an empty repository $?"
cd first
for number in 1 2 3 4; do
    cp "$DATA/files/noise.bin" "file$number"
    echo "$number" >> "file$number"
    git add .
    git commit -q -m "$number"
done
git push -q origin main
echo "push $? $(git -C "$DATA/git/$WAY.git" rev-parse main)"
cd ..
git clone -q "$BASE/git/$WAY.git" second
echo "clone $? $(git -C second rev-parse HEAD) $(sum second/file4)"
git clone -q --depth 1 "$BASE/git/$WAY.git" third
git -C third fetch -q --unshallow
echo "shallow clone and the rest $? $(git -C third rev-list --count HEAD)"
git clone -q "$BASE/git/none.git" fourth 2> errors
echo "clone of nothing $?"
