"""Kubeconfig files. Tokens and certificates are read here; programs that log in (exec) are left to `kubernetes.config`.

The official client is imported only for the latter: it costs 44 MiB of memory that an agent does not have.
"""

import base64
import os
import ssl
import tempfile
from collections.abc import Collection, Iterator, Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Final
from urllib.parse import urlsplit

import yaml

from headroom.kube.connection import ActsAs, Connection, Overrides, TokenFile, acts_as, bearer, tls_context
from headroom.kube.connector import is_socks, without_login
from headroom.kube.errors import LoginError

_PROXIES: Final = ("http", "https", "socks5", "socks5h")
_LEFT_TO_KUBERNETES: Final = ("exec", "auth-provider")


@dataclass(frozen=True, slots=True)
class _Entry:
    """A named entry of a kubeconfig, with the folder that its relative paths start from."""

    fields: Mapping[str, Any]
    folder: Path
    described: str

    def text(self, name: str) -> str | None:
        """A field that is text; None when it is absent or empty."""
        result = self.fields.get(name)
        if result is not None and not isinstance(result, str):
            raise LoginError(f"{self.described}: {name} must be text, got {type(result).__name__}; put it in quotes")
        return result or None

    def switch(self, name: str) -> bool:
        """A field that is true or false; false when it is absent."""
        result = self.fields.get(name) or False
        if not isinstance(result, bool):
            raise LoginError(f"{self.described}: {name} must be true or false, got {result!r}")
        return result

    def content(self, name: str) -> bytes | None:
        """Return the content of the field `name-data`, or of the file that the field `name` names."""
        data, file = self.text(f"{name}-data"), self.text(name)
        try:
            if data:
                return base64.b64decode("".join(data.split()), validate=True)
            return (self.folder / file).read_bytes() if file else None
        except (OSError, ValueError) as error:  # a ValueError: not base64
            raise LoginError(f"{self.described}: {name} cannot be read: {error}") from None


def from_kubeconfig(paths: str, context: str | None, overrides: Overrides | None = None) -> Connection:
    """Log in with a kubeconfig.

    Args:
        paths: one file, or several joined by the path separator; the first that names something wins.
        context: the context to use, or None for the current one.
        overrides: the parts of the login that flags replace.

    Raises:
        LoginError: a file, context or credential is unusable.
    """
    flags, documents = overrides or Overrides(), list(_documents(paths))
    name = context or next((doc["current-context"] for _, doc in documents if doc.get("current-context")), None)
    if not name and not flags.server:
        raise LoginError(f"{paths}: no current-context is set. Name a context, or `kubectl config use-context NAME`.")
    nothing = _Entry({}, Path(), "the command line")
    chosen = _find(documents, "context", name, paths) if name else nothing
    cluster_name, user_name = flags.cluster or chosen.text("cluster"), flags.user or chosen.text("user")
    if not cluster_name and not flags.server:
        raise LoginError(f"{chosen.described}: it names no cluster; give it one of: {_names(documents, 'cluster')}")
    cluster = _find(documents, "cluster", cluster_name, paths) if cluster_name else nothing
    user = _find(documents, "user", user_name, paths) if user_name else replace(chosen, fields={})
    cluster, user = _overridden(cluster, user, flags)
    server = cluster.text("server") or ""
    if not _is_url(server):
        raise LoginError(f"{cluster.described}: server must be a URL such as https://host:6443, got {server!r}")
    proxy = cluster.text("proxy-url")
    if proxy and not _is_url(proxy, _PROXIES):
        shown = without_login(proxy)
        raise LoginError(f"{cluster.described}: proxy-url must be an http, https or socks5 URL, got {shown!r}")
    if is_socks(proxy) and cluster.text("tls-server-name"):
        raise LoginError(f"{cluster.described}: tls-server-name has no effect with a socks5 proxy-url; remove one.")
    tls = _tls(cluster, user) if server.startswith("https://") else None
    is_of_context = name and not (flags.cluster or flags.user)
    login = _login(user, paths if is_of_context else _kubeconfig(cluster, user), name if is_of_context else None, tls)
    return Connection(
        server=server.rstrip("/"),
        tls=tls,
        authorization=login[0],
        forget_authorization=login[1],
        renewed=lambda: from_kubeconfig(paths, name, overrides),
        server_hostname=cluster.text("tls-server-name"),
        proxy=proxy,
        namespace=chosen.text("namespace"),
        origin=f"context {name} of {paths}" if name else "--server",
        acts_as=_acts_as(user),
    )


