"""`kubectl headroom explain node NAME`: reads, then prints."""

import sys
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from crds import shadow_accounts
from crds.names import LAST_GOOD_NAME
from headroom import kube
from kubectl_headroom import live, manager_state, table
from kubectl_headroom import output as outputs
from kubectl_headroom.config import file as config_file
from kubectl_headroom.explain import text as explain_text
from kubectl_headroom.explain.what_if import what_if
from manager.api import (
    ConfigState,
    Explanation,
    Lease,
    NodeFilter,
    ObservedNode,
    WhatIf,
    config_state,
    explain,
    findings,
    lease_of,
)
from manager.api import document as explain_json


def trial(settings: Sequence[str], config: str | None) -> WhatIf | None:
    """Check `--set` and `--config` before any request.

    Raises:
        CommandError: a setting or the file is refused.
    """
    return what_if(settings, config_file.read(config) if config else None)


async def node(
    api: kube.ApiServer, name: str, namespace: str, config_name: str, output: str, tried: WhatIf | None = None
) -> None:
    """Print why a node has the Mid resources it has.

    Args:
        api: the cluster.
        name: name of the node.
        namespace: where Headroom's ConfigMap is.
        config_name: name of that ConfigMap.
        output: one of `kubectl_headroom.output.CHOICES`.
        tried: what to try instead of how it is.

    Raises:
        CommandError: there is no such node, or the cluster does not know NodeMetrics.
    """
    result, metric, pods, settings, kept = await live.together(
        live.node(api, name),
        live.node_metric(api, name),
        live.objects(api, kube.paths.PODS, fieldSelector=f"spec.nodeName={name}"),
        read_settings(api, namespace, config_name, api.server_time),
        live.if_allowed(api, kube.paths.config_map(namespace, shadow_accounts.name_of(name))),
    )
    account = shadow_accounts.read(kept).get(name)
    observed = ObservedNode(
        result,
        metric,
        pods,
        api.server_time(),
        lease=settings.lease,
        exclusion=settings.exclusion,
        shadow=account.account if account and account.node_uid == result["metadata"].get("uid") else None,
    )
    explanation = explain(observed, settings.config, tried)
    if outputs.is_for_people(output):
        show(explanation)
    else:
        outputs.show(as_json(explanation), output)


def as_json(explanation: Explanation) -> dict[str, Any]:
    """The explanation for programs: the document of the manager's page, as an object of Kubernetes."""
    content = explain_json.as_json(explanation)
    return {"kind": content["kind"], "metadata": {"name": explanation.node}, **content}


@dataclass(frozen=True, slots=True)
class Settings:
    """The settings of every node."""

    config: ConfigState  # the colocation config in force
    lease: Lease | None  # of the manager that writes
    exclusion: NodeFilter  # which nodes the manager leaves alone


async def read_settings(api: kube.ApiServer, namespace: str, config_name: str, clock: live.Clock) -> Settings:
    """Read the settings of every node.

    Args:
        api: the cluster.
        namespace: where Headroom's ConfigMap is.
        config_name: name of that ConfigMap.
        clock: the time to measure ages from, once all is read.
    """
    config_map, last_good, lease, deployment = await live.together(
        live.config_map(api, namespace, config_name),
        live.config_map(api, namespace, LAST_GOOD_NAME),
        live.if_allowed(api, kube.paths.lease(namespace, manager_state.NAME)),
        live.if_allowed(api, manager_state.deployment_path(namespace)),
    )
    now = clock()
    config = config_state(config_map, last_good, f"{namespace}/{config_name}", now)
    return Settings(config, lease_of(lease, now), manager_state.exclusion(deployment))


def show(explanation: Explanation, notes: Sequence[str] = ()) -> None:
    """Print the explanation: the answer, why (the notes first), every number, the strategy."""
    first, *rest = explain_text.sections(explanation)
    _show_section(first)
    for sentence in (*notes, *findings(explanation)):
        outputs.line(f"- {sentence}")
    for section in rest:
        outputs.line()
        _show_section(section)


def _show_section(section: explain_text.Section) -> None:
    heading, columns, rows = section
    outputs.line(heading)
    table.write(columns, rows, sys.stdout)
