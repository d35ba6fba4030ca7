"""The webhook's server with kopf's judgement, on loopback, and a client that sends reviews as API servers do."""

import asyncio
import functools
import io
import json
import ssl
import time
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from typing import Any

import aiohttp
import kopf
from kopf._cogs.structs.ephemera import Memo
from kopf._cogs.structs.references import Insights, Resource
from kopf._core.engines.admission import serve_admission_request
from kopf._core.reactor.inventory import ResourceMemories

from manager.handlers import admission
from manager.metrics import ManagerMetrics
from manager.profiles.state import Profiles
from manager.settings import Settings
from manager.webhook.certificate import Pair, ServingCertificate, issue
from manager.webhook.listener import Listener
from manager.webhook.metrics import WebhookMetrics
from manager.webhook.server import WebhookServer

Json = dict[str, Any]
NAMESPACE = "headroom-system"
NAME = "slo-controller-config"
KEY = "colocation-config"
_STORED = '{"enable": false}'
NAMES = ("headroom-manager-webhook.headroom-system.svc", "127.0.0.1")


def config_map(text: str | None, name: str = NAME, namespace: str = NAMESPACE) -> Json:
    applied = json.dumps({"apiVersion": "v1", "kind": "ConfigMap", "data": {KEY: text}})
    return {
        "apiVersion": "v1",
        "kind": "ConfigMap",
        "metadata": {
            "name": name,
            "namespace": namespace,
            "uid": "0b1ef3c2-7ad5-4f4d-8a3f-3b0f7d2f9a11",
            "resourceVersion": "4711",
            "creationTimestamp": "2026-11-21T10:00:00Z",
            "annotations": {"kubectl.kubernetes.io/last-applied-configuration": applied},
            "managedFields": [{"manager": "kubectl-edit", "operation": "Update", "apiVersion": "v1"}],
        },
        "data": {} if text is None else {KEY: text},
    }


def review(
    text: str | None = "{}",
    before: str | None = _STORED,
    operation: str = "UPDATE",
    name: str = NAME,
    namespace: str = NAMESPACE,
    *,
    resource: str = "configmaps",
    user: str = "kubernetes-admin",
) -> Json:
    kind = {"group": "", "version": "v1", "kind": "ConfigMap"}
    what = {"group": "", "version": "v1", "resource": resource}
    options = f"{operation.capitalize()}Options"
    is_write = operation in {"CREATE", "UPDATE"}
    return {
        "kind": "AdmissionReview",
        "apiVersion": "admission.k8s.io/v1",
        "request": {
            "uid": "f0d1ce9a-3f9d-4c66-9a43-0a7d4a3c1d55",
            "kind": kind,
            "resource": what,
            "requestKind": kind,
            "requestResource": what,
            "name": name,
            "namespace": namespace,
            "operation": operation,
            "userInfo": {"username": user, "groups": ["system:masters", "system:authenticated"]},
            "object": config_map(text, name, namespace) if is_write else None,
            "oldObject": None if operation == "CREATE" else config_map(before, name, namespace),
            "dryRun": False,
            "options": {"kind": options, "apiVersion": "meta.k8s.io/v1", "fieldManager": "kubectl-edit"},
        },
    }


def made(names: tuple[str, ...] = NAMES) -> Pair:
    return issue(names, time.time())


def kopf_handler() -> Callable[..., Awaitable[Any]]:
    """The webhook that kopf passes to a server, with our handler registered."""
    registry, insights = kopf.OperatorRegistry(), Insights()
    admission.register(registry)
    verbs = frozenset({"get", "list", "watch", "patch"})
    config_maps = Resource(group="", version="v1", plural="configmaps", kind="ConfigMap", namespaced=True, verbs=verbs)
    insights.webhook_resources.add(config_maps)
    registered: Any = {
        "settings": kopf.OperatorSettings(),
        "memories": ResourceMemories(),
        "memobase": Memo(),
        "indices": {},
    }
    return functools.partial(serve_admission_request, **registered, registry=registry, insights=insights)


class Served:
    def __init__(self, pair: Pair) -> None:
        self.metrics = ManagerMetrics()
        self.listener = Listener("127.0.0.1:0")
        self.pair = pair
        metrics = self.metrics.of(WebhookMetrics)
        self.serving = ServingCertificate(Settings(), NAMES, metrics)
        self.profiles = Profiles()
        self.server = WebhookServer(self.listener, self.serving, NAMESPACE, NAME, metrics, self.profiles)

    def count(self, result: str) -> float:
        name = "headroom_manager_webhook_reviews_total"
        return self.metrics.registry.get_sample_value(name, {"result": result}) or 0.0

    def trust(self) -> ssl.SSLContext:
        return ssl.create_default_context(cadata=self.pair.certificate.decode())

    async def post(self, body: Any, path: str = "/configmaps") -> tuple[int, Any]:  # noqa: ANN401 - JSON, or bytes
        """Ask on a new connection; status, and the JSON or text of the answer."""
        data = body if isinstance(body, bytes) else json.dumps(body).encode()
        connector = aiohttp.TCPConnector(ssl=self.trust(), force_close=True)
        headers = {"Content-Type": "application/json"}
        async with aiohttp.ClientSession(connector=connector, headers=headers) as session:
            url = f"https://127.0.0.1:{self.listener.port}{path}"
            async with session.post(url, data=io.BytesIO(data), server_hostname=NAMES[0]) as answer:
                text = await answer.text()
        return answer.status, json.loads(text) if answer.content_type == "application/json" else text

    async def ask(self, body: Any) -> dict[str, Any]:  # noqa: ANN401 - JSON
        status, answer = await self.post(body)
        assert status == 200, answer
        assert (answer["kind"], answer["apiVersion"]) == ("AdmissionReview", "admission.k8s.io/v1")
        return dict(answer["response"])


@asynccontextmanager
async def run(server: WebhookServer, fn: Callable[..., Awaitable[Any]]) -> AsyncIterator[None]:
    """Serve within a block, as kopf does: in a task that it cancels."""
    listening = asyncio.Event()

    async def serve() -> None:
        async with server:
            async for _ in server(fn):
                listening.set()

    task = asyncio.create_task(serve())
    waiting = asyncio.create_task(listening.wait())
    await asyncio.wait({task, waiting}, return_when=asyncio.FIRST_COMPLETED)
    try:
        if task.done():
            task.result()
        yield
    finally:
        for entry in (task, waiting):
            entry.cancel()
        await asyncio.gather(task, waiting, return_exceptions=True)


@asynccontextmanager
async def serving(fn: Callable[..., Awaitable[Any]] | None = None, pair: Pair | None = None) -> AsyncIterator[Served]:
    served = Served(pair or made())
    served.serving.load(served.pair)
    async with run(served.server, fn or kopf_handler()):
        yield served
    served.listener.close()
