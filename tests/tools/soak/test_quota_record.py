"""What watches and the audit log say, as a history."""

from typing import Any

from crds.names import ANNOTATION_RECLAIM_HOLD
from scheduler_plugins.quota.hold import Hold
from tools.soak.quota_history import Bound, Ended, Evicted, HoldWritten, LeaseTaken, QuotaWritten
from tools.soak.quota_record import Seen, history

GPU = "nvidia.com/gpu"
WRITERS = ("one", "two")
AT = 1767225600.0
HOLD = Hold("n", AT + 100, ("uid-v",))

Json = dict[str, Any]


def _pod(name: str, node: str = "", hold: Hold | None = None, **metadata: str) -> Json:
    requests = {"resources": {"requests": {GPU: "2"}}}
    found: Json = {"namespace": "a", "name": name, "uid": f"uid-{name}", "creationTimestamp": "2026-01-01T00:00:00Z"}
    status = {"phase": "Pending", "conditions": [hold.condition] if hold else []}
    annotations = hold.annotations if hold else {}
    spec = {"containers": [requests], **({"nodeName": node} if node else {})}
    return {"metadata": {**found, "annotations": annotations, **metadata}, "spec": spec, "status": status}


def _seen(version: int, found: Json, kind: str = "pod", *, gone: bool = False) -> Seen:
    return Seen(version, AT + version, kind, found, gone)


def _line(by: str, second: int, name: str, **more: Any) -> Json:  # noqa: ANN401 - JSON
    about = {"resource": "pods", "namespace": "a", "name": name, **more.pop("about", {})}
    return {"user": {"username": by}, "objectRef": about, "stageTimestamp": f"2026-01-01T00:00:{second:02}Z", **more}


def _eviction(by: str, second: int, name: str, code: int = 201) -> Json:
    return _line(by, second, name, about={"subresource": "eviction"}, responseStatus={"code": code})


def _watch(by: str) -> Json:
    return {"user": {"username": by}, "verb": "watch", "objectRef": {"resource": "pods"}}


def _lease(holder: str) -> Json:
    return {"metadata": {}, "spec": {"holderIdentity": holder}}


def test_order_is_the_servers() -> None:
    """Versions order what was seen, whatever arrived first; what changes nothing is no event."""
    quota = {"metadata": {"namespace": "a"}, "spec": {"max": {GPU: "4", "cpu": "9"}}}
    seen = [
        _seen(5, _pod("p", "n")),
        _seen(6, _pod("p", "n")),
        _seen(3, _pod("p")),
        _seen(1, quota, "quota"),
        _seen(9, _pod("p", "n"), gone=True),
        _seen(10, quota, "quota", gone=True),
    ]
    assert history(seen, [], WRITERS) == [
        QuotaWritten(AT + 1, "a", {GPU: 4}),
        Bound(AT + 5, "a/p", "a", {GPU: 2}, AT),
        Ended(AT + 9, "a/p"),
        QuotaWritten(AT + 10, "a", None),
    ]


def test_lease_given_back_is_still_its_holders() -> None:
    """A leader is who took it last: who gave it back may not have noticed."""
    holders = ["one_x", "one_x", "", "two_y", "one_z"]
    seen = [_seen(version, _lease(holder), "lease") for version, holder in enumerate(holders)]
    found = history(seen, [], WRITERS)
    assert found == [LeaseTaken(AT, "one"), LeaseTaken(AT + 3, "two"), LeaseTaken(AT + 4, "one")]


def test_eviction_comes_with_its_version_and_claimant() -> None:
    """It is in force when the pod has to leave, for whom the last hold names it; a second one goes by its time."""
    patch = _line("one", 2, "c", responseObject={"metadata": {"resourceVersion": "4"}})
    seen = [
        _seen(1, _pod("v", "n")),
        _seen(4, _pod("c", hold=HOLD)),
        _seen(6, _pod("v", "n", deletionTimestamp="2026-01-01T00:00:09Z")),
        _seen(8, _pod("c")),
    ]
    audited = [
        {"user": {"username": "one"}},
        patch,
        _eviction("one", 3, "v"),
        _eviction("two", 50, "v"),
        _eviction("two", 51, "w", 429),
    ]
    assert history(seen, audited, WRITERS)[1:] == [
        HoldWritten(AT + 4, "one", "a/c", frozenset({"a/v"})),
        Evicted(AT + 3, "one", "a/v", "a/c"),
        HoldWritten(AT + 8, "somebody else", "a/c", frozenset()),
        Evicted(AT + 50, "two", "a/v", "nobody"),
    ]


def test_writer_without_an_answer() -> None:
    """Who was killed before the answer is known by what was sent."""
    sent = {"metadata": {"annotations": {ANNOTATION_RECLAIM_HOLD: HOLD.as_text()}}}
    found = history([_seen(4, _pod("c", hold=HOLD))], [_line("two", 2, "c", requestObject=sent)], WRITERS)
    assert found == [HoldWritten(AT + 4, "two", "a/c", frozenset({"uid-v"}))]


def test_others_do_not_count() -> None:
    """Evictions by somebody else are none of the replicas'."""
    assert history([_seen(1, _pod("v", "n"))], [_eviction("admin", 3, "v")], WRITERS)[1:] == []
