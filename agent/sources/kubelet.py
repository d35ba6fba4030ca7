"""Which pods run on this node, from its kubelet: GET /pods with the agent's own login, TLS always verified."""

import asyncio
import logging
import random
import ssl
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any, Final, NamedTuple

from agent.host.cgroup import CgroupTree, PodCgroup
from agent.host.reopening_files import Unreadable
from agent.pods import PodRef, pod_ref
from agent.settings import KubeletSettings
from crds.names import ANNOTATION_CONFIG_SOURCE
from crds.priority import DEFAULT_VALUE, VALUES
from headroom import kube
from headroom.cluster.pod import pod_key
from headroom.cluster.typed_pod import typed_pod
from headroom.kube.connection import tls_context
from headroom.runtime.backoff import Backoff

log = logging.getLogger(__name__)

Address = tuple[str, int]  # host and port

PODS_PATH: Final = "/pods"
_BANDS: Final = {str(band): band for band in VALUES}
_FROM_API: Final = "api"
_LONGEST_NAME: Final = 160  # of a pod in a message
_SOURCES: Final[Mapping[str, str]] = {_FROM_API: "the API server", "file": "its manifests", "http": "its manifest URL"}
_NOT_ALL: Final = "The kubelet lists no pods of the API server, and fewer than have a cgroup, as after its start"
_PARTIAL: Final = "The kubelet lists no pods of {}, as after its start; those that have a cgroup are kept"
_UNAUTHORIZED: Final = 401
_FORBIDDEN: Final = 403
_USER_AGENT: Final = "headroom-agent"
_ADDRESS_SECONDS: Final = 1.0
_JITTER: Final = (0.9, 1.1)
_CAUSES: Final[Mapping[int, str]] = {
    _UNAUTHORIZED: "it must take service account tokens (authentication.webhook.enabled in its configuration)",
    _FORBIDDEN: "the agent's service account needs `get` on `nodes/pods` (helm value agent.podsFrom=kubelet), and the "
    "kubelet must be 1.33 or newer to grant that apart from all of its other doors",
}
"""What is behind a refusal, by HTTP status."""


def login_to(address: Address, kubeconfig: str | None = None, authority: Path | None = None) -> kube.Connection:
    """The agent's own login, for a kubelet. Proxies are for the API server: a node is near.

    The authority is that of the kubelets, where it is not the cluster's. Raises LoginError: there is no login, or it
    names no authority that the kubelet could be checked by.
    """
    host, port = address
    found = kube.connect(kubeconfig, authority_file=authority)
    tls = found.tls
    if tls is None and authority is not None:
        tls = tls_context(authority_file=authority)
    if tls is None or tls.verify_mode is not ssl.CERT_REQUIRED:
        raise kube.LoginError(
            f"{found.origin} does not verify servers; an unverified kubelet is never contacted: give --kubelet-ca FILE"
        )
    return replace(
        found,
        server=f"https://[{host}]:{port}" if ":" in host else f"https://{host}:{port}",
        tls=tls,
        renewed=lambda: login_to(address, kubeconfig, authority),
        server_hostname=None,
        proxy=None,
        peer="kubelet",
        direct=True,
    )


class _Listed(NamedTuple):
    """A pod as kubelet lists it."""

    ref: PodRef
    source: str  # where kubelet has it from: `api`, `file` or `http`


