"""The HTTPS listener for kopf: it decodes reviews, passes ours to kopf's handler, and responds.

kopf's own server would refuse reviews of a config of a megabyte, share the port with any other process, log a
traceback for malformed requests, and restart for each certificate; so this one replaces it.
"""

import asyncio
import logging
from collections.abc import AsyncIterator, Awaitable, Callable
from dataclasses import replace
from typing import Any, Final, Self

from prometheus_client import Counter

from headroom.runtime import http
from headroom.runtime.sanitize import printable
from manager.http import ListenError
from manager.profiles import webhooks
from manager.profiles.state import Profiles
from manager.webhook import admission, pods, profiles
from manager.webhook.certificate import ServingCertificate
from manager.webhook.listener import Listener
from manager.webhook.metrics import WebhookMetrics

_LOG: Final = logging.getLogger(__name__)
_LIMITS: Final = replace(
    http.OPEN,
    # Two ConfigMaps of 3 MiB, the most that an API server accepts in a request, and the rest of the review.
    body_bytes=8 * 2**20,
    buffered_bytes=32 * 2**20,
    connections=50,  # each of them some 0.3 MiB
    request_seconds=2.0,
    timeout_check_seconds=0.25,
)
_LARGEST_TEXT: Final = 1024 * 1024  # what a ConfigMap can hold; a longer text does not come from an API server
_ANSWER_SECONDS: Final = 2.5  # the API server waits for 5 s, reading included
_ENDING_SECONDS: Final = 1.0
_RETRY_SECONDS: Final = 5.0
_AT_ONCE: Final = 4
_MOST_PRESENT: Final = 32
"""Reviews that may wait for their turn: far more than people edit one ConfigMap at the same time."""

Fn = Callable[..., Awaitable[Any]]


