"""What counts against the limits of evictions, and who may set them."""

import json
from typing import Any

import pytest

from crds.names import ANNOTATION_COLOCATION_STRATEGY
from headroom.kube import ApiError, ApiUnavailable
from headroom.kube.lease import NotLeading
from manager.config.merge import effective_strategy
from manager.config.parse import parse_config
from manager.mid.eviction.limits import EvictionSettings
from manager.reconcile.steps.eviction import ClusterEvictionState
from tests.manager.mid.eviction.made_mid import three
from tests.manager.mid.eviction.stage import PODS, Stage
from tests.support.objects import Json, at


async def _fails_then_evicts(stage: Stage, error: Exception, part: str) -> None:
    """One eviction fails in some way; at the next look the server is fine again."""
    stage.api.fails[part] = error
    with pytest.raises((ApiError, ApiUnavailable)):
        await stage.lasts()
    stage.api.fails.clear()
    stage.later(5)
    stage.report()
    await stage.reconcile()


@pytest.mark.parametrize(
    ("error", "part"),
    [
        (ApiUnavailable("overloaded", status=429), "/eviction"),
        (ApiUnavailable("broken", status=500), "/eviction"),
        (ApiUnavailable("away"), "/eviction"),
        (NotLeading("lapsed"), "/eviction"),
        (ApiUnavailable("away"), "GET /api/v1/namespaces/shop/pods/young"),
        (ApiError(403, "Forbidden", "no"), "GET /api/v1/namespaces/shop/pods/young"),
    ],
)
async def test_failed_eviction_keeps_no_place(error: Exception, part: str) -> None:
    """An eviction that failed does not count against the limits when it is asked for again; then it counts once."""
    stage = Stage(*three(), cpu="0", maxPerNodePerMinute=1, maxPerMinute=1)
    await _fails_then_evicts(stage, error, part)
    assert stage.api.objects[f"{PODS}/young"]["metadata"]["deletionTimestamp"]
    everywhere, now = stage.context.state_of(ClusterEvictionState), stage.steady.now
    assert (everywhere.rate.free_at(1, now), everywhere.rate.free_at(2, now)) == (now + 60, now)


async def test_lost_answer_counts() -> None:
    """An eviction that was taken though its answer was lost keeps its place."""
    stage = Stage(*three(), cpu="0", maxPerNodePerMinute=1)
    stage.api.refused["young"] = ApiUnavailable("no answer in time")
    with pytest.raises(ApiUnavailable):
        await stage.lasts()
    stage.api.objects[f"{PODS}/young"]["metadata"]["deletionTimestamp"] = at(0)
    stage.later(5)
    stage.report()
    await stage.reconcile()
    stage.see()
    stage.later(5)
    await stage.reconcile()
    assert stage.evicted() == ["young"]


@pytest.mark.parametrize("error", [ApiUnavailable("no answer in time"), NotLeading("lapsed")])
async def test_lost_answer_is_told(error: Exception, monkeypatch: pytest.MonkeyPatch) -> None:
    """A pod that goes though the answer did not come has been evicted, and nobody has to find out why it went."""
    stage = Stage(*three(), cpu="0", maxPerNodePerMinute=1)
    create = stage.api.create

    async def lost(path: str, body: Json, params: Any = None) -> Json:  # noqa: ANN401 - as the API has it
        answer = await create(path, body, params)
        if path.endswith("/eviction"):
            raise error
        return answer

    monkeypatch.setattr(stage.api, "create", lost)
    await stage.lasts()
    assert stage.evicted() == ["young"]
    assert [note for note in stage.reported("MidPodEvicted") if "shop/young" in note]


def test_one_node_raises_no_limit() -> None:
    """A node's annotation lowers limits of evictions and raises none; an entry does not raise the cluster's."""
    document = {
        "midEviction": {"maxPerMinute": 20, "maxPerNodePerMinute": 2},
        "nodeConfigs": [
            {
                "nodeSelector": {"matchLabels": {"pool": "a"}},
                "midEviction": {"maxPerMinute": 50, "maxPerNodePerMinute": 5},
            }
        ],
    }
    judged = parse_config(json.dumps(document))
    assert judged.config is not None
    assert ["the cluster's part allows 20" in str(each) for each in judged.warnings] == [True]

    def limits(labels: dict[str, str], **annotation: int) -> tuple[int, int]:
        text = {ANNOTATION_COLOCATION_STRATEGY: json.dumps({"midEviction": annotation})} if annotation else {}
        assert judged.config is not None
        effective = effective_strategy(judged.config, labels, text)
        assert len(effective.findings) == sum(value > 5 for value in annotation.values())
        settings = EvictionSettings.of(effective.strategy)
        return settings.per_cluster, settings.per_node

    assert limits({}) == (20, 2)
    assert limits({"pool": "a"}) == (20, 5)
    assert limits({"pool": "a"}, maxPerMinute=1000, maxPerNodePerMinute=1000) == (20, 5)
    assert limits({}, maxPerMinute=1, maxPerNodePerMinute=0) == (1, 0)