class KubeletPods:
    """The pods on this node as its kubelet lists them, polled every few seconds.

    An error keeps the pods that were known. So does a list that lacks all pods of one source (the API server, static
    files), as kubelet gives just after its start, before that source has spoken: each pod that still has a cgroup
    stays. What has neither an entry nor a cgroup has ended.
    """

    def __init__(
        self,
        settings: KubeletSettings,
        login: Callable[[Address], kube.Connection],
        where: Callable[[], Address | None],
        cgroups: CgroupTree,
    ) -> None:
        self._settings = settings
        self._login = login
        self._where = where
        self._cgroups = cgroups
        self._known: dict[str, _Listed] = {}
        self._backoff = Backoff(settings.interval_seconds, settings.longest_wait_seconds, _JITTER)
        self._unreadable: frozenset[str] = frozenset()
        self._synced = False
        self.problem = ""  # why the list is not current; empty while it is, and before the first attempt
        self.on_rejected: Callable[[str], object] = lambda _what: None
        """Called for each object that could not be used, with its kind."""
        self.on_request: Callable[[str, float], object] = lambda _code, _seconds: None
        """Called for each request: the HTTP status ("none" without an answer), and how long it took. [s]"""

    def pods(self) -> Sequence[PodRef]:
        return tuple(listed.ref for listed in self._known.values())

    @property
    def synced(self) -> bool:
        """Whether a list has come that is complete: it accounts for all that runs, or has pods of the API server."""
        return self._synced

    async def run(self) -> None:
        """Poll for ever; a kubelet that moves to another address is followed."""
        while True:
            address = self._address()
            if address is None:
                await asyncio.sleep(_ADDRESS_SECONDS)
                continue
            try:
                login = await asyncio.to_thread(self._login, address)
            except kube.LoginError as error:
                await asyncio.sleep(self._failed(str(error)))
                continue
            async with kube.ApiServer(login, _USER_AGENT, self._settings.timeout_seconds) as kubelet:
                await self._poll_at(address, kubelet)

    async def _poll_at(self, address: Address, kubelet: kube.ApiServer) -> None:
        wait = 0.0
        while self._address() == address:
            await asyncio.sleep(wait)
            wait = await self.poll(kubelet)

    async def poll(self, kubelet: kube.ApiServer) -> float:
        """Take over what kubelet answers. Returns how long to wait before the next time. [s]"""
        begun = time.perf_counter()
        try:
            answer = await kubelet.get(PODS_PATH)
        except (kube.ApiError, kube.ApiUnavailable) as error:
            self.on_request(str(error.status or "none"), time.perf_counter() - begun)
            retry_after = error.retry_after if isinstance(error, kube.ApiUnavailable) else None
            return self._failed(_explain(error, kubelet.connection.server), retry_after)
        self.on_request("200", time.perf_counter() - begun)
        items = [] if answer.get("items") is None else answer["items"]
        if answer.get("kind") != "PodList" or not isinstance(items, list):
            return self._failed(f"{kubelet.connection.server}{PODS_PATH} does not answer like a kubelet")
        self._apply(items)
        return self._settings.interval_seconds * random.uniform(*_JITTER)  # noqa: S311 - it spreads requests

    def _address(self) -> Address | None:
        return self._settings.address or self._where()

    def _apply(self, pods: Sequence[Any]) -> None:
        listed = self._read(pods)
        running = self._running()
        silent = {known.source for known in self._known.values()} - {one.source for one in listed.values()}
        kept = {
            uid: known
            for uid, known in self._known.items()
            if uid not in listed and known.source in silent and known.ref.cgroup_uid in running
        }
        self._known = listed | kept
        accounted = running.keys() <= {one.ref.cgroup_uid for one in listed.values()}
        self._synced = self._synced or accounted or any(one.source == _FROM_API for one in listed.values())
        lacking = " and ".join(sorted(_SOURCES.get(source, source) for source in silent))
        self._succeeded(_PARTIAL.format(lacking) if kept else "" if self._synced else _NOT_ALL)

    def _read(self, pods: Sequence[Any]) -> dict[str, _Listed]:
        found, unreadable = {}, set()
        for pod in pods:
            try:
                one = _listed(pod)
                found[one.ref.uid] = one
            except ValueError as error:
                unreadable.add(str(error))
        for text in sorted(unreadable - self._unreadable):
            log.warning("a pod on this node is left out: %s", text)
            self.on_rejected("pod")
        self._unreadable = frozenset(unreadable)
        return found

    def _succeeded(self, problem: str) -> None:
        if self.problem and not problem:
            log.info("the kubelet lists this node's pods again")
        elif problem and problem != self.problem:
            log.warning("%s", problem)
        self.problem = problem
        self._backoff.succeeded()

    def _failed(self, problem: str, retry_after_seconds: float | None = None) -> float:
        """Say what is wrong when it is new, drop what has ended, and return how long to wait. [s]"""
        if problem != self.problem:
            log.warning("%s; the pods known so far are kept", problem)
        self.problem = problem
        if running := self._running():
            self._known = {
                uid: known
                for uid, known in self._known.items()
                if known.ref.cgroup_uid in running or not known.ref.running
            }
        return self._backoff.failed(retry_after_seconds)

    def _running(self) -> Mapping[str, PodCgroup]:
        """The pods that have a cgroup; while the tree cannot be listed, those that had one before."""
        try:
            return self._cgroups.pods()
        except Unreadable:  # the collectors say so
            return self._cgroups.latest


def _listed(pod: Any) -> _Listed:  # noqa: ANN401 - whatever the answer holds
    """A pod of the answer. Raises ValueError: it cannot be read; names the pod."""
    try:
        typed = typed_pod(_with_priority(pod))
        annotations = (typed.get("metadata") or {}).get("annotations") or {}
        return _Listed(pod_ref(typed), str(annotations.get(ANNOTATION_CONFIG_SOURCE) or _FROM_API))
    except ValueError as error:
        raise ValueError(f"pod {_shown(pod)}: {error}") from None


def _shown(pod: Any) -> str:  # noqa: ANN401 - whatever the answer holds
    metadata = pod.get("metadata") if isinstance(pod, dict) else None
    return pod_key(pod)[:_LONGEST_NAME] if isinstance(metadata, dict) else "of unknown name"


def _with_priority(pod: Any) -> Any:  # noqa: ANN401 - whatever the answer holds
    """The pod with the number of its priority class, which a static pod gets from the API server only in its mirror."""
    spec = pod.get("spec") if isinstance(pod, dict) else None
    if not isinstance(spec, dict) or spec.get("priority") is not None:
        return pod
    band = _BANDS.get(str(spec.get("priorityClassName")))
    if band is None:
        return pod
    return {**pod, "spec": {**spec, "priority": DEFAULT_VALUE[band]}}


def _explain(error: kube.ApiError | kube.ApiUnavailable, server: str) -> str:
    """What is wrong, and the way out."""
    if isinstance(error, kube.ApiUnavailable):
        if error.bad_certificate:
            return (
                f"The kubelet at {server} shows a certificate that cannot be verified ({error.bad_certificate}): give "
                "--kubelet-ca FILE with the authority of the kubelets' certificates, or have the cluster's authority "
                "sign them (serverTLSBootstrap: true in the kubelet's configuration, then approve its request)"
            )
        if error.status is None:
            return f"{error}; if it listens elsewhere, --kubelet-address says where"
        return str(error)
    cause = _CAUSES.get(error.status)
    return f"The kubelet at {server} refuses to list its pods: {error}" + (f"; {cause}" if cause else "")
