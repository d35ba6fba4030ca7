"""Prometheus' HTTP API: ranges of series in pieces that it can answer, and a sentence for what goes wrong."""

import base64
import json
import os
import socket
import ssl
import urllib.error
import urllib.request
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from http.client import HTTPException
from pathlib import Path
from typing import Any, Final, NamedTuple
from urllib.parse import unquote, urlencode, urlsplit

import numpy as np

from agent.api import FloatArray
from headroom.kube.connection import tls_context
from headroom.kube.errors import LoginError
from headroom.kube.proxies import proxy_for
from kubectl_headroom.backtest.sources import Options, SourceUnavailableError
from kubectl_headroom.backtest.sources.grid import STEP_SECONDS, plain, shown
from kubectl_headroom.backtest.trace import TraceError

BODY_LIMIT: Final = 1 << 28  # largest answer that is read: a day of 30,000 pods [bytes]
SHORTEST_SECONDS: Final = 3600.0  # pieces of a range are not made shorter than this [s]
_TOO_LARGE: Final = ("too many samples", "too many points", "exceeds", "exceeded maximum resolution", "limit")
_REDIRECTS: Final = range(300, 400)
_FAILED: Final = 500
_SHOWN: Final = 200
_PAIR: Final = 2

Labels = Mapping[str, str]


class AnswerTooLarge(Exception):  # noqa: N818 - a state: the query is repeated in smaller pieces
    """The answer would be, or is, larger than the server or we can take."""


@dataclass(frozen=True, slots=True)
class Piece:
    """A part of the answer to a range query: one series."""

    labels: Labels
    times: FloatArray  # shape (N,) [seconds since 1970]
    values: FloatArray  # shape (N,), NaN where the answer is no number


class _NoRedirection(urllib.request.HTTPRedirectHandler):
    """Follows nothing: a login must not go elsewhere."""

    def redirect_request(self, *_: object) -> None:
        """Return None, so that urllib returns the redirection itself."""


