"""A proxy on 127.0.0.1 that connects any host to one loopback server, and a certificate that only the test trusts."""

import ipaddress
import socket
import socketserver
import ssl
import threading
from contextlib import suppress
from datetime import UTC, datetime, timedelta
from pathlib import Path
from urllib.parse import urlsplit

from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec


class LoopbackProxy(socketserver.ThreadingTCPServer):
    """Forwards requests and tunnels to a server, inside a `with`; `seen` has the readable part of each."""

    daemon_threads = True

    def __init__(self, server_url: str) -> None:
        super().__init__(("127.0.0.1", 0), _Connection)
        self.server_port = urlsplit(server_url).port
        self.url = f"http://127.0.0.1:{self.server_address[1]}"
        self.seen: list[str] = []

    def __enter__(self) -> "LoopbackProxy":
        self._thread = threading.Thread(target=self.serve_forever, kwargs={"poll_interval": 0.05}, daemon=True)
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self.shutdown()
        self._thread.join()
        self.server_close()


class _Connection(socketserver.BaseRequestHandler):
    server: LoopbackProxy

    def handle(self) -> None:
        client: socket.socket = self.request
        head = client.recv(2**16)
        while b"\r\n\r\n" not in head:
            head += client.recv(2**16)
        self.server.seen.append(head.decode("latin-1"))
        method, target, _ = head.split(b" ", 2)
        with socket.create_connection(("127.0.0.1", self.server.server_port)) as judge:
            if method == b"CONNECT":
                client.sendall(b"HTTP/1.1 200 Connected\r\n\r\n")
            else:  # A server that is no proxy expects only the path.
                origin = b"http://" + urlsplit(target).netloc
                judge.sendall(head.replace(origin, b"", 1))
            back = threading.Thread(target=pass_on, args=(judge, client), daemon=True)
            back.start()
            pass_on(client, judge)
            back.join()


def pass_on(source: socket.socket, target: socket.socket) -> None:
    """Copy data until the source ends."""
    with suppress(OSError):
        while data := source.recv(2**16):
            target.sendall(data)
        target.shutdown(socket.SHUT_WR)


def own_certificate(folder: Path, *hosts: str) -> tuple[Path, ssl.SSLContext]:
    """Return the file of a self-signed certificate for these hosts, and a server's TLS context with it."""
    key = ec.generate_private_key(ec.SECP256R1())
    name = x509.Name([x509.NameAttribute(x509.NameOID.COMMON_NAME, "Loopback")])
    names = [x509.IPAddress(ipaddress.ip_address(host)) if host[0].isdigit() else x509.DNSName(host) for host in hosts]
    now = datetime.now(UTC)
    certificate = (
        x509.CertificateBuilder(name, name, key.public_key(), x509.random_serial_number())
        .not_valid_before(now - timedelta(hours=1))
        .not_valid_after(now + timedelta(hours=1))
        .add_extension(x509.SubjectAlternativeName(names), critical=False)
        .add_extension(x509.BasicConstraints(ca=True, path_length=0), critical=True)
        .sign(key, hashes.SHA256())
    )
    file, secret = folder / "certificate.pem", folder / "key.pem"
    file.write_bytes(certificate.public_bytes(serialization.Encoding.PEM))
    form = (serialization.PrivateFormat.PKCS8, serialization.NoEncryption())
    secret.write_bytes(key.private_bytes(serialization.Encoding.PEM, *form))
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(file, secret)
    return file, context
