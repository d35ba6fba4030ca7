"""The webhooks of the profiles: one for each, so that API servers match namespaces and labels."""

import hashlib
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, Final

from manager.profiles.profile import Profile, selector_json

PATH: Final = "profiles/"
"""Path of the webhooks, with the name of the profile behind it."""
_SUFFIX: Final = ".profiles.headroom.dev"
_KOORDINATOR: Final = ".koordinator.sh"
"""The end of the name of each webhook of Koordinator."""
_LONGEST_NAME: Final = 253
_TIMEOUT_SECONDS: Final = 2
_NO_STATIC_PODS: Final = {
    "name": "not-a-static-pod",
    "expression": (
        "!has(object.metadata.annotations) || !('kubernetes.io/config.mirror' in object.metadata.annotations)"
    ),
}

Json = dict[str, Any]


def webhooks(profiles: Iterable[Profile], namespace: str, service: str) -> list[Json]:
    """Return the webhooks of a MutatingWebhookConfiguration, with all fields but the authority to trust.

    Args:
        profiles: the profiles in force.
        namespace: the manager's.
        service: Service of the manager's webhook.
    """
    return [_webhook(profile, namespace, service) for profile in profiles if profile.percent]


def excluded_namespaces(namespace: str) -> tuple[str, str]:
    """Return the namespaces in which no profile matches: kube-system and the manager's."""
    return "kube-system", namespace


def with_authority(wanted: Sequence[Json], present: Sequence[Json], authority: str) -> list[Json]:
    """Return webhooks with the authority that API servers trust.

    Args:
        wanted: the webhooks.
        present: the webhooks of the cluster, of which each keeps its authority.
        authority: of a new webhook where no present one has any; empty: cert-manager adds it.
    """
    trusted = {str(hook.get("name")): str((hook.get("clientConfig") or {}).get("caBundle") or "") for hook in present}
    usual = next((bundle for bundle in trusted.values() if bundle), authority)
    result = []
    for hook in wanted:
        bundle = trusted.get(hook["name"]) or usual
        client = {**hook["clientConfig"], **({"caBundle": bundle} if bundle else {})}
        result.append({**hook, "clientConfig": client})
    return result


def changes_pods_of_koordinator(configurations: Iterable[Json]) -> str:
    """Return the MutatingWebhookConfiguration with which a Koordinator applies profiles; empty: there is none."""
    for configuration in configurations:
        for hook in configuration.get("webhooks") or ():
            of_koordinator = str(hook.get("name")).endswith(_KOORDINATOR)
            if of_koordinator and any("pods" in (rule.get("resources") or ()) for rule in hook.get("rules") or ()):
                return str(configuration["metadata"]["name"])
    return ""


def name_of(profile: str) -> str:
    """Return the name of a profile's webhook; of a long name the end is a hash."""
    if len(profile) + len(_SUFFIX) <= _LONGEST_NAME:
        return f"{profile}{_SUFFIX}"
    digest = hashlib.sha256(profile.encode()).hexdigest()[:16]
    return f"{profile[: _LONGEST_NAME - len(_SUFFIX) - 17].rstrip('.-')}-{digest}{_SUFFIX}"


def _webhook(profile: Profile, namespace: str, service: str) -> Json:
    spec = profile.spec
    namespaces: Mapping[str, Any] = {} if spec.namespace_selector is None else selector_json(spec.namespace_selector)
    excluded = {"key": "kubernetes.io/metadata.name", "operator": "NotIn", "values": [*excluded_namespaces(namespace)]}
    return {
        "name": name_of(profile.name),
        "clientConfig": {
            "service": {"name": service, "namespace": namespace, "path": f"/{PATH}{profile.name}", "port": 443}
        },
        "rules": [
            {
                "apiGroups": [""],
                "apiVersions": ["v1"],
                "operations": ["CREATE"],
                "resources": ["pods"],
                "scope": "Namespaced",
            }
        ],
        "namespaceSelector": {
            **namespaces,
            "matchExpressions": [*(namespaces.get("matchExpressions") or ()), excluded],
        },
        "objectSelector": {} if spec.selector is None else selector_json(spec.selector),
        "matchConditions": [_NO_STATIC_PODS],
        "matchPolicy": "Equivalent",
        "failurePolicy": "Ignore",
        # A second review would change more than the share of the pods.
        "reinvocationPolicy": "IfNeeded" if profile.changes_all else "Never",
        "sideEffects": "None",
        "timeoutSeconds": _TIMEOUT_SECONDS,
        "admissionReviewVersions": ["v1"],
    }
