"""A small server of the resource metrics API (metrics.k8s.io), fed by NodeMetrics, behind the aggregation layer."""

import base64
import json
import socket
import ssl
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from threading import Thread
from typing import Any, Final

from tests.scheduler_plugins.extenders import until
from tests.scheduler_plugins.stage import METRICS
from tools.devcluster import Cluster

GROUP: Final = "/apis/metrics.k8s.io/v1beta1"
NAMESPACE: Final = "metrics-api"
NAME: Final = "metrics"
_APISERVICES: Final = "/apis/apiregistration.k8s.io/v1/apiservices"

Json = dict[str, Any]


def own_address() -> str:
    """An address of this machine that is not the loopback, which an endpoint may not have."""
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as probe:
        probe.connect(("192.0.2.1", 9))  # sends nothing
        return str(probe.getsockname()[0])


def listed(cluster: Cluster) -> Json:
    items = []
    for metric in cluster.api.get(METRICS)["items"]:
        status = metric.get("status") or {}
        usage = ((status.get("nodeMetric") or {}).get("nodeUsage") or {}).get("resources")
        if usage:
            name = {"name": metric["metadata"]["name"]}
            items.append({"metadata": name, "timestamp": status["updateTime"], "window": "30s", "usage": usage})
    return {"kind": "NodeMetricsList", "apiVersion": "metrics.k8s.io/v1beta1", "metadata": {}, "items": items}


@contextmanager
def serving(cluster: Cluster) -> Iterator[ThreadingHTTPServer]:
    """Serve, and register it with the API server, until the block ends."""
    address = own_address()
    discovery = {
        "kind": "APIResourceList",
        "apiVersion": "v1",
        "groupVersion": "metrics.k8s.io/v1beta1",
        "resources": [
            {"name": "nodes", "singularName": "", "namespaced": False, "kind": "NodeMetrics", "verbs": ["list"]}
        ],
    }

    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            path = self.path.partition("?")[0]
            found = listed(cluster) if path == f"{GROUP}/nodes" else discovery
            body = json.dumps(found).encode()
            self.send_response(200 if path in (GROUP, f"{GROUP}/nodes") else 404)
            self.send_header("Content-Type", "application/json")
            self.send_header("Content-Length", str(len(body)))
            self.end_headers()
            self.wfile.write(body)

        def log_message(self, *_: object) -> None:
            pass

    pki = cluster.control_plane.pki
    pair = pki.server("metrics-api", [address], [f"{NAME}.{NAMESPACE}.svc"])
    tls = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH)
    tls.load_cert_chain(pair.cert, pair.key)
    with ThreadingHTTPServer((address, 0), Handler) as server:
        server.socket = tls.wrap_socket(server.socket, server_side=True)
        Thread(target=server.serve_forever, args=(0.05,), daemon=True).start()
        try:
            _register(cluster, address, server.server_address[1], pki.ca.read_bytes())
            yield server
        finally:
            server.shutdown()
            # An API that nobody serves would keep namespaces from going away.
            cluster.api.request("DELETE", f"{_APISERVICES}/v1beta1.metrics.k8s.io")


def _register(cluster: Cluster, address: str, port: int, authority: bytes) -> None:
    cluster.create_namespace(NAMESPACE)
    service = {"metadata": {"name": NAME}, "spec": {"ports": [{"name": "https", "port": 443, "targetPort": port}]}}
    endpoints = {
        "metadata": {"name": NAME, "labels": {"kubernetes.io/service-name": NAME}},
        "addressType": "IPv4",
        "ports": [{"name": "https", "port": port}],
        "endpoints": [{"addresses": [address], "conditions": {"ready": True}}],
    }
    registration = {
        "metadata": {"name": "v1beta1.metrics.k8s.io"},
        "spec": {
            "group": "metrics.k8s.io",
            "version": "v1beta1",
            "groupPriorityMinimum": 100,
            "versionPriority": 100,
            "service": {"name": NAME, "namespace": NAMESPACE, "port": 443},
            "caBundle": base64.b64encode(authority).decode(),
        },
    }
    cluster.api.create_all(
        [
            (f"/api/v1/namespaces/{NAMESPACE}/services", service),
            (f"/apis/discovery.k8s.io/v1/namespaces/{NAMESPACE}/endpointslices", endpoints),
            (_APISERVICES, registration),
        ]
    )

    def available() -> bool:
        status = cluster.api.get(f"{_APISERVICES}/v1beta1.metrics.k8s.io").get("status") or {}
        conditions = {each["type"]: each["status"] for each in status.get("conditions") or ()}
        return conditions.get("Available") == "True"

    until(
        available,
        lambda: f"metrics.k8s.io being available: {cluster.api.get(f'{_APISERVICES}/v1beta1.metrics.k8s.io')}",
    )
