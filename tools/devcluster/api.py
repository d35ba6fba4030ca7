"""A small synchronous client of the API server for the dev cluster itself: readiness, nodes, pods of a node."""

import base64
import http.client
import json
import ssl
import tempfile
import time
import urllib.parse
from collections import deque
from collections.abc import Iterable, Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any, Self

import yaml

from tools.devcluster.commands import DevClusterError

TIMEOUT_SECONDS = 30.0
WATCH_SECONDS = 600
WORKERS = 16  # requests in flight when many objects are made; more does not make a small API server faster
HTTP_ERRORS = 400
NOT_FOUND = 404
CONFLICT = 409

Json = dict[str, Any]


class ApiError(DevClusterError):
    """The API server answered with an error."""

    def __init__(self, status: int, message: str) -> None:
        super().__init__(message)
        self.status = status


class ApiClient:
    """JSON requests over kept connections; threads may share one client. A server that is away raises OSError."""

    def __init__(self, host: str, port: int, context: ssl.SSLContext) -> None:
        self._address = (host, port)
        self._context = context
        self._idle: deque[http.client.HTTPSConnection] = deque()

    @classmethod
    def from_kubeconfig(cls, path: Path) -> Self:
        """Log in as the current context of a kubeconfig with embedded certificates, as `certs.Pki` writes it."""
        document = yaml.safe_load(path.read_text())
        cluster, user = document["clusters"][0]["cluster"], document["users"][0]["user"]
        context = ssl.create_default_context(cadata=base64.b64decode(cluster["certificate-authority-data"]).decode())
        with tempfile.NamedTemporaryFile() as pem:  # the ssl module takes a client certificate only from a file
            pem.write(base64.b64decode(user["client-certificate-data"]) + base64.b64decode(user["client-key-data"]))
            pem.flush()
            context.load_cert_chain(pem.name)
        url = urllib.parse.urlsplit(cluster["server"])
        return cls(url.hostname or "", url.port or http.client.HTTPS_PORT, context)

    def request(self, method: str, path: str, body: Json | None = None, content_type: str = "application/json") -> Json:
        """Send one request and return the decoded answer; an answer that is not JSON comes as `{"text": …}`."""
        data = None if body is None else json.dumps(body).encode()
        headers = {"Content-Type": content_type, "Accept": "application/json"}
        try:
            connection = self._idle.pop()
        except IndexError:
            return self._exchange(self._connect(TIMEOUT_SECONDS), method, path, data, headers)
        try:
            return self._exchange(connection, method, path, data, headers)
        except OSError:  # a kept connection may have been closed by a restart: once more with a new one
            return self._exchange(self._connect(TIMEOUT_SECONDS), method, path, data, headers)

    def close(self) -> None:
        """Close the connections that are kept; the next request makes a new one."""
        while self._idle:
            self._idle.pop().close()

    def _connect(self, timeout_seconds: float) -> http.client.HTTPSConnection:
        return http.client.HTTPSConnection(*self._address, timeout=timeout_seconds, context=self._context)

    def _exchange(
        self, connection: http.client.HTTPSConnection, method: str, path: str, data: bytes | None, headers: Json
    ) -> Json:
        try:
            connection.request(method, path, data, headers)
            response = connection.getresponse()
            text = response.read()
        except (http.client.HTTPException, OSError) as error:
            connection.close()
            raise OSError(f"no answer from https://{self._address[0]}:{self._address[1]}: {error}") from error
        except BaseException:  # Ctrl-C in the middle of an answer: this connection cannot be used again
            connection.close()
            raise
        self._idle.append(connection)
        return _decode(response.status, text)

    def get(self, path: str) -> Json:
        """Read one object or list."""
        return self.request("GET", path)

    def exists(self, path: str) -> bool:
        """Return whether an object is there."""
        try:
            self.get(path)
        except ApiError as error:
            if error.status == NOT_FOUND:
                return False
            raise
        return True

    def merge(self, path: str, patch: Mapping[str, object]) -> Json:
        """Patch an object (JSON merge patch)."""
        return self.request("PATCH", path, dict(patch), "application/merge-patch+json")

    def watch(
        self, path: str, timeout_seconds: int = WATCH_SECONDS, accept: str = "application/json"
    ) -> Iterator[tuple[str, Json]]:
        """Objects of a collection as they are and as they change, without a gap; ends after a time, or fails.

        An API server also ends the watch of a client that is slow, on a busy machine: that one is resumed.

        Args:
            path: of the collection, with a query if need be.
            timeout_seconds: when the watch ends.
            accept: media type of the changes, such as that of the metadata alone.

        Yields:
            What happened (`LISTED` once with the list, then `ADDED`, `MODIFIED`, `DELETED`), and the list or object.
        """
        listed = self.get(path)
        yield "LISTED", listed
        version, joint = listed["metadata"]["resourceVersion"], "&" if "?" in path else "?"
        ends = time.monotonic() + timeout_seconds
        while (left := int(ends - time.monotonic())) > 0:
            query = f"watch=1&resourceVersion={version}&timeoutSeconds={left}"
            connection = self._connect(left + TIMEOUT_SECONDS)
            try:
                connection.request("GET", f"{path}{joint}{query}", headers={"Accept": accept})
                response = connection.getresponse()
                if response.status >= HTTP_ERRORS:
                    _decode(response.status, response.read())
                for line in response:
                    event = json.loads(line)
                    if event["type"] == "ERROR":
                        raise ApiError(int(event["object"].get("code", 0)), str(event["object"].get("message")))
                    version = event["object"]["metadata"]["resourceVersion"]
                    yield event["type"], event["object"]
            except (http.client.HTTPException, ValueError) as error:
                raise OSError(f"the watch of {path} broke off: {error}") from error
            finally:
                connection.close()

    def create_all(self, requests: Iterable[tuple[str, Json]]) -> None:
        """Create many objects, several at a time; an existing object stays unchanged."""
        with ThreadPoolExecutor(WORKERS) as pool:
            for _ in pool.map(self._create, requests):
                pass

    def _create(self, request: tuple[str, Json]) -> None:
        try:
            self.request("POST", *request)
        except ApiError as error:
            if error.status != CONFLICT:
                raise


def _decode(status: int, text: bytes) -> Json:
    try:
        answer = json.loads(text)
    except ValueError:
        answer = {"text": text.decode(errors="replace")}
    if status >= HTTP_ERRORS:
        raise ApiError(status, f"the API server answered {status}: {answer.get('message') or answer.get('text')}")
    return dict(answer)
