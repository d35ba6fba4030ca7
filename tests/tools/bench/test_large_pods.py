"""The pods of the benchmark of large pods are what it says."""

import json
from collections.abc import Mapping
from typing import Any

import pytest

from tools.bench.api_server import Run
from tools.bench.large_pods_kinds import KINDS

MOST_BYTES = 1536 * 1024  # etcd takes no larger request


@pytest.mark.parametrize("kind", KINDS)
def test_each_pod_is_large_and_its_own(kind: str) -> None:
    """Pods of a kind are valid JSON of hundreds of KiB, as many items as stated, and no item of one is in another."""
    pod = Run("extender", "watch", "bound", kind, 2).objects()
    texts = [pod(number) for number in (1, 2)]
    assert all(200 * 1024 < len(text) < MOST_BYTES for text in texts)
    first, second = map(json.loads, texts)
    assert first["metadata"]["uid"] != second["metadata"]["uid"]
    items = [_largest(each[KINDS[kind].part]) for each in (first, second)]
    assert [len(each) for each in items] == [KINDS[kind].count] * 2
    assert all(one != other for one, other in zip(*items, strict=True))


def _largest(value: Any) -> list[Any]:  # noqa: ANN401 - JSON
    if not isinstance(value, dict | list):
        return []
    own = list(value.items()) if isinstance(value, Mapping) else value
    inside = [_largest(each) for each in (value.values() if isinstance(value, Mapping) else value)]
    return max([own, *inside], key=len)
