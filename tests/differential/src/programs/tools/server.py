"""A server with what package managers, git and downloads ask for, over http and https: makes its files, prints its ports."""
import base64
import gzip
import hashlib
import http.server
import io
import json
import os
import pathlib
import random
import re
import ssl
import subprocess
import sys
import tarfile
import threading
import zipfile

ROOT = pathlib.Path(sys.argv[1]).resolve()
NOISE = random.Random(1).randbytes(400_000)
TEXT = b"".join(b"line %d of a text that compresses\n" % number for number in range(20_000))
CUT_AFTER = 150_000
cut, seen, lock = set(), set(), threading.Lock()


def write(path, data):
    path = ROOT / path
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(data)
    os.utime(path, (1_700_000_000, 1_700_000_000))


def archive(files):
    made = io.BytesIO()
    with tarfile.open(fileobj=made, mode="w:gz") as tar:
        for name, data in files.items():
            entry = tarfile.TarInfo(name)
            entry.size = len(data)
            tar.addfile(entry, io.BytesIO(data))
    return made.getvalue()


def make_files():
    write("files/noise.bin", NOISE)
    write("files/text.txt", TEXT)
    write("files/file.tar.gz", archive({"text": TEXT, "noise": NOISE}))
    make_apt()
    make_pip()
    make_npm()


def make_apt():
    write("files/apt/pool/tool_1.0_all.deb", NOISE)
    index = (
        "Package: tool\nVersion: 1.0\nArchitecture: all\nMaintainer: a <a@b.test>\nDescription: tool\n"
        f"Filename: pool/tool_1.0_all.deb\nSize: {len(NOISE)}\nSHA256: {hashlib.sha256(NOISE).hexdigest()}\n"
    ).encode()
    folder, lines = "files/apt/dists/stable/", []
    for name, data in (("Packages", index), ("Packages.gz", gzip.compress(index, mtime=0))):
        digest = hashlib.sha256(data).hexdigest()
        write(f"{folder}main/binary-all/{name}", data)
        write(f"{folder}main/binary-all/by-hash/SHA256/{digest}", data)
        lines.append(f" {digest} {len(data)} main/binary-all/{name}\n")
    head = "Suite: stable\nCodename: stable\nAcquire-By-Hash: yes\nDate: Sat, 28 Nov 2026 00:00:00 UTC\nArchitectures: all\nComponents: main\nSHA256:\n"
    write(folder + "Release", (head + "".join(lines)).encode())


def make_pip():
    made = io.BytesIO()
    info = "tool-1.0.dist-info/"
    with zipfile.ZipFile(made, "w") as wheel:
        wheel.writestr("tool/data.bin", NOISE)
        wheel.writestr(info + "METADATA", "Metadata-Version: 2.1\nName: tool\nVersion: 1.0\n")
        wheel.writestr(info + "WHEEL", "Wheel-Version: 1.0\nRoot-Is-Purelib: true\nTag: py3-none-any\n")
        wheel.writestr(info + "RECORD", "tool/data.bin,,\n")
    name, digest = "tool-1.0-py3-none-any.whl", hashlib.sha256(made.getvalue()).hexdigest()
    write(f"files/simple/tool/{name}", made.getvalue())
    write("files/simple/tool/index.html", f'<!doctype html><a href="{name}#sha256={digest}">{name}</a>'.encode())
    write("requirements.txt", f"tool==1.0 --hash=sha256:{digest}\n".encode())


def make_npm():
    package = {"name": "tool", "version": "1.0.0"}
    data = archive({"package/package.json": json.dumps(package).encode(), "package/noise": NOISE})
    write("files/npm/tool-1.0.0.tgz", data)
    digest = base64.b64encode(hashlib.sha512(data).digest()).decode()
    package["dist"] = {"tarball": "BASE/npm/tool-1.0.0.tgz", "integrity": "sha512-" + digest}
    whole = {"name": "tool", "dist-tags": {"latest": "1.0.0"}, "versions": {"1.0.0": package}}
    write("files/npm/tool", json.dumps(whole).encode())


