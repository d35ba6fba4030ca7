"""No value of the chart is accepted and ignored."""

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any, Final

import pytest

from tests.charts.readme import CHART, values
from tests.charts.rendered import Helm
from tools.devcluster import CommandError

pytestmark = pytest.mark.helm

Json = dict[str, Any]

OTHERS: Final[Json] = {
    "registry": "r.io",
    "digest": f"sha256:{'0' * 64}",
    "imagePullPolicy": "Always",
    "colocationConfig": {"enable": True},
    "metricsFrom": [{"podSelector": {}}],
    "watcherFrom": [{"podSelector": {}}],
    "webhookFrom": ["10.0.0.0/8"],
    "apiServers": ["10.0.0.0/8"],
    "apiServerPorts": [1],
    "schedulerTo": [{"to": [{"podSelector": {}}]}],
    "predictPolicy": {"safetyMarginPercent": 5},
    "extraArgs": ["--flag"],
    "affinity": {"podAffinity": {}},
    "tolerations": [{"key": "a"}],
    "topologySpreadConstraints": [{"maxSkew": 1, "topologyKey": "a", "whenUnsatisfiable": "DoNotSchedule"}],
    "dnsPolicy": "ClusterFirst",
    "extraEnv": [{"name": "A"}],
    "extraVolumes": [{"name": "a"}],
    "extraVolumeMounts": [{"name": "a", "mountPath": "/a"}],
    "extraContainers": [{"name": "a", "image": "a"}],
    "podSecurityContext": {"runAsUser": 1},
    "securityContext": {"procMount": "Default"},
    "maxUnavailable": 7,
    "updateStrategy": {"rollingUpdate": {"maxUnavailable": 7}},
    "resources": {"limits": {"cpu": 7}},
    "certificates": "cert-manager",
    "issuer": {"name": "a"},
    "admission": "policy",
    "mode": "weighted",
    "clientConnection": {"qps": 7},
    "profile": {"inFlightSeconds": 7},
    "interval": "7s",
    "runbooks": "https://example.com",
}
"""Another content, by the last part of a value's name; text, numbers and labels without one are changed a little."""
BASES: Final[tuple[Json, ...]] = (
    {"image": {"registry": "localhost"}},
    {
        "global": {"imageRegistry": "localhost"},
        "networkPolicy": {"egress": {"enabled": True}},
        "manager": {"ui": {"enabled": False}, "webhook": {"certificates": "cert-manager"}},
        "scheduler": {"watcher": {"enabled": True}},
        "prometheus": {"podMonitor": True, "alerts": True},
    },
)
"""Values to which one is added: the defaults, and parts that other values depend on."""


def other(name: str, default: Any) -> Any:  # noqa: ANN401 - JSON
    """Return another valid content of a value."""
    if name in OTHERS:
        return OTHERS[name]
    if isinstance(default, bool):
        return not default
    if isinstance(default, int | float):
        return default + 7
    if isinstance(default, str):
        return f"{default}x"
    return [*default, "x"] if isinstance(default, list) else {**default, "a": "b"}


def merged(base: Json, path: tuple[str, ...], content: Any) -> Json:  # noqa: ANN401 - JSON
    head, *rest = path
    return {**base, head: merged(base.get(head, {}), tuple(rest), content) if rest else content}


@pytest.fixture(scope="module")
def rendering(helm: Helm, tmp_path_factory: pytest.TempPathFactory) -> Callable[[Json], str | None]:
    """The rendered text of values; None for values that the chart refuses together."""
    file: Path = tmp_path_factory.mktemp("values") / "values.yaml"

    def render(content: Json) -> str | None:
        file.write_text(json.dumps(content))
        try:
            return helm("template", "headroom", CHART, "-f", file)
        except CommandError:
            return None

    return render


def test_every_value_has_an_effect(rendering: Callable[[Json], str | None]) -> None:
    """Another content of any value renders other objects, with the defaults or with the parts that it belongs to."""
    before = [rendering(base) for base in BASES]
    ignored = []
    for value in values((CHART / "values.yaml").read_text()):
        if value.default is None:
            continue
        content = other(value.path[-1], json.loads(value.default))
        after = (rendering(merged(base, value.path, content)) for base in BASES)
        if all(text in {None, unchanged} for text, unchanged in zip(after, before, strict=True)):
            ignored.append(value.name)
    assert None not in before
    assert ignored == []
