"""Metrics of shadow mode: per node, and of all nodes in it."""

from dataclasses import dataclass
from typing import Final

from prometheus_client import CollectorRegistry, Gauge

from manager.inputs import Amounts, Resource
from manager.metrics import PREFIX
from manager.mid.shadow import Account

_MILLI: Final = 1000


@dataclass(frozen=True, slots=True)
class _Shown:
    """What a node contributes to the totals."""

    published: Amounts
    mean: Amounts
    too_much: Amounts
    observed: int


class ShadowMetrics:
    """Gauges, because an account continues after a restart and ends when its node leaves shadow mode."""

    def __init__(self, registry: CollectorRegistry) -> None:
        def gauge(name: str, text: str, *labels: str) -> Gauge:
            return Gauge(f"{PREFIX}_shadow_{name}", text, labels, registry=registry)

        what = "amount that the node would publish [milli-cores, bytes]"
        self._offered = gauge("offered", f"In shadow mode: {what}", "node", "resource")
        self._mean = gauge("mean", "Mean of what it would have published [milli-cores, bytes]", "node", "resource")
        self._observed = gauge("observed_seconds", "For how long reports could judge [s]", "node")
        self._too_much = gauge("too_much_seconds", "For how long that was too much [s]", "node", "resource")
        self._worst = gauge("worst_excess", "By how much at worst [milli-cores, bytes]", "node", "resource")
        self._nodes = gauge("nodes", "Nodes in shadow mode")
        self._all_offered = gauge("all_offered", "What all of them would publish [milli-cores, bytes]", "resource")
        self._all_mean = gauge("all_mean", "Sum of their means [milli-cores, bytes]", "resource")
        self._all_observed = gauge("all_observed_seconds", "Sum of their observed times [s]")
        self._all_too_much = gauge("all_too_much_seconds", "Sum of their times of too much [s]", "resource")
        self._shown: dict[str, _Shown] = {}
        self._totals = _Shown(Amounts(), Amounts(), Amounts(), 0)

    def show(self, node: str, account: Account, published: Amounts | None) -> None:
        """Set the metrics of a node's account."""
        shown = _Shown(published or Amounts(), account.mean, account.too_much, account.observed)
        self._observed.labels(node).set(account.observed / _MILLI)
        for each in Resource:
            self._offered.labels(node, each.value).set(shown.published[each])
            self._mean.labels(node, each.value).set(account.mean[each])
            self._too_much.labels(node, each.value).set(account.too_much[each] / _MILLI)
            self._worst.labels(node, each.value).set(account.worst[each])
        self._total(node, shown)

    def forget(self, node: str) -> None:
        """Drop the metrics of a node."""
        if node not in self._shown:
            return
        self._observed.remove(node)
        for each in Resource:
            for gauge in (self._offered, self._mean, self._too_much, self._worst):
                gauge.remove(node, each.value)
        self._total(node, None)

    def _total(self, node: str, shown: _Shown | None) -> None:
        """Replace a node's contribution to the totals."""
        nothing = _Shown(Amounts(), Amounts(), Amounts(), 0)
        before, now, totals = self._shown.pop(node, nothing), shown or nothing, self._totals
        if shown is not None:
            self._shown[node] = shown
        self._totals = totals = _Shown(
            _moved(totals.published, before.published, now.published),
            _moved(totals.mean, before.mean, now.mean),
            _moved(totals.too_much, before.too_much, now.too_much),
            totals.observed - before.observed + now.observed,
        )
        self._nodes.set(len(self._shown))
        self._all_observed.set(totals.observed / _MILLI)
        for each in Resource:
            self._all_offered.labels(each.value).set(totals.published[each])
            self._all_mean.labels(each.value).set(totals.mean[each])
            self._all_too_much.labels(each.value).set(totals.too_much[each] / _MILLI)


def _moved(total: Amounts, before: Amounts, now: Amounts) -> Amounts:
    return Amounts(*(total[each] - before[each] + now[each] for each in Resource))
