"""Real certificates, made by the openssl program."""

import subprocess


SERVER_NAMES = "DNS:localhost,IP:127.0.0.1"


def _openssl(*words, command=()):
    subprocess.run([*command, "openssl", *map(str, words)], check=True, capture_output=True)


class Authority:
    """Signs certificates. `pem` is its own, in `folder`; `names` are its alternative names. `command`: the words before
    those of each openssl, which may change its clock."""

    def __init__(self, folder, name="authority", names=None, command=()):
        folder.mkdir(exist_ok=True)
        self.folder, self.command = folder, command
        self.pem, self.key = folder / f"{name}.pem", folder / f"{name}.key"
        _openssl(
            "req", "-x509", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:P-256", "-nodes", "-days", 2,
            "-subj", f"/CN={name}", "-keyout", self.key, "-out", self.pem,
            *(("-addext", f"subjectAltName={names}") if names else ()),
            command=command,
        )

    def issue(self, name, names=SERVER_NAMES, days=2, usage=None):
        """A certificate and its key; `names` are its alternative names; days of -1: it has expired; `usage` is its
        extended key usage."""
        pem, key, request = (self.folder / f"{name}.{ending}" for ending in ("pem", "key", "csr"))
        extensions = self.folder / f"{name}.ext"
        extensions.write_text(
            (f"subjectAltName={names}\n" if names else "") + (f"extendedKeyUsage={usage}\n" if usage else "")
        )
        _openssl(
            "req", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:P-256", "-nodes",
            "-subj", f"/CN={name}", "-keyout", key, "-out", request,
            command=self.command,
        )
        _openssl(
            "x509", "-req", "-in", request, "-CA", self.pem, "-CAkey", self.key, "-CAcreateserial",
            "-days", days, "-extfile", extensions, "-out", pem,
            command=self.command,
        )
        return pem, key


def encrypted(key, folder):
    """A copy of `key` with a passphrase."""
    locked = folder / "locked.key"
    _openssl("pkcs8", "-topk8", "-in", key, "-passout", "pass:sesame", "-out", locked)
    return locked


def cut(path, folder):
    """A copy of `path` of which only the first half was written."""
    half = folder / f"half-{path.name}"
    text = path.read_text()
    half.write_text(text[: len(text) // 2])
    return half
