"""`kubectl headroom explain node -f FILE`: a file with Kubernetes objects in place of a cluster."""

import argparse
import time
from collections.abc import Iterator, Mapping
from dataclasses import replace
from typing import Any, Final

from crds.codec import CodecError
from crds.names import CONFIG_MAP_KEY, LAST_GOOD_NAME
from crds.quantity import QuantityError, format_bytes, format_milli_cores, milli_value, value
from headroom.cluster.shape import check_namespace, check_node
from kubectl_headroom import live, targets
from kubectl_headroom import output as outputs
from kubectl_headroom.config.file import NOT_TEXT, data_of
from kubectl_headroom.errors import FAILED, USAGE, CommandError
from kubectl_headroom.explain import command
from kubectl_headroom.simulate import pod_file
from manager.api import ConfigState, ObservedNode, PodInputs, amounts, at_start, config_state, explain

Json = dict[str, Any]

_ENABLED: Final = '{"enable": true}'  # the config that is tried where the file has none
_NO_CONFIG: Final = (
    "What if: {place} has no colocation ConfigMap, so the default strategy applies, with `enable: true`. A cluster "
    "publishes nothing before its ConfigMap has that."
)
_NO_PODS: Final = (
    "Missing: {place} has no Pods of {name}, so their requests count as 0, and unallocated resources are an upper "
    "bound. Add: kubectl get pods -A -o yaml --field-selector spec.nodeName={name}"
)
_NO_METRIC: Final = "Missing: {place} has no NodeMetric {name}. Add: kubectl get nodemetric {name} -o yaml"
_NO_NODE: Final = "Missing: {place} has no Node {name}: {assumed}. Add: kubectl get node {name} -o yaml"
_FORMS: Final = {"cpu": (milli_value, format_milli_cores, amounts.cpu), "memory": (value, format_bytes, amounts.memory)}


def run(options: argparse.Namespace, clock: live.Clock = time.time) -> int:
    """Explain a node of a file; the exit code. Ages count from the clock.

    Raises:
        CommandError: the file or the options are refused.
    """
    if options.what != targets.NODE:
        raise CommandError(f"-f reads a file for explain node, not for explain {options.what}: leave it out.", USAGE)
    if options.watch:
        raise CommandError("--watch repeats requests to a cluster: leave it out with -f.", USAGE)
    if options.filename == options.config == pod_file.STDIN:
        raise CommandError("Standard input can be read once: name a file for -f or for --config.", USAGE)
    tried = command.trial(options.set, options.config)
    file = Objects(pod_file.load(options.filename), clock())
    config = file.config(options.config_name, options.namespace)
    node, assumed = file.observed(options.name or file.only_name())
    explanation = explain(node, config or _enabled(), tried)
    if config is None:  # no manager writes amounts that are only tried
        explanation = replace(explanation, steps=())
    notes = [*([] if config else [_NO_CONFIG.format(place=file.place)]), *assumed]
    if outputs.is_for_people(options.output):
        command.show(explanation, notes)
    else:
        content = command.as_json(explanation)
        outputs.show({**content, "notes": [*notes, *content["notes"]]}, options.output)
    return 0


