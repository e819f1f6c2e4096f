"""TLS of a front end: the files an operator names, as a context for its sockets."""

import ssl
from dataclasses import dataclass

from inference_runtime.errors import Unavailable


@dataclass(frozen=True, slots=True)
class TlsFiles:
    certificate: str  # PEM, with what leads to its root
    key: str
    root: str = ""  # of the clients' certificates
    mutual: bool = False  # clients must show one

    def context(self) -> ssl.SSLContext:
        """Raises Unavailable when a file can not be used."""
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        context.minimum_version = ssl.TLSVersion.TLSv1_2
        context.set_alpn_protocols(["h2"])
        try:
            context.load_cert_chain(self.certificate, self.key)
            if self.mutual:
                context.load_verify_locations(self.root)
                context.verify_mode = ssl.CERT_REQUIRED
        except OSError as error:  # ssl.SSLError is one
            raise Unavailable(
                f"the certificate, key or root certificate can not be used: {error}"
            ) from error
        return context
