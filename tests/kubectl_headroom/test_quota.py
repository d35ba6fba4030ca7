"""`kubectl headroom quota`: usage of each quota's share."""

import json
from pathlib import Path

import pytest
import yaml
from hypothesis import given
from hypothesis import strategies as st

from headroom.kube import ApiError
from kubectl_headroom.__main__ import main
from kubectl_headroom.errors import USAGE, CommandError
from kubectl_headroom.quota import show
from kubectl_headroom.quota.shares import lending
from scheduler_plugins.quota.quota import Quota
from tests.kubectl_headroom.quota_site import GPU, QUOTAS, cluster, gpus, machine, quota, run, story

TABLE = """\
NAMESPACE   NAME    RESOURCE         MIN   USED   MAX   BORROWED   LENT   PENDING
a           qa      nvidia.com/gpu     4      6     6          2      0         0
b           qb      nvidia.com/gpu     6      3     8          0      2         3
(all)       (all)   nvidia.com/gpu    10      9     -          2      2         3
"""


async def test_table_of_story(capsys: pytest.CaptureFixture[str]) -> None:
    """Usage of a team beyond its min is lent by the other; pending requests are shown."""
    await run(cluster(*story()), "-A")
    assert capsys.readouterr().out == TABLE


async def test_rows_alone(capsys: pytest.CaptureFixture[str]) -> None:
    """Without headers a table has no sums either."""
    await run(cluster(*story()), headers=False)
    assert capsys.readouterr().out.splitlines() == [
        "a   qa   nvidia.com/gpu   4   6   6   2   0   0",
        "b   qb   nvidia.com/gpu   6   3   8   0   2   3",
    ]


async def test_one_namespace(capsys: pytest.CaptureFixture[str]) -> None:
    """-n shows the quota of a namespace, with the amounts that others owe it, and the sum of min."""
    await run(cluster(*story()), "-n", "b")
    lines = capsys.readouterr().out.splitlines()
    assert [line.split()[0] for line in lines] == ["NAMESPACE", "b", "(all)"]
    assert lines[1].split()[-2:] == ["2", "3"]


async def test_json_has_quantities(capsys: pytest.CaptureFixture[str]) -> None:
    """Programs get Kubernetes quantities, null where nothing limits, and the same as YAML."""
    quotas = [quota("c", {"cpu": "1500m", "memory": "3Gi"}), quota("d", {"cpu": "1"}, {"cpu": "2", "memory": "1Gi"})]
    await run(cluster(*quotas, machine("n1", 1)), "-o", "json")
    data = json.loads(capsys.readouterr().out)
    assert data["kind"] == "QuotaReportList"
    assert data["profile"]["enforced"]
    first, second = data["items"]
    assert first["resources"][0] == {
        "resource": "cpu",
        "min": "1500m",
        "used": "0",
        "max": None,
        "borrowed": "0",
        "lent": "0",
        "pending": "0",
        "left": "2500m",
    }
    assert {resource["resource"]: resource["max"] for resource in second["resources"]} == {"cpu": "2", "memory": "1Gi"}
    assert {entry["resource"]: entry["min"] for entry in data["total"]} == {"cpu": "2500m", "memory": "3Gi"}
    await run(cluster(*quotas, machine("n1", 1)), "-o", "yaml")
    assert yaml.safe_load(capsys.readouterr().out) == data