class Handler(http.server.BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"

    def log_message(self, *_):
        pass

    def do_HEAD(self):
        self.do_GET()

    def do_GET(self):
        self.note()
        path = self.path.split("?")[0]
        if path == "/seen":
            with lock:
                lines = sorted(seen)
            return self.send(200, {}, json.dumps(lines).encode())
        if path.startswith("/git/"):
            return self.git()
        # The first download for each key breaks off.
        key = re.match(r"/cut/[^/]+", path)
        path = path[key.end() :] if key else path
        name, coding = path, None
        if path.startswith("/negotiated/"):
            name = path.removeprefix("/negotiated")
            coding = "gzip" if "gzip" in self.headers.get("Accept-Encoding", "") else None
        elif path.startswith("/packed/"):
            name, coding = path.removeprefix("/packed"), "x-gzip"
        file = (ROOT / "files" / name.lstrip("/")).resolve()
        file = file / "index.html" if file.is_dir() else file
        if not file.is_relative_to(ROOT / "files") or not file.is_file():
            return self.send(404, {}, b"no such file\n")
        data = file.read_bytes()
        if name == "/npm/tool":
            scheme = "https" if isinstance(self.connection, ssl.SSLSocket) else "http"
            data = data.replace(b"BASE", f"{scheme}://{self.headers['Host']}".encode())
        if coding == "gzip":
            data = gzip.compress(data, mtime=0)
        self.represent(data, file.suffix, coding, self.path if key else None)

    def represent(self, data, suffix, coding, key):
        tag = '"' + hashlib.sha256(data).hexdigest()[:16] + '"'
        kinds = {".html": "text/html", ".txt": "text/plain"}
        fields = {
            "ETag": tag,
            "Last-Modified": "Tue, 14 Nov 2023 22:13:20 GMT",
            "Accept-Ranges": "bytes",
            "Vary": "Accept-Encoding",
            "Content-Type": kinds.get(suffix, "application/octet-stream"),
        }
        if coding:
            fields["Content-Encoding"] = coding
        modified = self.headers.get("If-Modified-Since")
        if self.headers.get("If-None-Match", tag if modified == fields["Last-Modified"] else "") == tag:
            return self.send(304, fields, b"")
        part = re.fullmatch(r"bytes=(\d+)-(\d*)", self.headers.get("Range", ""))
        if part and self.headers.get("If-Range", tag) in (tag, fields["Last-Modified"]):
            start, end = int(part[1]), int(part[2] or len(data) - 1)
            if start >= len(data):
                return self.send(416, {"Content-Range": f"bytes */{len(data)}"}, b"")
            fields["Content-Range"] = f"bytes {start}-{min(end, len(data) - 1)}/{len(data)}"
            return self.send(206, fields, data[start : end + 1], key)
        self.send(200, fields, data, key)

    def send(self, status, fields, body, key=None):
        self.send_response(status)
        for name, value in fields.items():
            self.send_header(name, value)
        if status != 304:
            self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        with lock:
            breaks = key is not None and key not in cut and len(body) > CUT_AFTER
            cut.update([key] if breaks else [])
        if self.command != "HEAD":
            self.wfile.write(body[:CUT_AFTER] if breaks else body)
        self.close_connection |= breaks

    def note(self):
        with lock:
            way = "proxied" if "Via" in self.headers else "unproxied"
            scheme = "https" if isinstance(self.connection, ssl.SSLSocket) else "http"
            seen.add(f"{scheme} {way} {self.headers.get('User-Agent', 'nobody').split('/')[0]}")

    def body(self):
        if "Content-Length" in self.headers:
            return self.rfile.read(int(self.headers["Content-Length"]))
        pieces = []
        while size := int(self.rfile.readline().split(b";")[0], 16):
            pieces.append(self.rfile.read(size))
            self.rfile.readline()
        self.rfile.readline()
        return b"".join(pieces)

    def do_PUT(self):
        self.note()
        self.send(201, {"Content-Type": "application/json"}, hashlib.sha256(self.body()).hexdigest().encode())

    def do_POST(self):
        self.note()
        return self.git(self.body()) if self.path.startswith("/git/") else self.do_PUT()

    def git(self, body=b""):
        path, _, query = self.path.partition("?")
        values = {
            "GIT_PROJECT_ROOT": str(ROOT / "git"),
            "GIT_HTTP_EXPORT_ALL": "1",
            "PATH_INFO": path.removeprefix("/git"),
            "QUERY_STRING": query,
            "REQUEST_METHOD": self.command,
            "CONTENT_TYPE": self.headers.get("Content-Type", ""),
            "CONTENT_LENGTH": str(len(body)),
            "HTTP_CONTENT_ENCODING": self.headers.get("Content-Encoding", ""),
            "GIT_PROTOCOL": self.headers.get("Git-Protocol", ""),
            "REMOTE_USER": "judge",
            "REMOTE_ADDR": "127.0.0.1",
            "HOME": str(ROOT),
            "PATH": os.environ["PATH"],
        }
        pipes = {"stdout": subprocess.PIPE, "stderr": subprocess.DEVNULL}
        answer = subprocess.run(["git", "http-backend"], input=body, env=values, **pipes).stdout
        head, _, body = answer.partition(b"\r\n\r\n")
        fields = dict(line.split(": ", 1) for line in head.decode().split("\r\n"))
        self.send(int(fields.pop("Status", "200").split()[0]), fields, body)


def listen(context):
    server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    if context:
        server.socket = context.wrap_socket(server.socket, server_side=True, do_handshake_on_connect=False)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    return server.server_port


make_files()
secure = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
secure.load_cert_chain(*sys.argv[2:4])
secure.set_alpn_protocols(["http/1.1"])
print(listen(None), listen(secure), flush=True)
# Ends with the judge, which holds the other end.
sys.stdin.read()
