# TLS as servers have it: one port for each way, in front of the odd origin's port for plain HTTP.
# Arguments: the origin's port, a folder for the certificates, the ways as JSON. Prints the ports and the hashes of the keys that browsers trust.
import base64
import hashlib
import json
import socket
import ssl
import struct
import subprocess
import sys
import threading

origin, folder, ways = int(sys.argv[1]), sys.argv[2], json.loads(sys.argv[3])
# No client waits longer for anything.
LIMIT = 20


def openssl(*words):
    done = subprocess.run(["openssl", *words], cwd=folder, capture_output=True, check=False)
    if done.returncode:
        sys.exit(" ".join(words) + ": " + done.stderr.decode())
    return done.stdout


def key(name, *kind):
    openssl("genpkey", *kind, "-out", name + ".key")


def certificate(name, own_key, issuer, extensions, *more, subject=None):
    with open(f"{folder}/{name}.ext", "w", encoding="ascii") as file:
        file.write(extensions)
    subject = "/CN=" + (subject or name) if subject != "" else "/"
    openssl("req", "-new", "-key", own_key + ".key", "-subj", subject, "-out", name + ".csr")
    by = ["-CA", issuer[0] + ".pem", "-CAkey", issuer[1] + ".key", "-CAcreateserial"] if issuer else ["-signkey", own_key + ".key"]
    openssl("x509", "-req", "-in", name + ".csr", "-out", name + ".pem", "-extfile", name + ".ext", *by, *(more or ["-days", "30"]))


AUTHORITY = "basicConstraints=critical,CA:TRUE\nkeyUsage=critical,keyCertSign,cRLSign\n"
NAMES = "subjectAltName=DNS:*.tls.test" + "".join(f",DNS:*.p{index}.tls.test" for index in range(len(ways))) + "\n"
SERVER = "extendedKeyUsage=serverAuth\n"
AIA = "authorityInfoAccess=caIssuers;URI:http://aia.test/between.der\n"


def certificates():
    elliptic = ["-algorithm", "EC", "-pkeyopt", "ec_paramgen_curve:"]
    for name, curve in [("root", "P-256"), ("between", "P-256"), ("leaf", "P-256"), ("bad", "P-256"), ("bad-between", "P-256"), ("p384", "P-384"), ("p521", "P-521")]:
        key(name, *elliptic[:-1], elliptic[-1] + curve)
    key("rsa", "-algorithm", "RSA", "-pkeyopt", "rsa_keygen_bits:2048")
    key("ed25519", "-algorithm", "ED25519")
    certificate("root", "root", None, AUTHORITY)
    certificate("between", "between", ("root", "root"), AUTHORITY)
    narrow = AUTHORITY + "nameConstraints=critical,permitted;DNS:other.test\n"
    for name, own_key in [("between", "between"), ("bad", "bad-between")]:
        # With another key there is no better certificate that could take the place of these.
        certificate(name + "-over", own_key, ("root", "root"), AUTHORITY, "-days", "-1", subject=name)
        certificate(name + "-narrow", own_key, ("root", "root"), narrow, subject=name)
        certificate(name + "-no-authority", own_key, ("root", "root"), "basicConstraints=critical,CA:FALSE\n", subject=name)
    certificate("unknown-root", "bad", None, AUTHORITY)
    by = ("between", "between")
    certificate("leaf", "leaf", by, NAMES + SERVER)
    certificate("leaf-aia", "leaf", by, NAMES + SERVER + AIA)
    certificate("leaf-direct", "leaf", ("root", "root"), NAMES + SERVER)
    certificate("leaf-authority", "leaf", by, NAMES + AUTHORITY)
    certificate("leaf-no-usage", "leaf", by, NAMES)
    certificate("leaf-subject-empty", "leaf", by, "subjectAltName=critical," + NAMES.split("=")[1] + SERVER, subject="")
    certificate("leaf-sha1", "leaf", by, NAMES + SERVER, "-days", "30", "-sha1")
    certificate("leaf-sha512", "leaf", by, NAMES + SERVER, "-days", "30", "-sha512")
    certificate("leaf-long", "leaf", by, NAMES + SERVER, "-days", "5000")
    certificate("leaf-unknown-extension", "leaf", by, NAMES + SERVER + "1.2.3.4.5=critical,ASN1:NULL\n")
    for name in ["rsa", "p384", "p521", "ed25519"]:
        certificate("leaf-" + name, name, by, NAMES + SERVER)
    # Nobody may accept these: they have a key that browsers are not told to trust, and only the gateway knows the root.
    certificate("bad-good", "bad", by, NAMES + SERVER)
    certificate("bad-leaf-over", "bad", by, NAMES + SERVER, "-days", "-1")
    certificate("bad-name", "bad", by, "subjectAltName=DNS:other.test\n" + SERVER)
    certificate("bad-no-name", "bad", by, SERVER, subject="*.tls.test")
    certificate("bad-usage", "bad", by, NAMES + "extendedKeyUsage=clientAuth\n")
    certificate("bad-self", "bad", None, NAMES + SERVER)
    certificate("bad-unknown", "bad", ("unknown-root", "bad"), NAMES + SERVER)
    certificate("bad-below", "bad", ("bad-over", "bad-between"), NAMES + SERVER)
    certificate("bad-below-leaf", "bad", ("bad-good", "bad"), NAMES + SERVER)
    openssl("x509", "-in", "between.pem", "-outform", "DER", "-out", "between.der")