class Api:
    """A server. Files of logins are read once."""

    def __init__(self, url: str, options: Options) -> None:
        """Connects to nothing yet; raises TraceError if the URL (before /api) or a file of the login cannot be used."""
        _check_url(url)
        self.url = url.rstrip("/")
        self._timeout = options.timeout_seconds
        self._headers = {"Accept": "application/json", "User-Agent": "headroom-backtest"}
        login = _login(options)
        if login:
            self._headers["Authorization"] = login
        self._proxy = _proxy(url)
        handlers: list[urllib.request.BaseHandler] = [_NoRedirection(), urllib.request.ProxyHandler({})]
        if urlsplit(url).scheme == "https":
            handlers.append(urllib.request.HTTPSHandler(context=_tls(options)))
        self._opener = urllib.request.build_opener(*handlers)

    def ranges(self, query: str, start: float, end: float) -> Iterator[Piece]:
        """The series of a query, a value every five minutes with start <= time <= end; piece by piece if need be.

        Raises TraceError if the query cannot be answered, as `highest` does.
        """
        parameters = {"query": query, "start": f"{start:.0f}", "end": f"{end:.0f}", "step": f"{STEP_SECONDS:.0f}"}
        try:
            result = self._query("query_range", parameters, "matrix")
        except AnswerTooLarge as error:
            middle = self._middle(query, start, end, error)
            yield from self.ranges(query, start, middle)
            yield from self.ranges(query, middle + STEP_SECONDS, end)
            return
        for series in result:
            pairs = [pair for pair in series.get("values") or () if isinstance(pair, list) and len(pair) == _PAIR]
            times, values = (np.array([_number(pair[at]) for pair in pairs], dtype=np.float64) for at in (0, 1))
            yield Piece(_labels(series), times, values)

    def highest(self, query: str, start: float, end: float) -> Iterator[tuple[Labels, float]]:
        """The highest value of each series of a query with start < time <= end, sampled every five minutes.

        Of a series that is too much in one piece, that of each piece, the older first.
        """
        text = f"max_over_time(({query})[{end - start:.0f}s:{STEP_SECONDS:.0f}s])"
        try:
            result = self._query("query", {"query": text, "time": f"{end:.0f}"}, "vector")
        except AnswerTooLarge as error:
            middle = self._middle(query, start, end, error)
            yield from self.highest(query, start, middle)
            yield from self.highest(query, middle, end)
            return
        for series in result:
            pair = series.get("value")
            if isinstance(pair, list) and len(pair) == _PAIR:
                yield _labels(series), _number(pair[1])

    def _middle(self, query: str, start: float, end: float, error: AnswerTooLarge) -> float:
        """Return where to cut a time range in two; raises TraceError if it is short enough."""
        if end - start < 2 * SHORTEST_SECONDS:
            raise TraceError(
                f"{self.url}: query {query!r} is too much for it even hour by hour ({error}); give one that is about "
                "fewer pods with --query"
            ) from error
        return start + (end - start) // 2 // STEP_SECONDS * STEP_SECONDS

    def _query(self, what: str, parameters: Mapping[str, str], kind: str) -> list[Mapping[str, Any]]:
        """The series of an answer; raises AnswerTooLarge, or TraceError if there is none."""
        url = f"{self.url}/api/v1/{what}?{urlencode(parameters)}"
        request = urllib.request.Request(url, headers=self._headers)  # noqa: S310 - http or https, as was checked
        if self._proxy is not None:
            request.set_proxy(self._proxy.address, "http")
            if self._proxy.login:
                request.add_header("Proxy-authorization", self._proxy.login)
        query = parameters["query"]
        try:
            with self._opener.open(request, timeout=self._timeout) as response:
                body = response.read(BODY_LIMIT + 1)
        except urllib.error.HTTPError as error:
            raise self._refused(error, query) from error
        except (OSError, HTTPException) as error:
            raise SourceUnavailableError(f"{self.url}: {_why(error, self._timeout)}") from error
        if len(body) > BODY_LIMIT:
            raise AnswerTooLarge(f"its answer has more than {BODY_LIMIT >> 20} MiB")
        try:
            data = json.loads(body)["data"]
            result, found = data["result"], data["resultType"]
        except (ValueError, KeyError, TypeError, RecursionError) as error:
            raise TraceError(f"{self.url}: answers what Prometheus does not: {_shown(body)!r}; is it one?") from error
        if found != kind or not isinstance(result, list):
            raise TraceError(f"{self.url}: query {query!r} gives {shown(found)}, it must give series, one per pod")
        return [series for series in result if isinstance(series, Mapping)]

    def _refused(self, error: urllib.error.HTTPError, query: str) -> Exception:
        with error:
            body = error.read(_SHOWN * 10)
        detail = _error_text(body)
        if any(words in detail for words in _TOO_LARGE):
            return AnswerTooLarge(detail)
        if error.code >= _FAILED:
            return SourceUnavailableError(f"{self.url}: answers {error.code}: {detail}")
        if error.code in _REDIRECTS:
            address = plain(error.headers.get("Location", "elsewhere"))
            return TraceError(f"{self.url}: leads to {address}; give that address")
        sentences = {
            401: "refuses the login (401); give --token-file, or --user and --password-file",
            403: f"this login may not query it (403): {detail}",
            404: "has no API of Prometheus (404); give the address before /api/v1",
            422: f"cannot carry out query {query!r}: {detail}",
        }
        usual = f"does not understand query {query!r}: {detail}; give another one with --query"
        return TraceError(f"{self.url}: {sentences.get(error.code, usual)}")


class _Proxy(NamedTuple):
    """A proxy of the environment."""

    address: str  # host and port
    login: str  # the value of Proxy-authorization; empty for none