def _overridden(cluster: _Entry, user: _Entry, flags: Overrides) -> tuple[_Entry, _Entry]:
    """Return the cluster and the user with the flags in their fields."""
    fields = dict(cluster.fields)
    if flags.server:
        fields["server"] = flags.server
        fields.pop("tls-server-name", None)  # it is of the other server
    if flags.insecure:
        fields["insecure-skip-tls-verify"] = True
        for name in ("certificate-authority", "certificate-authority-data"):
            fields.pop(name, None)
    login = dict(user.fields)
    if flags.authorization is not None:
        for name in ("tokenFile", "username", "password", *_LEFT_TO_KUBERNETES):
            login.pop(name, None)
        login["token"] = flags.token
    return replace(cluster, fields=fields), replace(user, fields=login)


def _kubeconfig(cluster: _Entry, user: _Entry) -> Mapping[str, Any]:
    """Return a kubeconfig of a cluster and a user that no context has together."""
    return {
        "current-context": "flags",
        "contexts": [{"name": "flags", "context": {"cluster": "flags", "user": "flags"}}],
        "clusters": [{"name": "flags", "cluster": dict(cluster.fields)}],
        "users": [{"name": "flags", "user": dict(user.fields)}],
    }


def _acts_as(user: _Entry) -> ActsAs:
    groups, extra = user.fields.get("as-groups") or [], user.fields.get("as-user-extra") or {}
    lists = [groups, *(value or [] for value in extra.values())] if isinstance(extra, Mapping) else [None]
    if not all(isinstance(entries, list) for entries in lists):
        raise LoginError(f"{user.described}: as-groups must be a list, and as-user-extra a mapping of lists.")
    facts = {str(name): [str(value) for value in values or ()] for name, values in extra.items()}
    return acts_as(user.text("as"), [str(group) for group in groups], user.text("as-uid") or "", facts)


def _is_url(text: str, schemes: Collection[str] = ("http", "https")) -> bool:
    try:
        parts = urlsplit(text)
        return parts.scheme in schemes and bool(parts.hostname) and parts.port != 0
    except ValueError:  # a port that is no number
        return False


def _documents(paths: str) -> Iterator[tuple[Path, Mapping[str, Any]]]:
    """Every kubeconfig that exists, with its path; a single one must exist."""
    files = [Path(part).expanduser() for part in paths.split(os.pathsep) if part]
    for file in files:
        if len(files) > 1 and not file.exists():
            continue
        try:
            document = yaml.safe_load(file.read_text(encoding="utf-8")) or {}
        except (OSError, UnicodeDecodeError) as error:
            reason = error.strerror if isinstance(error, OSError) else "it is not text"
            raise LoginError(f"The kubeconfig {file} cannot be read: {reason}.") from None
        except yaml.YAMLError as error:
            where = getattr(error, "problem_mark", None)
            line = f" (line {where.line + 1})" if where else ""
            raise LoginError(f"The kubeconfig {file} is not valid YAML{line}.") from None
        if not isinstance(document, Mapping):
            raise LoginError(f"{file} is not a kubeconfig: it must be a mapping with clusters, users and contexts.")
        for kind in ("cluster", "user", "context"):
            _check_entries(file, document.get(f"{kind}s"), kind)
        yield file, document


def _check_entries(file: Path, entries: object, kind: str) -> None:
    """Reject a value that is not a list of named mappings, as kubectl does."""
    listed = [] if entries is None else entries
    fine = isinstance(listed, list) and all(
        isinstance(entry, Mapping) and isinstance(entry.get(kind) or {}, Mapping) for entry in listed
    )
    if not fine:
        raise LoginError(f"{file}: {kind}s must be a list of entries, each with a name and the mapping {kind}.")


def _find(documents: list[tuple[Path, Mapping[str, Any]]], kind: str, name: Any, paths: str) -> _Entry:  # noqa: ANN401
    for file, document in documents:
        for entry in document.get(f"{kind}s") or ():
            if entry.get("name") == name:
                return _Entry(entry.get(kind) or {}, file.parent, f"{kind} {name} of {file}")
    raise LoginError(f"{paths}: there is no {kind} {name!r}. It has: {_names(documents, kind)}.")


