"""The agent's own Node object, and lists of CPUs in its annotations."""

import json

from hypothesis import strategies as st

from agent.sources.node import read_node
from crds import names
from headroom.cluster.cpu_list import count_cpus
from tests.fuzz.inputs import Json, any_json, damaged, objects
from tests.fuzz.originals import NODE
from tests.fuzz.strength import LONGEST_LINE, answer_or_refusal, fuzz

LARGEST = 2**63
ANNOTATIONS = st.dictionaries(
    st.sampled_from((names.ANNOTATION_RAW_ALLOCATABLE, names.ANNOTATION_NODE_RESERVATION)),
    damaged(*NODE["metadata"]["annotations"].values()) | any_json().map(json.dumps) | st.text(),
)


def _check(node: Json) -> None:
    facts, problems, _ = read_node(node)
    for amounts in (facts.allocatable, facts.capacity, facts.reservation):
        assert amounts.keys() <= {"cpu", "memory"}
        assert all(type(amount) is int and 0 <= amount < LARGEST for amount in amounts.values())
    assert all(problem and len(problem) <= LONGEST_LINE and "\n" not in problem for problem in problems)


@fuzz(node=objects(NODE))
def test_node(node: Json) -> None:
    """What a Node says that it has is taken where it can be, and named where it cannot."""
    _check(node)


@fuzz(annotations=ANNOTATIONS)
def test_annotations(annotations: dict[str, str]) -> None:
    """Annotations hold what people and other programs wrote: what cannot be read is named and left out."""
    _check({**NODE, "metadata": {"name": "worker", "annotations": annotations}})


@fuzz(text=damaged("0-3,8", "0", "1,2,3", "10-20") | st.text())
def test_cpu_list(text: str) -> None:
    """A list of CPUs names some of at most 65,536, or is refused in one line."""
    count = answer_or_refusal(lambda: count_cpus(text), ValueError, "list of CPUs")
    assert count is None or 1 <= count <= 65536