def _proxy(url: str) -> _Proxy | None:
    """Return the proxy for a URL; raises TraceError for one that urllib cannot use."""
    proxy = proxy_for(url)
    if proxy is None:
        return None
    try:
        parts = urlsplit(proxy)
        good = parts.scheme == "http" and bool(parts.hostname) and parts.port != 0
    except ValueError:
        good = False
    if not good:
        variable = f"{urlsplit(url).scheme.upper()}_PROXY"
        raise TraceError(f"{variable} must be an http proxy, such as http://proxy:3128; or name the host in NO_PROXY")
    login = f"{unquote(parts.username)}:{unquote(parts.password or '')}" if parts.username else ""
    header = f"Basic {base64.b64encode(login.encode()).decode()}" if login else ""
    return _Proxy(parts.netloc.rpartition("@")[2], header)


def _check_url(url: str) -> None:
    try:
        parts = urlsplit(url)
        good = parts.scheme in ("http", "https") and bool(parts.hostname) and parts.port != 0
    except ValueError:
        good = False
    if not good or parts.query or parts.fragment:
        head, separator, rest = url.rpartition("@")
        shown_url = f"...{separator}{rest}" if head else url  # without a login
        raise TraceError(f"--prometheus: {shown_url!r} must be a URL such as https://prometheus:9090")
    if parts.username is not None:
        raise TraceError("--prometheus: a login in the URL would show in logs; give --user and --password-file")


def _login(options: Options) -> str:
    if options.token_file:
        return f"Bearer {_secret(options.token_file, '--token-file')}"
    if options.user:
        password = _secret(options.password_file, "--password-file")
        return f"Basic {base64.b64encode(f'{options.user}:{password}'.encode()).decode()}"
    return ""


def _secret(path: str, flag: str) -> str:
    try:
        text = Path(path).read_text(encoding="utf-8").strip()
    except (OSError, UnicodeDecodeError) as error:
        why = error.strerror if isinstance(error, OSError) else "it is no text"
        raise TraceError(f"{flag}: {path} cannot be read: {why}") from error
    if not text or not text.isprintable() or not text.isascii():
        raise TraceError(f"{flag}: {path} must have one line of plain text")
    return text


def _tls(options: Options) -> ssl.SSLContext:
    what = f"--ca-file: {options.ca_file}"
    try:
        context = tls_context(Path(options.ca_file) if options.ca_file else None, verify=not options.insecure)
        if options.client_cert:
            what = f"--client-cert: {options.client_cert}"
            context.load_cert_chain(options.client_cert, options.client_key or None)
    except LoginError as error:
        raise TraceError(f"{what} cannot be used: {error}") from error
    except (OSError, ssl.SSLError) as error:
        raise TraceError(f"{what} cannot be used: {error.strerror or error}") from error
    return context


def _error_text(body: bytes) -> str:
    try:
        text = json.loads(body)["error"]
    except (ValueError, KeyError, TypeError, RecursionError):
        text = _shown(body)
    return " ".join(str(text).split())[:_SHOWN] or "no message"


def _shown(body: bytes) -> str:
    return " ".join(body[:_SHOWN].decode(errors="replace").split())


def _why(error: Exception, timeout: float) -> str:
    reason = getattr(error, "reason", error)
    if isinstance(reason, ssl.SSLCertVerificationError):
        return f"its certificate is refused ({reason.verify_message}); give its authority with --ca-file"
    if isinstance(reason, TimeoutError | socket.timeout):
        return f"no answer within {timeout:g} s; give it longer with --timeout, or query a shorter time"
    if isinstance(reason, socket.gaierror):
        return "its name is not known"
    if isinstance(reason, OSError) and not isinstance(reason, ssl.SSLError) and (reason.errno or 0) > 0:
        return f"cannot be reached: {os.strerror(reason.errno or 0)}"
    return f"cannot be reached: {reason}"


def _labels(series: Mapping[str, Any]) -> Labels:
    result = series.get("metric")
    return {str(name): str(value) for name, value in result.items()} if isinstance(result, Mapping) else {}


def _number(text: object) -> float:
    try:
        return float(text) if isinstance(text, str | int | float) else np.nan
    except ValueError:
        return np.nan
