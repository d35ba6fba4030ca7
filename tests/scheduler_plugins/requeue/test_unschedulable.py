"""Who is remembered, and for how long."""

from scheduler_plugins.requeue.settings import RANGES, RequeueSettings
from tests.scheduler_plugins.requeue.site import Site, made

RETRY = "headroom.sh/scheduling-retry"


def _watched(name: str, retry: str = "", node: str = "") -> dict[str, object]:
    annotations = {RETRY: retry} if retry else {}
    return {"metadata": {"uid": f"uid-{name}", "annotations": annotations}, "spec": {"nodeName": node} if node else {}}


def _refused(*names: str) -> Site:
    site = Site()
    site.room(a=0)
    site.refuse(*names)
    return site


def test_bound_pod_is_forgotten() -> None:
    """A pod that was bound, by whomever, waits no more."""
    site = _refused("p", "q")
    site.unschedulable.put_pod(_watched("p", node="a"))
    site.unschedulable.put_pod(_watched("stranger", node="a"))
    assert set(site.unschedulable.entries) == {"uid-q"}


def test_deleted_pod_is_forgotten() -> None:
    """A pod that is gone waits no more, seen at once or in a list."""
    site = _refused("p", "q", "r")
    site.unschedulable.delete_pod("uid-p")
    site.unschedulable.delete_pod("stranger")
    site.now += 120
    assert site.unschedulable.absent_pods({"uid-q", "stranger"}) == ["uid-r"]
    site.unschedulable.delete_pod("uid-r")
    assert set(site.unschedulable.entries) == {"uid-q"}
    site.unschedulable.delete_pod("uid-q")
    assert site.unschedulable.groups == []


def test_refusal_of_deleted_pod_is_not_remembered() -> None:
    """kube-scheduler may be asking about a pod while the watch says that it is gone: nobody would tell of it again."""
    site = _refused("p")
    site.unschedulable.delete_pod("uid-p")
    site.unschedulable.delete_pod("uid-q")
    assert site.ask_again("p") == [False]
    site.refuse("q")
    assert not site.unschedulable.entries


def test_list_that_took_long_forgets_no_newer_pod() -> None:
    """A pod that was created while a list was being read is not in it, and still waits."""
    site = _refused("old")
    site.now += 120
    site.refuse("new")
    assert site.unschedulable.absent_pods(set()) == ["uid-old"]


async def test_other_replica_takes_over() -> None:
    """A pod that somebody else patches is somebody else's; our own patches come back through the watch as well."""
    site = _refused("p", "q")
    site.room(a=2000)
    assert await site.reconcile() == ["p", "q"]
    ours = site.api.patches[0][1]["metadata"]["annotations"][RETRY]
    site.unschedulable.put_pod(_watched("p", retry=ours))
    site.unschedulable.put_pod(_watched("q", retry="2030-01-01T00:00:00Z"))
    assert set(site.unschedulable.entries) == {"uid-p"}


def test_earlier_annotation_is_no_news() -> None:
    """The annotation that a pod had when it was refused, by an earlier run of ours, is nobody else's patch."""
    site = Site()
    site.room(a=0)
    item = made("p")
    item["metadata"]["annotations"] = {RETRY: "2020-01-01T00:00:00Z"}
    assert not site.ask(item)
    site.unschedulable.put_pod(item)
    assert len(site.unschedulable) == 1


def test_memory_is_bounded() -> None:
    """Not more pods are remembered than the setting says; those beyond are counted."""
    site = Site(RequeueSettings(most_pods=3))
    site.room(a=0)
    site.refuse(*(f"p{number}" for number in range(5)))
    assert len(site.unschedulable) == 3
    assert site.unschedulable.overflowed == 2


def test_like_pods_are_one_group() -> None:
    """Pods that differ in name alone are judged together; size, constraints, priority and claims set them apart."""
    site = Site()
    site.room(a=0)
    token = [{"name": "kube-api-access-x1", "projected": {}}]
    nomination = [{"name": "data", "persistentVolumeClaim": {"claimName": "data-0"}}]
    site.refuse("p", "q")
    site.refuse("r", volumes=token)
    assert len(site.unschedulable.groups) == 1
    site.refuse("large", cpu="2")
    site.refuse("selective", nodeSelector={"zone": "a"})
    site.refuse("important", priority=7)
    site.refuse("stateful", volumes=nomination)
    assert len(site.unschedulable.groups) == 5


def test_node_numbers_are_given_back() -> None:
    """Where nodes come and go for ever the sets do not grow for ever, and still name the same nodes."""
    site = _refused("p")
    site.unschedulable.numbers.bits([f"n{number}" for number in range(1200)])
    site.room(n1199=0)
    site.refuse("p", on=["a", "n1199"])
    snapshot = site.cache.freeze(site.now)
    assert len(site.unschedulable.numbers) > 1000
    site.unschedulable.tidy(snapshot)
    assert len(site.unschedulable.numbers) == 2
    rows = site.unschedulable.numbers.rows(site.unschedulable.groups[0].nodes, snapshot)
    assert {snapshot.names[row] for row in rows.tolist()} == {"a", "n1199"}


def test_defaults_are_in_range() -> None:
    """The defaults are allowed; what is out of range is named by its key in the profile."""
    assert RequeueSettings().problems() == ()
    wrong = RequeueSettings(patches_per_second=0, event_burst=0)
    assert [problem.field for problem in wrong.problems()] == ["patchesPerSecond", "eventBurst"]
    assert set(RANGES) < set(RequeueSettings.__slots__)
