"""The admission webhook of the colocation config: registered, trusted, with somebody behind it, and answering."""

import base64
import binascii
import ssl
from collections.abc import AsyncIterator, Mapping, Sequence
from typing import Any, Final

from crds.names import CONFIG_MAP_KEY
from headroom import kube
from headroom.cli import manager_state
from headroom.cli.doctor.cluster import Site
from headroom.cli.doctor.finding import Finding, info, ok, warning
from headroom.cli.doctor.installed import config_name, upgrade, workload
from headroom.cli.doctor.objects import MANAGER, PART
from headroom.cli.doctor.rights import CONFIG_MAPS, ENDPOINT_SLICES, VALIDATING, WEBHOOK

_SERVICE: Final = "headroom-manager-webhook"
_SLICE_LABEL: Final = "kubernetes.io/service-name"
_PAGE: Final = "troubleshooting.md"
_DAY_SECONDS: Final = 86400.0
_WRONG: Final = '{"kubectl headroom doctor": '

Json = Mapping[str, Any]


async def check(site: Site) -> AsyncIterator[Finding]:
    """Whether an edit of the config is judged before it is stored."""
    if manager_state.flag(await workload(site, MANAGER), "--webhook-listen") is None:
        yield info(
            "The admission webhook is off: a wrong colocation config is stored, and then told about in events.",
            docs="configuration.md",
        )
        return
    found = await site.one(VALIDATING, WEBHOOK)
    if found is None or not found.get("webhooks"):
        yield warning(
            f"There is no ValidatingWebhookConfiguration {WEBHOOK}, so no edit of the colocation config is judged.",
            upgrade(site),
            _PAGE,
        )
        return
    problems = [*_trust(site, found["webhooks"][0]), *_scope(site, found["webhooks"][0], await config_name(site))]
    problems += _behind(site, await site.every(ENDPOINT_SLICES))
    for problem in problems:
        yield problem
    if not problems:
        yield await _tried(site, await config_name(site))


def _trust(site: Site, webhook: Json) -> list[Finding]:
    """Whether the API servers have an authority by which they trust the manager, and until when."""
    bundle = (webhook.get("clientConfig") or {}).get("caBundle")
    logs = f"kubectl -n {site.namespace} logs -l {PART}={MANAGER} --tail=-1 | grep -i certificate"
    if not bundle:
        text = "has no authority to trust (caBundle): the manager, or cert-manager, has not written it yet"
        return [warning(f"The webhook {text}, so edits pass unjudged.", logs, _PAGE)]
    left = days_left(str(bundle), site.now())
    if left is None:
        return [warning("The webhook's authority (caBundle) is no certificate, so edits pass unjudged.", logs, _PAGE)]
    if left < 0:
        return [
            warning(f"The webhook's authority ended {-left:.0f} days ago, so edits pass unjudged.", logs, "security.md")
        ]
    return []


def days_left(bundle: str, now: float) -> float | None:
    """How long the last of the authorities holds; None for a bundle without certificates. [days]

    Args:
        bundle: base64 of PEM.
        now: the time. [unix s]
    """
    try:
        tls = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
        tls.load_verify_locations(cadata=base64.b64decode(bundle).decode("ascii"))
    except (ssl.SSLError, binascii.Error, ValueError):
        return None
    ends = [ssl.cert_time_to_seconds(str(each["notAfter"])) for each in tls.get_ca_certs()]
    return (max(ends) - now) / _DAY_SECONDS if ends else None


def _scope(site: Site, webhook: Json, config: str) -> list[Finding]:
    """Whether it is asked about the ConfigMap that the manager reads."""
    conditions = " ".join(str(each.get("expression")) for each in webhook.get("matchConditions") or ())
    if not conditions or f'"{config}"' in conditions:
        return []
    return [
        warning(
            f"The webhook is not asked about ConfigMap {site.namespace}/{config}, which the manager reads.",
            upgrade(site, f"configMap.name={config}", by_hand=True),
            "configuration.md",
        )
    ]


def _behind(site: Site, slices: Sequence[Json]) -> list[Finding]:
    """Whether a manager stands behind its Service."""
    ours = [each for each in slices if (each["metadata"].get("labels") or {}).get(_SLICE_LABEL) == _SERVICE]
    ready = [
        endpoint
        for each in ours
        for endpoint in each.get("endpoints") or ()
        if (endpoint.get("conditions") or {}).get("ready", True)
    ]
    if ready:
        return []
    return [
        warning(
            f"No manager stands behind Service {site.namespace}/{_SERVICE}, so edits pass unjudged.",
            f"kubectl -n {site.namespace} get endpointslices -l {_SLICE_LABEL}={_SERVICE}",
            _PAGE,
        )
    ]


async def _tried(site: Site, config: str) -> Finding:
    """What the API server says of a wrong edit that is a dry run, where this login may edit at all."""
    right = {"verb": "patch", "group": "", "resource": "configmaps", "namespace": site.namespace, "name": config}
    (allowed,) = await site.i_may([right])
    if not allowed or await site.one(CONFIG_MAPS, config) is None:
        why = "there is no ConfigMap to try it on" if allowed else "this login may not edit the ConfigMap"
        return ok(f"The webhook is registered and trusted, and a manager is ready for it; not tried, because {why}.")
    answer = await _answer(site, config)
    if answer == "judged":
        return ok("The webhook answers: a wrong colocation config was refused (a dry run, nothing was stored).")
    if answer == "passed":
        return warning(
            "A wrong colocation config passes (a dry run, nothing was stored): the API server does not reach the "
            "manager's webhook. Let API servers reach port 9443 of the manager's pods (firewall, NetworkPolicy).",
            f"kubectl -n {site.namespace} describe networkpolicies",
            _PAGE,
        )
    see = f"kubectl -n {site.namespace} get configmap {config}"
    return warning(f"The webhook could not be tried: {answer}.", see, _PAGE)


async def _answer(site: Site, config: str) -> str:
    """Whether it was judged or passed, or what else happened."""
    path = f"{CONFIG_MAPS.path(site.namespace)}/{config}"
    try:
        await site.api.patch(path, {"data": {CONFIG_MAP_KEY: _WRONG}}, params={"dryRun": "All"})
    except kube.ApiError as refused:
        return "judged" if "admission webhook" in refused.message else str(refused)
    return "passed"