class WebhookServer:
    """Listens from the first certificate on until kopf ends it, and can be started again.

    Args:
        listener: the claimed port.
        serving: certificates.
        namespace: namespace of the ConfigMap.
        name: name of the ConfigMap; all others are admitted.
        metrics: counts.
        known: the profiles.
    """

    def __init__(
        self,
        listener: Listener,
        serving: ServingCertificate,
        namespace: str,
        name: str,
        metrics: WebhookMetrics,
        known: Profiles,
    ) -> None:
        self._profiles = known
        self._listener, self._serving, self._metrics = listener, serving, metrics
        self._namespace, self._name = namespace, name
        self._served: http.Served | None = None
        self._fn: Fn | None = None
        self._turns, self._present = asyncio.Semaphore(_AT_ONCE), 0

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *_: object) -> None:
        await self._stop()

    async def __call__(self, fn: Fn) -> AsyncIterator[dict[str, Any]]:
        """Serve until cancelled; kopf gives what evaluates a request."""
        self._fn = fn
        try:
            await self._serving.ready.wait()
            await self._start()
            # kopf writes no webhook configuration, so this value is not used.
            yield {"url": f"https://{self._listener.host or 'localhost'}:{self._listener.port}"}
            await asyncio.Event().wait()
        finally:
            await self._stop()

    async def _start(self) -> None:
        pages = {
            ("POST", f"/{admission.HANDLER}"): self._serve,
            ("POST", f"/{pods.PATH}"): self._serve_pod,
            ("POST", f"/{webhooks.PATH}"): self._serve_pod_of_profile,
            ("POST", f"/{profiles.PATH}"): self._serve_profile,
        }
        failure_logged_at = False
        while True:
            try:
                door = self._listener.take()
                self._served = await http.listen(pages, door, self._serving.context, _LIMITS, self._refused)
            except (ListenError, OSError) as error:  # the process had the port before: its configuration is not wrong
                if not failure_logged_at:
                    _LOG.warning("The webhook cannot listen, trying again: %s", error)
                failure_logged_at = True
                await asyncio.sleep(_RETRY_SECONDS)
            else:
                _LOG.info("The webhook answers on port %d", self._listener.port)
                return

    async def _stop(self) -> None:
        """Free the port at once, and give the requests of the moment a second."""
        served, self._served = self._served, None
        if served is not None:
            await served.close(_ENDING_SECONDS)

    def _refused(self, _status: int, _why: str) -> None:
        """Do not log: any client could fill the log."""
        self._metrics.reviews.labels("malformed").inc()

    async def _serve(self, request: http.Request) -> http.Reply:
        if self._present >= _MOST_PRESENT:
            self._metrics.reviews.labels("malformed").inc()
            return http.Reply.text("too many reviews at once\n", 503)
        self._present += 1
        try:
            return await self._in_turn(request.body)
        finally:
            self._present -= 1

    async def _in_turn(self, body: bytes) -> http.Reply:
        review = None
        try:
            # Decoding takes many times the size of a review: only so many at once.
            async with asyncio.timeout(_ANSWER_SECONDS), self._turns:
                review = admission.read(body)
                return http.Reply.json(await self._answer(review))
        except admission.NotAReviewError as error:
            self._metrics.reviews.labels("malformed").inc()
            return http.Reply.text(f"{error}\n", 400)
        except TimeoutError:
            if review is not None:
                return http.Reply.json(self._unchecked(review, "it takes too long"))
            self._metrics.reviews.labels("malformed").inc()
            return http.Reply.text("too many reviews at once\n", 503)

    async def _serve_pod(self, request: http.Request) -> http.Reply:
        return self._reviewed(self._metrics.pods, lambda: pods.review(request.body))

    async def _serve_pod_of_profile(self, request: http.Request) -> http.Reply:
        name = request.path.removeprefix(f"/{webhooks.PATH}")
        return self._reviewed(self._metrics.pods, lambda: profiles.review_pod(request.body, name, self._profiles))

    async def _serve_profile(self, request: http.Request) -> http.Reply:
        return self._reviewed(self._metrics.reviews, lambda: profiles.review_profile(request.body, self._profiles))

    def _reviewed(self, counter: Counter, review: Callable[[], tuple[str, dict[str, Any]]]) -> http.Reply:
        """Review an object in less than a millisecond, so none waits for a turn."""
        try:
            result, response = review()
        except admission.NotAReviewError as error:
            self._metrics.reviews.labels("malformed").inc()
            return http.Reply.text(f"{error}\n", 400)
        counter.labels(result).inc()
        return http.Reply.json(response)

    async def _answer(self, review: admission.AdmissionRequest) -> dict[str, Any]:
        if not review.concerns(self._namespace, self._name):
            return admission.allowed(review)
        if len(review.text or "") > _LARGEST_TEXT:
            return self._unchecked(review, "it is longer than any ConfigMap")
        try:
            response = await self._evaluate(review)
        except Exception:  # noqa: BLE001 - the outer runner: a bug must not reject an edit
            _LOG.exception("An edit could not be checked, which should not happen; please report it")
            return self._unchecked(review, "its check failed; please report it")
        result = admission.answer(review, response)
        refused = admission.refused(result)
        self._metrics.reviews.labels("refused" if refused else "allowed").inc()
        if refused:
            causes = result["response"]["status"]["details"]["causes"]
            first = f"{causes[0]['field']}: {causes[0]['message']}"
            user = printable(review.user) or "a user"
            _LOG.info("Refused an edit of ConfigMap %s by %s, faults: %d: %s", self._name, user, len(causes), first)
        return result

    async def _evaluate(self, review: admission.AdmissionRequest) -> Any:  # noqa: ANN401 - kopf's answer
        if self._fn is None:
            raise RuntimeError("the server was never started")
        return await self._fn(admission.for_kopf(review), webhook=admission.HANDLER, headers={}, sslpeer={})

    def _unchecked(self, review: admission.AdmissionRequest, why: str) -> dict[str, Any]:
        self._metrics.reviews.labels("unchecked").inc()
        return admission.unchecked(review, why)
