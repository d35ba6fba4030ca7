import json
from typing import Any, cast

import pytest

from crds.names import ANNOTATION_COLOCATION_STRATEGY, LABEL_MID_STATIC_CPU_RATIO
from headroom.cli.config import diff as config_diff
from headroom.cli.config.file import ConfigFile
from headroom.cli.errors import FAILED
from headroom.kube import ApiServer
from tests.support.api import FakeApi
from tests.support.objects import node

MAPS = "/api/v1/namespaces/headroom-system/configmaps"
LIVE = '{"enable": true, "degradeTimeMinutes": 20}'
NEW = json.dumps(
    {
        "enable": True,
        "degradeTimeMinutes": 20,
        "nodeConfigs": [
            {"name": "gpu", "nodeSelector": {"matchLabels": {"gpu": "y"}}, "enable": False},
            {"name": "a", "nodeSelector": {"matchLabels": {"zone": "a"}}, "nodePredictPolicy": {"model": "sum-max"}},
        ],
    }
)


def _cluster(*nodes: dict[str, Any], text: str | None = LIVE, last_good: str | None = None) -> FakeApi:
    api = FakeApi()
    for each in nodes:
        api.put(f"/api/v1/nodes/{each['metadata']['name']}", each)
    for name, value in (("slo-controller-config", text), ("headroom-last-good-config", last_good)):
        if value is not None:
            api.put(f"{MAPS}/{name}", {"metadata": {"name": name}, "data": {"colocation-config": value}})
    return api


async def _diff(api: FakeApi, text: str, output: str = "table") -> int:
    file = ConfigFile("new.json", text)
    return await config_diff.run(cast("ApiServer", api), file, "headroom-system", "slo-controller-config", output)


async def test_equal_nodes_are_one_block(capsys: pytest.CaptureFixture[str]) -> None:
    """Thousands of nodes that change alike are one block with their number and some names; others have their own."""
    many = [node(f"a{i:04}", labels={"zone": "a", "kubernetes.io/hostname": f"a{i:04}"}) for i in range(3000)]
    both = node("both", labels={"zone": "a", "gpu": "y"})
    assert await _diff(_cluster(*many, both, node("plain")), NEW) == 0
    lines = [" ".join(line.split()) for line in capsys.readouterr().out.splitlines()]
    assert lines == [
        "new.json compared with ConfigMap headroom-system/slo-controller-config",
        "The strategy of 3001 of 3002 nodes would change:",
        "",
        "3000 nodes (a0000, a0001, a0002, a0003, a0004 and 2995 more):",
        "FIELD OLD FROM NEW FROM",
        "nodePredictPolicy.model diversity default sum-max nodeConfigs[1] a",
        "nodePredictPolicy.safetyMarginPercent 0 default 10 default",
        "",
        "1 node (both):",
        "FIELD OLD FROM NEW FROM",
        "enable true cluster false nodeConfigs[0] gpu",
        "",
        "Nodes that match several entries:",
        "- nodeConfigs[1] a matches 1 node (both) too, but nodeConfigs[0] gpu comes first and applies there",
    ]


async def test_own_layers_of_nodes_stay(capsys: pytest.CaptureFixture[str]) -> None:
    """A value that a node's annotation or label sets does not change with the config."""
    own = node("own", annotations={ANNOTATION_COLOCATION_STRATEGY: '{"degradeTimeMinutes": 7}'})
    labelled = node("labelled", labels={LABEL_MID_STATIC_CPU_RATIO: "0.2"})
    text = '{"enable": true, "degradeTimeMinutes": 30, "midStaticCPUReservedPercent": 40}'
    assert await _diff(_cluster(own, labelled), text, "json") == 0
    found = json.loads(capsys.readouterr().out)
    changed = [(change["nodes"], [each["path"] for each in change["fields"]]) for change in found["changes"]]
    assert changed == [(["labelled"], ["degradeTimeMinutes"]), (["own"], ["midStaticCPUReservedPercent"])]
    assert found["changes"][0]["fields"][0] == {
        "path": "degradeTimeMinutes",
        "old": 20,
        "oldSource": "cluster",
        "new": 30,
        "newSource": "cluster",
    }


@pytest.mark.parametrize(
    ("text", "last_good", "says"),
    [
        (LIVE, None, "new.json compared with ConfigMap headroom-system/slo-controller-config"),
        (None, None, "new.json compared with the defaults: there is no ConfigMap headroom-system/slo-"),
        ("{", LIVE, "new.json compared with the last good one in force: ConfigMap headroom-system/slo-"),
        ("{", None, "new.json compared with the defaults in force: ConfigMap headroom-system/slo-"),
    ],
)
async def test_compared_with_what_is_in_force(
    text: str | None, last_good: str | None, says: str, capsys: pytest.CaptureFixture[str]
) -> None:
    """The file is compared with what is in force, which need not be what stands in the ConfigMap."""
    assert await _diff(_cluster(node("n1"), text=text, last_good=last_good), LIVE) == 0
    lines = capsys.readouterr().out.splitlines()
    assert lines[0].startswith(says)
    same = LIVE in (text, last_good)
    assert lines[1].startswith(
        "The strategy of none of 1 node" if same else "The strategy of 1 of 1 node would change:"
    )


async def test_refused_text_changes_nothing(capsys: pytest.CaptureFixture[str]) -> None:
    """A text that would be refused as a whole has no diff, but its errors, and exit code 1."""
    assert await _diff(_cluster(node("n1")), '{"enabl": true}') == FAILED
    assert "unknown field: did you mean enable?" in capsys.readouterr().out


async def test_excluded_nodes_are_left_out(capsys: pytest.CaptureFixture[str]) -> None:
    virtual = node("virtual", labels={"type": "virtual-kubelet"})
    assert await _diff(_cluster(node("n1"), virtual), '{"enable": false}') == 0
    said = capsys.readouterr().out
    assert "Left out: 1 of 2 nodes" in said
    assert "1 node (n1):" in said
