"""Where the API server is and how to log in there: a pod's service account, or a kubeconfig."""

import os
import ssl
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final, TypeAlias
from urllib.parse import quote

from headroom.kube.errors import LoginError
from headroom.kube.proxies import proxy_for
from headroom.runtime import tls

ActsAs: TypeAlias = tuple[tuple[str, str], ...]  # headers of impersonation

SERVICE_ACCOUNT: Final = Path("/var/run/secrets/kubernetes.io/serviceaccount")
"""Where kubelet mounts a pod's token, certificate authority and namespace."""

_TOKEN_LIFETIME_SECONDS: Final = 60.0


@dataclass(frozen=True)
class Connection:
    """A login that is ready for use."""

    server: str  # URL of the API server, without a slash at the end
    tls: ssl.SSLContext | None  # certificates to check and to show; None for plain http
    authorization: Callable[[], str | None]
    """The current Authorization header; may read a file or run a program, so it is called in a thread."""
    forget_authorization: Callable[[], None] = field(default=lambda: None)
    """Called after a 401: the next `authorization` is a fresh one."""
    renewed: Callable[[], "Connection"] | None = None
    """Reads the whole login again from where it was found, authority and certificates too; None: it cannot change.
    Called in a thread, after a 401 and when the server's certificate is refused. Raises `LoginError`."""
    server_hostname: str | None = None  # the name in the server's certificate, where it is not the URL's
    proxy: str | None = None  # URL of the proxy in the kubeconfig
    namespace: str | None = None  # namespace of the pod or of the kubeconfig's context
    origin: str = ""  # where the login was found, for messages
    peer: str = "API server"  # the kind of server, for messages
    acts_as: ActsAs = ()  # the user to impersonate, where the kubeconfig names one

    @property
    def proxy_in_use(self) -> str | None:
        """Return the proxy of the kubeconfig, for which NO_PROXY does not count, else that of the environment."""
        return self.proxy or proxy_for(self.server)


@dataclass(frozen=True, slots=True)
class Overrides:
    """The parts of a login that flags replace, as those of kubectl do."""

    server: str = ""  # URL of the API server; empty: that of the cluster
    cluster: str = ""  # the cluster of the kubeconfig; empty: that of the context
    user: str = ""  # the user of the kubeconfig; empty: that of the context
    token: str = ""  # bearer token; empty: the login of the user
    insecure: bool = False  # whether the server's certificate is not verified

    @property
    def authorization(self) -> str | None:
        """The Authorization header of the token; None without one.

        Raises:
            LoginError: no header can hold the token.
        """
        header = bearer(self.token)
        if self.token and header is None:
            raise LoginError("The token of --token must be one line of plain characters.")
        return header


def acts_as(
    user: str | None, groups: Sequence[str] = (), uid: str = "", extra: Mapping[str, Sequence[str]] | None = None
) -> ActsAs:
    """The headers of impersonation, see Kubernetes' documentation of "user impersonation".

    Raises:
        LoginError: groups, a uid or facts without a user, which API servers refuse; or a text that no header can hold.
    """
    if not user:
        if groups or uid or extra:
            raise LoginError("Groups to act as need a user to act as: give --as NAME, too.")
        return ()
    result = [("Impersonate-User", user), *(("Impersonate-Group", group) for group in groups)]
    result += [("Impersonate-Uid", uid)] if uid else []
    for name, values in (extra or {}).items():
        result += [(f"Impersonate-Extra-{quote(name, safe='')}", value) for value in values]
    wrong = [text for pair in result for text in pair if not (text.isascii() and text.isprintable())]
    if wrong:
        raise LoginError(f"{wrong[0]!r} cannot be impersonated: names are one line of plain characters.")
    return tuple(result)


def bearer(token: str) -> str | None:
    """Return the Authorization header of a token; None when it is empty or not valid in a header."""
    token = token.strip()
    return f"Bearer {token}" if token.isascii() and token.isprintable() and token else None


class TokenFile:
    """A bearer token in a file that another program renews."""

    def __init__(self, path: Path, clock: Callable[[], float] = time.monotonic) -> None:
        self._path = path
        self._clock = clock
        self._header: str | None = None
        self._read_at = 0.0

    def authorization(self) -> str | None:
        """The header, read again once a minute; the last good one when the file cannot be read."""
        now = self._clock()
        if self._header is None or now - self._read_at >= _TOKEN_LIFETIME_SECONDS:
            try:
                header = bearer(self._path.read_text(encoding="ascii"))
            except (OSError, UnicodeDecodeError):
                header = None
            if header is not None:
                self._header, self._read_at = header, now
        return self._header

    def forget(self) -> None:
        self._read_at = float("-inf")


def in_cluster(folder: Path | None = None) -> Connection:
    """Log in as the pod's service account.

    Args:
        folder: where kubelet mounts it; None for the usual place.

    Raises:
        LoginError: the mounted files or the environment are incomplete.
    """
    host, port = os.environ.get("KUBERNETES_SERVICE_HOST"), os.environ.get("KUBERNETES_SERVICE_PORT", "443")
    if not host:
        raise LoginError("KUBERNETES_SERVICE_HOST is not set: this is not a pod. Give --kubeconfig FILE.")
    folder = folder or SERVICE_ACCOUNT
    token = TokenFile(folder / "token")
    if token.authorization() is None:
        raise LoginError(f"The service account token {folder / 'token'} cannot be read, or is not one line of text.")
    namespace_file = folder / "namespace"
    return Connection(
        server=f"https://[{host}]:{port}" if ":" in host else f"https://{host}:{port}",
        tls=tls_context(authority_file=folder / "ca.crt"),
        authorization=token.authorization,
        forget_authorization=token.forget,
        renewed=lambda: in_cluster(folder),
        namespace=namespace_file.read_text(encoding="ascii").strip() if namespace_file.is_file() else None,
        origin="the pod's service account",
    )


def tls_context(
    authority_file: Path | None = None, authority_text: str | None = None, *, verify: bool = True
) -> ssl.SSLContext:
    """TLS as client: the server must prove itself to the given authority, else to those of the system.

    Raises:
        LoginError: the authority cannot be read.
    """
    try:
        result = tls.context(authority_file, authority_text)
    except (OSError, ValueError) as error:
        raise LoginError(
            f"The certificate authority {authority_file or 'in the kubeconfig'} is unusable: {error}"
        ) from None
    if not verify:
        result.check_hostname = False
        result.verify_mode = ssl.CERT_NONE
    return result