class Objects:
    """The Nodes, NodeMetrics, Pods and ConfigMaps of a file, each checked; other kinds are ignored."""

    def __init__(self, file: pod_file.PodFile, now: float) -> None:
        """Index the objects. Raises CommandError: one is malformed, or is there twice."""
        self.place, self._now = file.place, now
        self._kinds = sorted({str(item.get("kind") or "an object without kind") for item in file.objects})
        items = list(self._checked(file.objects))
        self._nodes, self._metrics = self._by_name(items, "Node"), self._by_name(items, "NodeMetric")
        self._pods = [self._pod(item) for item in items if item["kind"] == "Pod"]
        self._config_maps = [item for item in items if item["kind"] == "ConfigMap"]

    def only_name(self) -> str:
        """The node's name. Raises CommandError: the file has none, or several."""
        names = sorted(self._nodes.keys() | self._metrics.keys())
        if not names:
            held = ", ".join(self._kinds) or "nothing"
            raise CommandError(f"{self.place} holds {held}, and no NodeMetric or Node: add one.", USAGE)
        if len(names) > 1:
            shown = ", ".join(names[:3]) + (", …" if len(names) > 3 else "")  # noqa: PLR2004 - enough to recognise
            raise CommandError(f"{self.place} has {len(names)} nodes ({shown}): name one, explain node NAME.", USAGE)
        return names[0]

    def observed(self, name: str) -> tuple[ObservedNode, list[str]]:
        """The objects about a node, and a sentence for each that is missing.

        Raises:
            CommandError: the file has no Node and no NodeMetric of it.
        """
        node, metric = self._nodes.get(name), self._metrics.get(name)
        names = sorted(self._nodes.keys() | self._metrics.keys())
        if node is None and metric is None:
            raise CommandError(f"{self.place} has no node {name!r}. {live.suggestion(name, names, 'nodes')}", FAILED)
        pods, notes = [pod for pod in self._pods if pod.node == name], []
        if metric is None:
            notes.append(_NO_METRIC.format(place=self.place, name=name))
        if node is None:
            implied = dict(_allocatable(metric or {}))
            notes.append(_NO_NODE.format(place=self.place, name=name, assumed=_assumed(implied)))
            node = {"metadata": {"name": name}, "status": {"capacity": implied, "allocatable": implied}}
        if not pods:
            notes.append(_NO_PODS.format(place=self.place, name=name))
        return ObservedNode(node, metric, pods, self._now), notes

    def config(self, name: str, namespace: str | None) -> ConfigState | None:
        """The state of the colocation ConfigMap; None where the file has none.

        Args:
            name: its name, where the file has several ConfigMaps with a config.
            namespace: its namespace; None: any.

        Raises:
            CommandError: several fit.
        """
        of_namespace = [
            item for item in self._config_maps if namespace in (None, item["metadata"].get("namespace", namespace))
        ]
        named = [item for item in of_namespace if item["metadata"].get("name") == name]
        last_good = [item for item in of_namespace if item["metadata"].get("name") == LAST_GOOD_NAME]
        holding = [item for item in of_namespace if CONFIG_MAP_KEY in data_of(item) and item not in last_good]
        fitting = named or holding
        if len(fitting) > 1:
            raise CommandError(
                f"{self.place} has {len(fitting)} colocation ConfigMaps: select one with --config-name and -n.", USAGE
            )
        if not fitting:
            return None
        title = f"{fitting[0]['metadata'].get('name')} of {self.place}"
        return config_state(fitting[0], last_good[0] if last_good else None, title, self._now)

    def _checked(self, items: tuple[Json, ...]) -> Iterator[Json]:
        for item in items:
            kind = str(item.get("kind"))
            if kind not in {"Node", "NodeMetric", "Pod", "ConfigMap"}:
                continue
            try:
                (check_node if kind == "Node" else check_namespace)(item)  # of other kinds its metadata is checked
            except CodecError as error:
                raise CommandError(f"{self.place}: {kind}: {error}: compare with kubectl's output.", USAGE) from error
            if kind == "ConfigMap" and (fault := _fault(item)):
                raise CommandError(f"{self.place}: ConfigMap {item['metadata'].get('name')}: {fault}.", USAGE)
            yield item

    def _by_name(self, items: list[Json], kind: str) -> dict[str, Json]:
        result: dict[str, Json] = {}
        for item in items:
            if item["kind"] != kind:
                continue
            name = (item.get("metadata") or {}).get("name")
            if not name:
                raise CommandError(f"{self.place}: {kind}: metadata.name is missing: set the node's name.", USAGE)
            if name in result:
                raise CommandError(f"{self.place} has {kind} {name} twice: leave one.", USAGE)
            result[name] = item
        return result

    def _pod(self, item: Json) -> PodInputs:
        try:
            return PodInputs.from_object(item)
        except (AttributeError, KeyError, TypeError, ValueError) as error:
            name = item["metadata"].get("name")
            raise CommandError(
                f"{self.place}: Pod {name}: spec or status is malformed ({error}): compare with kubectl's output.",
                USAGE,
            ) from error


def _enabled() -> ConfigState:
    in_force = at_start(_ENABLED, present=True, last_good=None)
    return ConfigState("what if: the default strategy with `enable: true`", None, in_force)


def _fault(config_map: Json) -> str:
    """Return the fault of a ConfigMap, with the way out; empty for a sound one."""
    if not isinstance(config_map.get("data") or {}, Mapping):
        return "data must be an object"
    if not isinstance(data_of(config_map).get(CONFIG_MAP_KEY, ""), str):
        return NOT_TEXT
    entries = config_map["metadata"].get("managedFields") or []
    sound = isinstance(entries, list) and all(isinstance(entry, Mapping) for entry in entries)
    return "" if sound else "metadata.managedFields must be a list of objects: remove it"


def _allocatable(metric: Json) -> Iterator[tuple[str, str]]:
    """Yield the allocatable amounts that a report of our agent implies: all requests and the rest.

    Without any slack requests exceed allocatable, and the amount is unknown. A reclaim ratio below 100 % makes it too
    small, never too large.
    """
    inputs: Any = metric
    for part in ("status", "prediction", "reclaimable"):
        inputs = inputs.get(part) if isinstance(inputs, Mapping) else None
    for resource, (read, form, _) in _FORMS.items():
        try:
            slack, requested = (read(inputs[term][resource]) for term in ("slack", "requested"))
        except (KeyError, TypeError, QuantityError):
            continue
        if slack > 0 <= requested:
            yield resource, form(slack + requested)


def _assumed(implied: Mapping[str, str]) -> str:
    """Return the assumed allocatable, in words."""
    if not implied:
        return "its allocatable is unknown, and the report does not imply it"
    shown = [f"{name} {_FORMS[name][2](_FORMS[name][0](text))}" for name, text in implied.items()]
    missing = [name for name in _FORMS if name not in implied]
    rest = f"; that of {missing[0]} is unknown" if missing else ""
    return f"allocatable {' and '.join(shown)} is assumed, from the report's requests and slack{rest}"
