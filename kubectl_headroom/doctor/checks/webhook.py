"""The admission webhook of the colocation config: registered, trusted, with a manager behind it, and answering."""

import base64
import binascii
import ssl
from collections.abc import AsyncIterator, Iterator, Mapping
from typing import Any, Final

from crds.names import CONFIG_MAP_KEY
from headroom import kube
from kubectl_headroom import manager_state
from kubectl_headroom.doctor.cluster import Cluster
from kubectl_headroom.doctor.finding import Finding, info, ok, warning
from kubectl_headroom.doctor.installation import upgrade
from kubectl_headroom.doctor.objects import COMPONENT, MANAGER, labels
from kubectl_headroom.doctor.permissions import CONFIG_MAPS, ENDPOINT_SLICES, VALIDATING, WEBHOOK

_SERVICE: Final = "headroom-manager-webhook"
_SERVICE_LABEL: Final = "kubernetes.io/service-name"
_DAY_SECONDS: Final = 86400.0
_WRONG_CONFIG: Final = '{"kubectl headroom doctor": '

Json = Mapping[str, Any]


async def check(cluster: Cluster) -> AsyncIterator[Finding]:
    """Return whether an edit of the config is evaluated before it is stored."""
    if manager_state.flag(cluster.workload(MANAGER), "--webhook-listen") is None:
        yield info(
            "The admission webhook is off: a wrong colocation config is stored, and reported in events.",
            docs="configuration.md",
        )
        return
    result = (cluster.get(VALIDATING, WEBHOOK) or {}).get("webhooks")
    if not result:
        message = (
            f"There is no ValidatingWebhookConfiguration {WEBHOOK}, so no edit of the colocation config is evaluated."
        )
        yield warning(message, upgrade(cluster))
        return
    problems = [*_authority(cluster, result[0]), *_scope(cluster, result[0]), *_endpoints(cluster)]
    for problem in problems:
        yield problem
    if not problems:
        yield await _tried(cluster, cluster.config_name)


def _authority(cluster: Cluster, webhook: Json) -> Iterator[Finding]:
    """Return whether the API servers have an authority by which they trust the manager, and until when."""
    bundle = (webhook.get("clientConfig") or {}).get("caBundle")
    days = _days_left(str(bundle or ""), cluster.now())
    logs = f"kubectl -n {cluster.namespace} logs -l {COMPONENT}={MANAGER} --tail=-1 | grep -i certificate"
    if not bundle:
        text = "has no authority to trust (caBundle): the manager, or cert-manager, has not written it yet"
        yield warning(f"The webhook {text}, so edits are not checked.", logs)
    elif days is None:
        yield warning("The webhook's authority (caBundle) is no certificate, so edits are not checked.", logs)
    elif days < 0:
        message = f"The webhook's authority ended {-days:.0f} days ago, so edits are not checked."
        yield warning(message, logs, docs="security.md")


def _days_left(bundle: str, now: float) -> float | None:
    """Return the time to the last expiry in a base64 PEM bundle [days] at a time [unix s]; None: no certificates."""
    try:
        tls = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
        tls.load_verify_locations(cadata=base64.b64decode(bundle).decode("ascii"))
    except (ssl.SSLError, binascii.Error, ValueError):
        return None
    ends = [ssl.cert_time_to_seconds(str(cert["notAfter"])) for cert in tls.get_ca_certs()]
    return (max(ends) - now) / _DAY_SECONDS if ends else None


def _scope(cluster: Cluster, webhook: Json) -> Iterator[Finding]:
    """Return whether it is called for the ConfigMap that the manager reads."""
    config = cluster.config_name
    conditions = " ".join(str(condition.get("expression")) for condition in webhook.get("matchConditions") or ())
    if conditions and f'"{config}"' not in conditions:
        message = f"The webhook is not called for ConfigMap {cluster.namespace}/{config}, which the manager reads."
        yield warning(message, upgrade(cluster, f"configMap.name={config}", force=True), docs="configuration.md")


def _endpoints(cluster: Cluster) -> Iterator[Finding]:
    """Return whether a manager is behind its Service."""
    slices = [item for item in cluster.list(ENDPOINT_SLICES) if labels(item).get(_SERVICE_LABEL) == _SERVICE]
    endpoints = [endpoint for item in slices for endpoint in item.get("endpoints") or ()]
    if not any((endpoint.get("conditions") or {}).get("ready", True) for endpoint in endpoints):
        yield warning(
            f"No manager is ready behind Service {cluster.namespace}/{_SERVICE}, so edits are not checked.",
            f"kubectl -n {cluster.namespace} get endpointslices -l {_SERVICE_LABEL}={_SERVICE}",
        )


async def _tried(cluster: Cluster, config: str) -> Finding:
    """Return the API server's response to a wrong edit as a dry run, where this login may edit at all."""
    namespace = cluster.namespace
    patch = {"verb": "patch", "group": "", "resource": "configmaps", "namespace": namespace, "name": config}
    (allowed,) = await cluster.i_may([patch])
    if not allowed or cluster.get(CONFIG_MAPS, config) is None:
        why = "there is no ConfigMap to try it on" if allowed else "this login may not edit the ConfigMap"
        return ok(f"The webhook is registered and trusted, and a manager is ready for it; not tried, because {why}.")
    path, wrong = f"{CONFIG_MAPS.path(namespace)}/{config}", {"data": {CONFIG_MAP_KEY: _WRONG_CONFIG}}
    try:
        await cluster.api.patch(path, wrong, params={"dryRun": "All"})
    except kube.ApiError as refused:
        if "admission webhook" in refused.message:
            return ok("The webhook answers: a wrong colocation config was refused (a dry run, nothing was stored).")
        see = f"kubectl -n {namespace} get configmap {config}"
        return warning(f"The webhook could not be tried: {refused}.", see)
    port = (manager_state.flag(cluster.workload(MANAGER), "--webhook-listen") or "").rpartition(":")[2]
    return warning(
        "A wrong colocation config passes (a dry run, nothing was stored): the API server does not reach the manager's "
        f"webhook. Let API servers reach port {port} of the manager's pods (firewall, NetworkPolicy).",
        f"kubectl -n {namespace} describe networkpolicies",
    )
