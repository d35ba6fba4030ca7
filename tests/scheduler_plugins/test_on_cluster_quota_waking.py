"""Quotas on the real kube-scheduler: whoever a change helps is woken, and quotas say what is so, when it changes.

kube-scheduler knows nothing of quotas: by itself it tries a refused pod again after five minutes.
"""

import time
from collections.abc import Iterator

import pytest

from crds.names import ANNOTATION_SCHEDULING_RETRY
from tests.audited import audited
from tests.scheduler_plugins.extenders import Extender, Json, profile, until
from tests.scheduler_plugins.quota_teams import CAPACITY_SCHEDULING, GPU, QUOTAS, Team, give_gpus
from tests.scheduler_plugins.requeue.quiet import metric, quiet
from tests.scheduler_plugins.stage import Stage
from tools.devcluster import Cluster

pytestmark = pytest.mark.cluster

NAME = "quota-waking"
HOLDER, GUEST, WRONG = f"{NAME}-a", f"{NAME}-b", f"{NAME}-wrong"
MANY, FIT = 200, 3
QUOTAS_ALONE = {**CAPACITY_SCHEDULING, "args": {**CAPACITY_SCHEDULING["args"], "reclaim": {"enabled": False}}}
"""Nobody is evicted here, as only what is woken is looked at."""


@pytest.fixture(scope="module")
def stage(cluster: Cluster) -> Iterator[Stage]:
    """Two nodes of eight GPUs, an extender that knows quotas alone, and its kube-scheduler."""
    with Stage.open(cluster, NAME, 2) as stage:
        give_gpus(stage, 8)
        stage.add(NAME, profile(plugins=[QUOTAS_ALONE]))
        stage.wait()
        yield stage


@pytest.fixture(scope="module")
def extender(stage: Stage) -> Extender:
    """The extender."""
    return stage.extenders[0]


@pytest.fixture
def holder(stage: Stage) -> Iterator[Team]:
    """A namespace that is guaranteed two GPUs and may use four."""
    yield from _team(stage, HOLDER, 2, 4)


@pytest.fixture
def guest(stage: Stage) -> Iterator[Team]:
    """The same once more."""
    yield from _team(stage, GUEST, 2, 4)


def _team(stage: Stage, name: str, least: int, most: int) -> Iterator[Team]:
    team = Team.make(stage, name, least, most)
    try:
        yield team
    finally:
        team.clear()
        if stage.cluster.api.exists(team.quota):
            stage.cluster.api.request("DELETE", team.quota)
        team.known(None, None)  # the next test makes one of the same name


def _run(team: Team, count: int, prefix: str = "run") -> None:
    """Have pods run."""
    names = [f"{prefix}-{number}" for number in range(count)]
    team.create(*(team.pod(name, NAME) for name in names))
    until(lambda: set(names) <= team.bound().keys(), f"{names} being bound")


def _wait(team: Team, extender: Extender, count: int) -> None:
    """Have pods wait, until kube-scheduler has given them up."""
    team.create(*(team.pod(f"wait-{number:03d}", NAME) for number in range(count)))
    until(lambda: metric(extender, "waiting_pods") == count, f"{count} pods waiting")
    quiet(extender)


def _woken(team: Team, count: int, what: str) -> set[str]:
    """The pods that waited and are bound, once they are so many."""
    started = time.monotonic()

    def bound() -> set[str]:
        found = {name for name in team.bound() if name.startswith("wait-")}
        return found if len(found) >= count else set()

    found: set[str] = until(bound, f"{count} pods being bound after {what}")
    print(f"{what}: {len(found)} pods bound after {time.monotonic() - started:.1f} s")
    return found


def _by_us(team: Team, names: set[str]) -> int:
    """How many of these pods we have woken: kube-scheduler itself tries some when a pod is bound, or deleted."""
    notes = [pod["metadata"].get("annotations", {}) for name, pod in team.read().items() if name in names]
    return sum(ANNOTATION_SCHEDULING_RETRY in each for each in notes)


def _looks(extender: Extender, count: int = 6) -> None:
    """Let the extender look at the waiting pods some more times: a sweep is among them."""
    rounds = metric(extender, "waking_round_seconds_count")
    until(lambda: metric(extender, "waking_round_seconds_count") >= rounds + count, f"{count} further looks")


def _patched(stage: Stage, team: Team) -> list[str]:
    """The pods of a namespace that an extender patched, from the audit log."""
    ours = audited(stage.cluster, '"headroom-scheduler"', f'"{team.name}"')
    asked = [each["objectRef"] for each in ours if each["verb"] == "patch"]
    return [about["name"] for about in asked if (about["resource"], about.get("namespace")) == ("pods", team.name)]


def _status(stage: Stage, path: str) -> Json:
    found: Json = stage.cluster.api.get(path).get("status", {})
    return found


