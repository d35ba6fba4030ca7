"""The ConfigMap and the annotations and labels of Nodes: what anybody with kubectl may write there."""

import json

from hypothesis import strategies as st

from crds import names
from crds.codec import to_json
from crds.colocation import ColocationConfig
from manager.config import overlaps
from manager.config.findings import ConfigFinding
from manager.config.in_force import after_change, at_start
from manager.config.merge import RATIO_LABELS, EffectiveStrategy, effective_strategy
from manager.config.parse import parse_config, parse_strategy, review
from manager.inputs import Resource, StrategyInputs
from manager.node_metric import spec_for
from tests.fuzz.inputs import NUMBERS, Json, any_json, damaged, objects
from tests.fuzz.originals import CONFIG
from tests.fuzz.strength import LONGEST_LINE, fuzz

SOUND = json.dumps(CONFIG, indent=1)
KEYS = st.sampled_from(sorted({*CONFIG, "nodeSelector", "name", "midCpuThresholdPercent", "enabled", "\n", "x" * 999}))
TEXTS = (
    damaged(SOUND, json.dumps(CONFIG["nodeConfigs"][0]), '{"enable": true}')
    | objects(CONFIG).map(json.dumps)
    | any_json(KEYS).map(json.dumps)
    | st.text()
)
LABELS = st.dictionaries(
    st.sampled_from([*RATIO_LABELS, "pool"]),
    st.sampled_from((*NUMBERS, "spot", "0.29", "1e-400")) | st.text(max_size=9),
)
ANNOTATIONS = st.dictionaries(st.just(names.ANNOTATION_COLOCATION_STRATEGY), TEXTS)


def _are_sentences(*findings: ConfigFinding) -> None:
    for each in findings:
        said = str(each)
        assert each.message
        assert len(said) <= LONGEST_LINE, said
        assert "\n" not in said, said


def _is_usable(view: EffectiveStrategy) -> None:
    """A strategy that every formula, and the API server, can do something with."""
    _are_sentences(*view.findings)
    facts = StrategyInputs.of(view.strategy)
    for percent in (*(facts.threshold_percent[each] for each in Resource), facts.unallocated_percent):
        assert 0 <= percent <= 100
    assert facts.degrade_seconds > 0
    assert facts.update_seconds > 0
    assert 0 < facts.diff_threshold <= 1
    assert 0 <= facts.increase_hold_seconds <= 3600
    json.dumps(to_json(spec_for(view.strategy)), allow_nan=False)


def _is_served(config: ColocationConfig) -> None:
    for labels in ({}, {"pool": "spot"}, {"pool": "other"}):
        _is_usable(effective_strategy(config, labels))
    overlaps.on_nodes(config, [("n1", {"pool": "spot"}), ("n2", {})])


@fuzz(text=TEXTS)
def test_text(text: str) -> None:
    """A text is followed, or refused with one sentence for each fault; what is followed means something on any node."""
    judged = parse_config(text)
    _are_sentences(*judged.errors, *judged.entry_errors, *judged.warnings, *judged.hints)
    assert (judged.config is None) == bool(judged.errors)
    if judged.config is not None:
        _is_served(judged.config)
        again = parse_config(json.dumps(to_json(judged.config)))
        assert again.errors == ()


@fuzz(text=TEXTS, before=TEXTS | st.none(), present=st.booleans())
def test_what_is_in_force(text: str, before: str | None, present: bool) -> None:  # noqa: FBT001
    """There is a usable configuration at every moment, and a bad text never replaces a good one."""
    started = at_start(before, present=before is not None, last_good=None)
    _is_served(started.config)
    after = after_change(started, text, present=present)
    _is_served(after.config)
    if after.errors:
        assert after.config == started.config
    said = review(text, before)
    assert (said.refusals() == ()) == (said.unchanged or not (said.errors or said.entry_errors))


@fuzz(labels=LABELS, annotations=ANNOTATIONS)
def test_labels_and_annotations(labels: dict[str, str], annotations: dict[str, str]) -> None:
    """What a Node says about itself is applied whole, or ignored with a sentence."""
    config = parse_config(SOUND).config
    assert config is not None
    plain = effective_strategy(config, {name: text for name, text in labels.items() if name == "pool"})
    view = effective_strategy(config, labels, annotations)
    _is_usable(view)
    if len(view.findings) > len(plain.findings) and not any(RATIO_LABELS.keys() & labels.keys()):
        judged = parse_strategy(annotations[names.ANNOTATION_COLOCATION_STRATEGY])
        assert judged.strategy is not None or view.strategy == plain.strategy


@fuzz(entries=st.lists(objects(*CONFIG["nodeConfigs"]), max_size=5))
def test_entries(entries: list[Json]) -> None:
    """Entries are judged by themselves: none refuses the text, and a bad one matches no node."""
    judged = parse_config(json.dumps({"enable": True, "nodeConfigs": entries}))
    _are_sentences(*judged.entry_errors, *judged.warnings, *judged.hints)
    if not judged.errors:
        assert judged.config is not None
        assert len(judged.config.node_configs or ()) == len(entries)
        _is_served(judged.config)
