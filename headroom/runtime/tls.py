"""TLS contexts that trust an authority which a cluster or a user names."""

import ssl
from pathlib import Path


def context(
    authority_file: Path | str | None = None,
    authority_text: str | None = None,
    purpose: ssl.Purpose = ssl.Purpose.SERVER_AUTH,
) -> ssl.SSLContext:
    """Return Python's default context, which trusts the given authority, else those of the system.

    From Python 3.13 on, defaults require extensions that public authorities have, such as key identifiers. Authorities
    of clusters often lack them, and kubectl accepts those.

    Raises:
        OSError, ValueError: the authority cannot be read; `ssl.SSLError` is an OSError.
    """
    result = ssl.create_default_context(purpose, cafile=authority_file, cadata=authority_text)
    if authority_file or authority_text:
        result.verify_flags &= ~ssl.VERIFY_X509_STRICT
    return result