def _used(stage: Stage, team: Team, gpus: int) -> None:
    until(
        lambda: _status(stage, team.quota).get("used", {}).get(GPU) == f"{gpus}",
        lambda: f"{gpus} GPUs used in the status of {team.name}: {_status(stage, team.quota)}",
    )


def _rebound(stage: Stage, team: Team, least: int, most: int) -> None:
    """Change a quota."""
    stage.cluster.api.merge(team.quota, {"spec": {"min": {GPU: f"{least}"}, "max": {GPU: f"{most}"}}})
    team.known(least, most)


@pytest.mark.long
def test_raised_quota_wakes_who_fits(stage: Stage, extender: Extender, holder: Team) -> None:
    """Of 200 pods that wait for a quota as many are bound as fit when it is raised, with a few patches; others wait."""
    _run(holder, 2)
    _wait(holder, extender, MANY)
    assert metric(extender, "waiting_groups") == 1
    _used(stage, holder, 2)
    before = len(_patched(stage, holder))
    _rebound(stage, holder, 2 + FIT, 2 + FIT)
    woken = _woken(holder, FIT, "a quota was raised")
    assert len(woken) == FIT
    assert _by_us(holder, woken)
    _looks(extender)
    until(lambda: len(_patched(stage, holder)) > before, "a patch in the audit log")
    assert len(_patched(stage, holder)) - before <= 3 * FIT
    assert len(holder.bound()) == 2 + FIT
    _used(stage, holder, 2 + FIT)


def test_deleted_pod_wakes_another_namespace(extender: Extender, holder: Team, guest: Team) -> None:
    """A pod that waits for the sum of what is guaranteed is bound when a pod of another namespace is deleted."""
    _run(guest, 2)
    _run(holder, 2)
    _wait(guest, extender, 2)
    holder.delete("run-1")
    assert len(_woken(guest, 1, "a pod of another namespace was deleted")) == 1
    _looks(extender)
    assert len(guest.bound()) == 3
    assert metric(extender, "waiting_pods") == 1


def test_wrong_quotas_say_so(stage: Stage) -> None:
    """A second quota, too much guaranteed, min above max: conditions and Events."""
    api, path = stage.cluster.api, f"{QUOTAS}/namespaces/{WRONG}/elasticquotas"
    stage.cluster.create_namespace(WRONG)
    kind = {"apiVersion": "scheduling.x-k8s.io/v1alpha1", "kind": "ElasticQuota"}
    # The definition itself compares min and max of well-known resources, and of plain integers; not of other strings.
    bounds = {"min": {"example.com/a": "9", "example.com/b": "2"}, "max": {"cpu": "4", "example.com/b": "1"}}
    try:
        for name in ("q-one", "q-two"):
            api.request("POST", path, {**kind, "metadata": {"name": name}, "spec": bounds})
        wanted = {
            "q-one": {
                "InForce": ("True", "SeveralQuotas"),
                "MinWithinMax": ("False", "MinAboveMax"),
                "MinWithinCapacity": ("False", "MinAboveCapacity"),
                "UsedWithinMax": ("True", "Within"),
            },
            "q-two": {"InForce": ("False", "OtherQuotaInForce"), "MinWithinMax": ("False", "MinAboveMax")},
        }
        for name, conditions in wanted.items():
            _say(stage, f"{path}/{name}", conditions)
        reasons = {(name, reason) for name, found in wanted.items() for _, reason in found.values()} - {
            ("q-one", "Within")
        }
        until(lambda: _warnings(stage) >= reasons, lambda: f"the warnings {reasons}: {_warnings(stage)}")
        api.request("DELETE", f"{path}/q-one")
        _say(stage, f"{path}/q-two", {**wanted["q-one"], "InForce": ("True", "OnlyQuota")})
    finally:
        api.request("DELETE", path)
        api.request("DELETE", f"/api/v1/namespaces/{WRONG}")


def _say(stage: Stage, path: str, conditions: dict[str, tuple[str, str]]) -> None:
    """Wait until a quota has these conditions and no others."""
    until(lambda: _conditions(stage, path) == conditions, lambda: f"{conditions}: {_status(stage, path)}")


def _conditions(stage: Stage, path: str) -> dict[str, tuple[str, str]]:
    found = _status(stage, path).get("conditions", ())
    return {each["type"]: (each["status"], each["reason"]) for each in found}


def _warnings(stage: Stage) -> set[tuple[str, str]]:
    items = stage.cluster.api.get(f"/apis/events.k8s.io/v1/namespaces/{WRONG}/events")["items"]
    ours = (event for event in items if event["regarding"]["kind"] == "ElasticQuota" and event["type"] == "Warning")
    return {(event["regarding"]["name"], event["reason"]) for event in ours}
