"""Metrics of shadow mode: per node, and of all nodes in it."""

from typing import Final

from prometheus_client import CollectorRegistry, Gauge

from manager.inputs import Amounts, Resource
from manager.metrics import PREFIX
from manager.mid.shadow import Account

_MILLI: Final = 1000
_AMOUNTS: Final = ("published", "mean", "too_much")


class ShadowMetrics:
    """Gauges, because an account continues after a restart and ends when its node leaves shadow mode."""

    def __init__(self, registry: CollectorRegistry) -> None:
        def gauge(name: str, text: str, *labels: str) -> Gauge:
            return Gauge(f"{PREFIX}_shadow_{name}", text, labels, registry=registry)

        each, all_of_it = ("node", "resource"), ("resource",)
        what = "amount that the node would publish [milli-cores, bytes]"
        self._of_node = {
            "published": gauge("published", f"In shadow mode: {what}", *each),
            "mean": gauge("mean", "Mean of the amount that it would have published [milli-cores, bytes]", *each),
            "too_much": gauge("too_much_seconds", "For how long that was too much [s]", *each),
            "worst": gauge("worst_excess", "By how much at worst [milli-cores, bytes]", *each),
        }
        self._observed = gauge("observed_seconds", "For how long reports could evaluate [s]", "node")
        self._nodes = gauge("nodes", "Nodes in shadow mode")
        self._of_all = {
            "published": gauge("all_published", "Amount that all would publish [milli-cores, bytes]", *all_of_it),
            "mean": gauge("all_mean", "Sum of their means [milli-cores, bytes]", *all_of_it),
            "too_much": gauge("all_too_much_seconds", "Sum of their times of too much [s]", *all_of_it),
        }
        self._all_observed = gauge("all_observed_seconds", "Sum of their observed times [s]")
        self._shown: dict[str, tuple[int, ...]] = {}
        self._totals: tuple[int, ...] = (0,) * (1 + len(_AMOUNTS) * len(Resource))

    def show(self, node: str, account: Account, published: Amounts | None) -> None:
        """Set the metrics of a node's account."""
        shown = {
            "published": published or Amounts(),
            "mean": account.mean,
            "too_much": account.too_much,
            "worst": account.worst,
        }
        self._observed.labels(node).set(account.observed / _MILLI)
        for name, gauge in self._of_node.items():
            for resource in Resource:
                gauge.labels(node, resource.value).set(_shown(name, shown[name][resource]))
        self._total(node, (account.observed, *(shown[name][resource] for name in _AMOUNTS for resource in Resource)))

    def forget(self, node: str) -> None:
        """Drop the metrics of a node."""
        if node not in self._shown:
            return
        self._observed.remove(node)
        for gauge in self._of_node.values():
            for resource in Resource:
                gauge.remove(node, resource.value)
        self._total(node, None)

    def _total(self, node: str, now: tuple[int, ...] | None) -> None:
        """Replace a node's contribution to the totals."""
        nothing = (0,) * len(self._totals)
        before = self._shown.pop(node, nothing)
        if now is not None:
            self._shown[node] = now
        moved = zip(self._totals, before, now or nothing, strict=True)
        self._totals = tuple(total - old + new for total, old, new in moved)
        self._nodes.set(len(self._shown))
        self._all_observed.set(self._totals[0] / _MILLI)
        labels = ((name, resource) for name in _AMOUNTS for resource in Resource)
        for (name, each), total in zip(labels, self._totals[1:], strict=True):
            self._of_all[name].labels(each.value).set(_shown(name, total))


def _shown(name: str, value: int) -> float:
    return value / _MILLI if name == "too_much" else value
