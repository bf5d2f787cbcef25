# curl and wget: coded and uncoded files, whole, in parts, and resumed after the connection broke off.
for file in noise.bin text.txt negotiated/text.txt packed/file.tar.gz; do
    for option in "" --compressed "-H Accept-Encoding:gzip" "-r 1000-1999"; do
        curl -sS $option -o body "$BASE/$file"
        echo "curl $option $file $? $(sum body)"
    done
    rm -f body
    for try in 1 2; do
        curl -sS -C - -o body "$BASE/cut/curl$WAY/$file" 2> errors
        result=$?
    done
    echo "resumed by curl: $file $result $(sum body)"
    curl -sS --etag-save tag -o body "$BASE/$file"
    curl -sS --etag-compare tag -o body -w "%{http_code} $(sum tag)\n" "$BASE/$file"
    if command -v wget > /dev/null; then
        name=$(basename "$file")
        wget -q --ca-certificate="$CA" --tries=2 --waitretry=0 -c "$BASE/cut/wget$WAY/$file"
        echo "resumed by wget: $file $? $(sum "$name")"
    fi
done
head -c 300000 "$DATA/files/noise.bin" > sent
for option in "-T sent" "--data-binary @sent" "-H Transfer-Encoding:chunked -T sent"; do
    echo "curl $option: $(curl -sS $option "$BASE/upload")"
done
