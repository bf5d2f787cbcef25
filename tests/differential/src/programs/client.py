"""Loads the URLs of its input with urllib, and says what came."""
import hashlib
import json
import sys
import urllib.error
import urllib.request


def load(url):
    try:
        try:
            answer = urllib.request.urlopen(url, timeout=5)
        except urllib.error.HTTPError as error:
            answer = error
        body = answer.read()
    except Exception as error:
        return {"outcome": "failed", "error": f"{type(error).__name__} {error}"}
    fields = {"proxy-status": answer.headers.get("proxy-status", "")}
    for name in ("content-encoding", "content-type", "etag", "x-a"):
        if name in answer.headers:
            fields[name] = answer.headers[name]
    return {
        "outcome": "whole",
        "status": answer.status,
        "fields": fields,
        "length": len(body),
        "body": hashlib.sha256(body).hexdigest(),
    }


for line in sys.stdin:
    print(json.dumps(load(line.strip())), flush=True)