def _names(documents: list[tuple[Path, Mapping[str, Any]]], kind: str) -> str:
    entries = [str(entry.get("name")) for _, document in documents for entry in document.get(f"{kind}s") or ()]
    return ", ".join(entries) or "none"


def _tls(cluster: _Entry, user: _Entry) -> ssl.SSLContext:
    authority = cluster.content("certificate-authority")
    text = authority.decode("ascii", errors="replace") if authority else None
    insecure = cluster.switch("insecure-skip-tls-verify")
    if insecure and text:
        raise LoginError(
            f"{cluster.described}: a certificate authority and insecure-skip-tls-verify exclude each other, "
            "as for kubectl; remove one."
        )
    tls = tls_context(authority_text=text, verify=not insecure)
    certificate, key = user.content("client-certificate"), user.content("client-key")
    if certificate and key:
        _load_client_certificate(tls, certificate, key, user.described)
    return tls


def _load_client_certificate(tls: ssl.SSLContext, certificate: bytes, key: bytes, described: str) -> None:
    """Give the context a client certificate; Python reads it from files only, so one exists for a moment."""
    with tempfile.NamedTemporaryFile(suffix=".pem") as file:
        file.write(certificate + b"\n" + key)
        file.flush()
        try:
            tls.load_cert_chain(file.name)
        except (ssl.SSLError, OSError) as error:
            raise LoginError(f"{described}: the client certificate and key do not work: {error}") from None


def _login(
    user: _Entry, source: str | Mapping[str, Any], context: str | None, tls: ssl.SSLContext | None
) -> tuple[Any, Any]:
    """The functions that give and forget the Authorization header."""
    if any(user.fields.get(kind) for kind in _LEFT_TO_KUBERNETES):
        return _login_by_program(user, source, context, tls)
    token, token_file = user.text("token"), user.text("tokenFile")
    header = bearer(token) if token else None
    if token and header is None:
        raise LoginError(f"{user.described}: token must be one line of plain characters.")
    if token_file:  # as for kubectl, its content comes before the token
        renewed = TokenFile(user.folder / token_file)
        if renewed.authorization() is None and header is None:
            raise LoginError(f"{user.described}: tokenFile {token_file} cannot be read, or is not one line of text.")
        return (lambda: renewed.authorization() or header), renewed.forget
    if token:
        return (lambda: header), (lambda: None)
    if user.fields.get("username"):
        pair = f"{user.fields['username']}:{user.fields.get('password', '')}".encode()
        basic = f"Basic {base64.b64encode(pair).decode()}"
        return (lambda: basic), (lambda: None)
    return (lambda: None), (lambda: None)


def _login_by_program(
    user: _Entry, source: str | Mapping[str, Any], context: str | None, tls: ssl.SSLContext | None
) -> tuple[Any, Any]:
    """Let the official client run the login program, now and whenever its token expires."""
    try:
        from kubernetes import client, config  # noqa: PLC0415 - see the head of this file
    except ModuleNotFoundError:
        raise LoginError(
            f"{user.described}: a login program needs the package kubernetes, which is not installed here. Our images "
            "leave it out: use a token or a certificate there."
        ) from None

    configuration = client.Configuration()

    def log_in() -> None:
        load: Any = config.load_kube_config if isinstance(source, str) else config.load_kube_config_from_dict
        load(source, context, client_configuration=configuration, persist_config=False)

    try:
        log_in()
    except (config.ConfigException, OSError, ValueError) as error:
        raise LoginError(f"{user.described}: the login program failed: {error}") from None
    if not (configuration.api_key or configuration.cert_file):
        # The official client logs why and goes on without a login.
        raise LoginError(
            f"{user.described}: the login program gave no token and no certificate. Run it by hand to see why."
        )
    if tls is not None and configuration.cert_file and configuration.key_file:
        certificate, key = Path(configuration.cert_file).read_bytes(), Path(configuration.key_file).read_bytes()
        _load_client_certificate(tls, certificate, key, user.described)

    def authorization() -> str | None:
        header: str | None = configuration.get_api_key_with_prefix("BearerToken", alias="authorization")
        return header

    return authorization, log_in