async def test_max_follows_profile(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """A resource that max does not name is as in the scheduler's profile: none, or unlimited."""
    path = tmp_path / "profile.yaml"
    head = "apiVersion: headroom.dev/v1alpha1\nkind: HeadroomSchedulerConfiguration\n"
    path.write_text(f"{head}plugins: [{{name: CapacityScheduling, args: {{maxMissing: zero}}}}]\n")
    waiting = gpus("c", "p", 1)
    waiting["spec"]["containers"][0]["resources"]["requests"]["memory"] = "1Gi"
    objects = cluster(quota("c", {GPU: 2}, {GPU: 2}), waiting)
    for flags, most in ((["--profile", str(path)], "0"), ([], None)):
        await run(objects, *flags, "-o", "json")
        (result,) = json.loads(capsys.readouterr().out)["items"]
        (memory,) = [resource for resource in result["resources"] if resource["resource"] == "memory"]
        assert (memory["max"], memory["pending"]) == (most, "1Gi")


async def test_pending_pods(capsys: pytest.CaptureFixture[str]) -> None:
    """Pods wait that are not bound, not on their way out and not gated."""
    gone, gated = gpus("c", "gone", 2), gpus("c", "gated", 4, schedulingGates=[{"name": "x"}])
    gone["metadata"]["deletionTimestamp"] = "2025-01-01T00:00:00Z"
    await run(cluster(quota("c", {GPU: 9}), gone, gated, gpus("c", "waits", 1)), "-o", "json")
    (result,) = json.loads(capsys.readouterr().out)["items"]
    assert (result["pendingPods"], result["resources"][0]["pending"]) == (1, "1")


async def test_younger_quota_is_reported(capsys: pytest.CaptureFixture[str]) -> None:
    """Of two quotas in a namespace the older is shown, and the other is named."""
    await run(cluster(quota("c", {GPU: 1}, name="new", created=-5), quota("c", {GPU: 2}, name="old", created=-50)))
    out = capsys.readouterr().out
    assert out.splitlines()[1].split()[:4] == ["c", "old", GPU, "2"]
    assert "- ElasticQuota c/new is not in force: c/old is older, and a namespace has one." in out


async def test_unreadable_quota_is_reported(capsys: pytest.CaptureFixture[str]) -> None:
    """A quota that cannot be understood is named, and the others are shown."""
    await run(cluster(quota("c", {GPU: 1}), quota("d", {GPU: "many"})))
    out = capsys.readouterr().out
    assert "- ElasticQuota d/qd cannot be understood and is left out: nvidia.com/gpu: 'many' is not a quantity" in out
    assert out.splitlines()[1].startswith("c ")


async def test_profile_without_quotas(capsys: pytest.CaptureFixture[str]) -> None:
    """Quotas that the scheduler does not enforce are shown, and it says so."""
    head = "apiVersion: headroom.dev/v1alpha1\nkind: HeadroomSchedulerConfiguration\n"
    await run(cluster(quota("c", {GPU: 1}), text=f"{head}plugins: [{{name: MidResources}}]\n"))
    assert "- No quota is enforced: the scheduler's profile (ConfigMap headroom-system/headroom-scheduler)" in (
        capsys.readouterr().out
    )


@pytest.mark.parametrize("denied", ["LIST /api/v1/pods", "LIST /api/v1/nodes", f"LIST {QUOTAS}"])
async def test_tenant_sees_its_quota(denied: str, capsys: pytest.CaptureFixture[str]) -> None:
    """A login that may not read the whole cluster sees its namespace's quota by its status, and the missing kind."""
    api = cluster(quota("a", {GPU: 1}), quota("b", {GPU: 2}))
    api.fails[denied] = ApiError(403, "Forbidden", "nodes is forbidden")
    await run(api, "-n", "b")
    header, row, _, note = capsys.readouterr().out.splitlines()
    assert header.split() == ["NAMESPACE", "NAME", "RESOURCE", "MIN", "USED", "MAX"]
    assert row.split()[:4] == ["b", "qb", GPU, "2"]
    assert note.startswith("- nodes is forbidden. So this is the namespace's quota by its own status.")
    await run(api, "-n", "b", "-o", "json")
    report = json.loads(capsys.readouterr().out)
    assert [item["namespace"] for item in report["items"]] == ["b"]
    with pytest.raises(ApiError):
        await run(api, "-n", "none")


async def test_nothing_to_show() -> None:
    """Without the definition of quotas the message has the command that adds it."""
    unknown = cluster()
    unknown.fails[f"LIST {QUOTAS}"] = ApiError(404, "NotFound", "no such kind")
    with pytest.raises(CommandError, match=r"kubectl apply --server-side -f charts/headroom/crds/elastic_quota\.yaml"):
        await run(unknown)
    unknown.fails[f"LIST {QUOTAS}"] = ApiError(403, "Forbidden", "no")
    with pytest.raises(ApiError):
        await run(unknown)


@pytest.mark.parametrize("words", [["explain"], ["verify", "pod"], ["list", "pod"], ["-n", "a", "-A"], ["evict", "p"]])
def test_wrong_words(words: list[str], capsys: pytest.CaptureFixture[str]) -> None:
    """A wrong command line is one line, and exit code 2."""
    try:
        code: object = main(["quota", *words])
    except SystemExit as ended:
        code = ended.code
    assert code == USAGE
    assert capsys.readouterr().err.count("\n") == 1


_AMOUNTS = st.lists(st.tuples(st.integers(0, 50), st.integers(0, 50)), min_size=1, max_size=6)


@given(_AMOUNTS)
def test_lent_equals_borrowed(pairs: list[tuple[int, int]]) -> None:
    """Together quotas lend the borrowed amount, or all spare; none lends more than its spare."""
    quotas = [Quota(str(row), str(row), "q", 0, {"x": least}, {}) for row, (least, _) in enumerate(pairs)]
    used = {str(row): {"x": amount} for row, (_, amount) in enumerate(pairs)}
    lent = lending("x", quotas, used)
    borrowed = sum(max(0, amount - least) for least, amount in pairs)
    spare = {str(row): max(0, least - amount) for row, (least, amount) in enumerate(pairs)}
    assert sum(lent.values()) == min(borrowed, sum(spare.values()))
    assert all(0 <= lent[name] <= spare[name] for name in spare)
    if borrowed and borrowed <= sum(spare.values()):
        exact = {name: amount * borrowed / sum(spare.values()) for name, amount in spare.items()}
        assert all(abs(lent[name] - exact[name]) < 1 for name in spare)


@pytest.mark.parametrize(
    ("resource", "amount", "text"),
    [
        ("cpu", 51, "51m"),
        ("kubernetes.io/mid-cpu", 51, "51m"),
        ("kubernetes.io/batch-cpu", 1500, "1500m"),
        ("kubernetes.io/mid-memory", 64 << 20, "64Mi"),
        ("kubernetes.io/batch-memory", 3 << 30, "3Gi"),
        ("pods", 51, "51"),
        (GPU, 2, "2"),
    ],
)
def test_mid_amounts_have_the_units_of_top(resource: str, amount: int, text: str) -> None:
    """`top` has the same amounts of Mid pods as 51m and 64Mi."""
    assert show.text(resource, amount) == text