def pin(name):
    return base64.b64encode(hashlib.sha256(openssl("pkey", "-in", name + ".key", "-pubout", "-outform", "DER")).digest()).decode()


def context(way):
    with open(f"{folder}/{way['kind'].replace('/', '-')}.chain", "w", encoding="ascii") as file:
        for name in way["chain"]:
            with open(f"{folder}/{name}.pem", encoding="ascii") as one:
                file.write(one.read())
    made = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    made.minimum_version, made.maximum_version = (getattr(ssl.TLSVersion, version) for version in way["versions"])
    made.set_ciphers(way["ciphers"] + ":@SECLEVEL=0")
    made.load_cert_chain(file.name, f"{folder}/{way['key']}.key")
    if way["group"]:
        made.set_ecdh_curve(way["group"])
    if way["alpn"]:
        made.set_alpn_protocols(way["alpn"])
    if "no-tickets" in way["does"]:
        made.options |= ssl.OP_NO_TICKET
        made.num_tickets = 0
    if "asks" in way["does"] or "demands" in way["does"]:
        made.verify_mode = ssl.CERT_REQUIRED if "demands" in way["does"] else ssl.CERT_OPTIONAL
        made.load_verify_locations(f"{folder}/root.pem")
    return made


def copy(source, target, ends):
    try:
        while data := source.recv(65536):
            target.sendall(data)
    except (OSError, ValueError):
        pass
    ends()


def hello(client):
    # The record with the ClientHello: what comes before would be no TLS.
    head = client.recv(5, socket.MSG_WAITALL)
    client.recv(struct.unpack(">H", head[3:5])[0], socket.MSG_WAITALL)


def serve(client, way, made):
    client.settimeout(LIMIT)
    client.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    does = way["does"]
    if "instead" in way and way["instead"] is not None:
        hello(client)
        client.sendall(bytes(way["instead"]))
        if "reset" in does:
            client.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
        client.close()
        return
    secure = made.wrap_socket(client, server_side=True)
    if "closes-after-handshake" in does:
        secure.close()
        return
    behind = socket.create_connection(("127.0.0.1", origin))
    behind.settimeout(LIMIT)

    def end_of_answer():
        try:
            if "abrupt" not in does:
                # Sends close_notify; waits for that of the client.
                secure.unwrap()
        except (OSError, ValueError):
            pass
        try:
            secure.shutdown(socket.SHUT_RDWR)
        except OSError:
            pass
        secure.close()

    threading.Thread(target=copy, args=(behind, secure, end_of_answer), daemon=True).start()
    copy(secure, behind, behind.close)


def attempt(client, way, made):
    try:
        serve(client, way, made)
    except (OSError, ValueError, struct.error):
        # A handshake that fails is what some ways are for.
        client.close()


def listen(listener, way, made):
    while True:
        client, _ = listener.accept()
        threading.Thread(target=attempt, args=(client, way, made), daemon=True).start()


certificates()
ports = []
for way in ways:
    listener = socket.create_server(("127.0.0.1", 0), backlog=64)
    ports.append(listener.getsockname()[1])
    threading.Thread(target=listen, args=(listener, way, context(way)), daemon=True).start()
print(json.dumps({"ports": ports, "pins": [pin(name) for name in ["leaf", "rsa", "p384", "p521", "ed25519"]]}), flush=True)
# Ends with the process that started it.
sys.stdin.read()
