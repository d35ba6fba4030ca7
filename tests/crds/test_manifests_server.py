"""The manifests on a real API server: accepted, stored, rejected and printed objects."""

import asyncio
import re
from collections.abc import AsyncIterator, Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
import yaml
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

import crds
from crds import elastic_quota, node_metric
from crds.quantity import QuantityError, format_bytes, format_milli_cores, milli_value, parse_quantity, value
from headroom import kube
from tests.crds.installing import install
from tests.crds.test_codec import KOORDINATOR

if TYPE_CHECKING:
    from tools.devcluster import Cluster

pytestmark = pytest.mark.cluster
MANIFESTS = Path(crds.__file__).parent
NODE_METRICS = f"/apis/{node_metric.GROUP}/{node_metric.VERSION}/{node_metric.PLURAL}"
QUOTAS = f"/apis/{elastic_quota.GROUP}/{elastic_quota.VERSION}/namespaces/default/{elastic_quota.PLURAL}"
COLUMNS = "NAME CPU MEMORY PROD PEAK RECLAIMABLE READY MID REPORTED AGE"
QUOTA_COLUMNS = ["NAME", "CPU", "CPU MIN", "CPU MAX", "MEMORY", "MEMORY MIN", "MEMORY MAX", "IN FORCE", "AGE"]
DRY_RUN = {"dryRun": "All"}


@pytest.fixture
async def api(cluster: "Cluster") -> AsyncIterator[kube.ApiServer]:
    async with kube.ApiServer(kube.connect(str(cluster.kubeconfig)), user_agent="headroom-tests") as session:
        for file in sorted(MANIFESTS.glob("*.yaml")):
            await install(session, yaml.safe_load(file.read_text()))
        yield session


@pytest.fixture
async def stored(api: kube.ApiServer) -> AsyncIterator[str]:
    name = "manifest-test"
    await api.create(NODE_METRICS, {**KOORDINATOR, "metadata": {"name": name}})
    yield f"{NODE_METRICS}/{name}"
    await api.delete(f"{NODE_METRICS}/{name}")


async def test_koordinator_status_is_kept(api: kube.ApiServer, stored: str) -> None:
    """A status as Koordinator writes it is accepted, and nothing of it is pruned."""
    answer = await api.patch(kube.paths.status(stored), {"status": KOORDINATOR["status"]})
    assert answer["status"] == KOORDINATOR["status"]
    assert answer["spec"] == KOORDINATOR["spec"]


async def test_our_fields_are_kept(api: kube.ApiServer, stored: str) -> None:
    """Everything that we add to spec and status survives the server."""
    policy = {
        "model": "max",
        "of": [{"model": "diversity", "parameters": {"windowDays": 7, "lambdaMin": 0.4, "capAtHighest": True}}],
        "memory": {"model": "recent-max", "safetyMarginPercent": 5},
        "reclaimRatioPercent": 90,
    }
    prediction = {
        "time": "2026-01-02T03:04:05Z",
        "policy": {"model": "diversity", "parameters": {"windowDays": 7, "lambdaMin": 0.4}},
        "classes": [
            {
                "name": "prod",
                **{name: {"cpu": "3100m", "memory": "9Gi"} for name in ("usage", "mean", "stdev", "peak")},
                "evidence": {"samples": 20160, "spanSeconds": 604800},
            }
        ],
        "pods": {"warm": 31, "cold": 2, "coldNames": ["shop/cart-7f"]},
    }
    condition = {"type": "PredictionReady", "status": "True", "reason": "Enough", "message": "It is."}
    stdev = [{"duration": "5m0s", "usage": {"stdev": {"resources": {"cpu": "10m"}}}}]
    status = {"prediction": prediction, "conditions": [condition], "nodeMetric": {"aggregatedNodeUsages": stdev}}
    spec = (await api.patch(stored, {"spec": {"predictPolicy": policy}}))["spec"]
    answer = await api.patch(kube.paths.status(stored), {"status": status})
    assert spec["predictPolicy"] == policy
    assert {name: answer["status"][name] for name in status} == status


async def test_columns_show_the_prediction(api: kube.ApiServer, stored: str, cluster: "Cluster") -> None:
    """`kubectl get nodemetrics` shows usage, predicted peak, reclaimable amounts, readiness; no raw bytes."""
    ready = {"type": "PredictionReady", "status": "True"}
    published = {"type": "MidPublished", "status": "True", "reason": "Published"}
    # As an agent writes it, and 20.1 GiB that are no whole number of any binary unit.
    summary = {"memory": "20.1Gi", "prodPeak": "5200m/12Gi", "reclaimable": "2/4Gi"}
    used = {"nodeUsage": {"resources": {"cpu": "3100m", "memory": "21582210867"}}}
    now = datetime.now(UTC).strftime("%Y-%m-%dT%H:%M:%SZ")
    body = {"nodeMetric": used, "prediction": {"summary": summary}, "conditions": [ready, published], "updateTime": now}
    await api.patch(kube.paths.status(stored), {"status": body})
    header, row = cluster.kubectl("get", "nodemetrics", "manifest-test").splitlines()
    assert " ".join(header.split()) == COLUMNS
    words = row.split()
    assert words[:7] == ["manifest-test", "3100m", "20.1Gi", "5200m/12Gi", "2/4Gi", "True", "Published"]
    assert re.fullmatch(r"\d+s|\dm\d*s?", words[7])
    wide = cluster.kubectl("get", "nodemetrics", "manifest-test", "-o", "wide")
    assert "21582210867" in wide


async def test_columns_of_koordinators_agent(api: kube.ApiServer, stored: str, cluster: "Cluster") -> None:
    """Another agent's report is shown as far as it goes: CPU, and with -o wide memory."""
    await api.patch(kube.paths.status(stored), {"status": KOORDINATOR["status"]})
    wide = cluster.kubectl("get", "nodemetrics", "manifest-test", "-o", "wide").splitlines()[1].split()
    assert wide[1] == "3100m"
    assert "9Gi" in wide


async def test_columns_of_a_quota(api: kube.ApiServer, cluster: "Cluster") -> None:
    """`kubectl get eq` shows usage by resource and whether the quota is in force; -o wide the rest, and why."""
    name = "columns-test"
    bounds = {"cpu": "4", "memory": "8Gi", "example.com/gpu": "2"}, {"cpu": "8"}
    await api.create(QUOTAS, {**_quota(*bounds), "metadata": {"name": name}})
    condition = {"type": "InForce", "status": "False", "reason": "Older", "message": "Quota x is older."}
    body = {
        "status": {
            "used": {"cpu": "5", "memory": "3Gi"},
            "conditions": [{**condition, "lastTransitionTime": "2026-01-02T03:04:05Z"}],
        }
    }
    try:
        await api.patch(kube.paths.status(f"{QUOTAS}/{name}"), body)
        header, row = cluster.kubectl("get", "eq", name).splitlines()
        assert re.split(r"  +", header.strip()) == QUOTA_COLUMNS
        assert re.split(r"  +", row.strip())[:-1] == [name, "5", "4", "8", "3Gi", "8Gi", "False"]  # no max of memory
        wide = cluster.kubectl("get", "eq", name, "-o", "wide")
        assert '{"cpu":"4","example.com/gpu":"2","memory":"8Gi"}' in wide
        assert "Quota x is older." in wide
    finally:
        await api.delete(f"{QUOTAS}/{name}")


@pytest.mark.parametrize(
    ("policy", "message"),
    [
        ({"checkIntervalSeconds": 600, "forceUpdateIntervalSeconds": 60}, "must not be longer than forceUpdate"),
        ({"model": "max"}, "needs a list of models in `of`"),
        ({"cpu": {"model": "max"}}, "needs a list of models in `of`"),
        ({"safetyMarginPercent": 101}, "should be less than or equal to 100"),
        ({"reclaimRatioPercent": -1}, "should be greater than or equal to 0"),
        ({"model": ""}, "should be at least 1 chars long"),
    ],
)
async def test_wrong_policy_is_refused(api: kube.ApiServer, policy: dict[str, Any], message: str) -> None:
    """A prediction policy out of range never reaches an agent."""
    body = {**KOORDINATOR, "metadata": {"name": "refused"}, "spec": {"predictPolicy": policy}}
    with pytest.raises(kube.ApiError, match=message) as caught:
        await api.create(NODE_METRICS, body, DRY_RUN)
    assert caught.value.reason == "Invalid"


def _quota(minimum: dict[str, Any] | None, maximum: dict[str, Any] | None) -> dict[str, Any]:
    bounds = {"min": minimum, "max": maximum}
    return {
        "apiVersion": elastic_quota.ElasticQuota.API_VERSION,
        "kind": elastic_quota.ElasticQuota.KIND,
        "metadata": {"name": "quota"},
        "spec": {name: bound for name, bound in bounds.items() if bound is not None},
    }


@pytest.mark.parametrize(
    ("minimum", "maximum"),
    [
        (None, None),
        ({}, {}),
        ({"cpu": "1"}, None),
        ({"cpu": "1"}, {"memory": "1Gi"}),
        ({"cpu": 1, "memory": "1Gi"}, {"cpu": "1000m", "memory": "1024Mi"}),  # equal, in other notations
        ({f"example.com/r{index}": 1 for index in range(64)}, {f"example.com/r{index}": 1 for index in range(64)}),
    ],
)
async def test_sound_quota_is_accepted(api: kube.ApiServer, minimum: Any, maximum: Any) -> None:  # noqa: ANN401
    """Bounds in any notation, absent ones and many resources are accepted."""
    answer = await api.create(QUOTAS, _quota(minimum, maximum), DRY_RUN)
    assert answer["spec"] == _quota(minimum, maximum)["spec"]


@pytest.mark.parametrize(
    ("minimum", "maximum"),
    [
        ({"cpu": "1001m"}, {"cpu": 1}),
        ({"memory": "1Gi"}, {"memory": "1G"}),
        ({"ephemeral-storage": "2k"}, {"ephemeral-storage": "1Ki"}),
        ({"nvidia.com/gpu": "9"}, {"nvidia.com/gpu": "8"}),
        ({"kubernetes.io/mid-cpu": "2k"}, {"kubernetes.io/mid-cpu": 1999}),
        ({"huawei.com/Ascend910": "2"}, {"huawei.com/Ascend910": "1"}),
        ({"example.com/r": 2}, {"example.com/r": 1}),
    ],
)
async def test_min_above_max_is_refused(api: kube.ApiServer, minimum: Any, maximum: Any) -> None:  # noqa: ANN401
    """A guarantee above the ceiling is refused, whatever the notation."""
    with pytest.raises(kube.ApiError, match="must not be larger than max"):
        await api.create(QUOTAS, _quota(minimum, maximum), DRY_RUN)


@pytest.mark.parametrize("bound", ["min", "max"])
@pytest.mark.parametrize(
    "name",
    [
        *("requests.cpu", "limits.cpu", "requests.nvidia.com/gpu", "count/jobs.batch", "configmaps", "gpu"),
        "gold.storageclass.storage.k8s.io/requests.storage",
    ],
)
async def test_names_without_effect_are_refused(api: kube.ApiServer, bound: str, name: str) -> None:
    """No pod requests a resource of such a name."""
    amounts = {"cpu": 2, "pods": 2, "hugepages-2Mi": "4Mi", "example.com/r": 1, "kubernetes.io/mid-cpu": 500}
    await api.create(QUOTAS, _quota(amounts, amounts), DRY_RUN)
    with pytest.raises(kube.ApiError, match=f"{bound} names a resource that pods do not request"):
        await api.create(QUOTAS, _quota(*({name: 2} if bound == kind else amounts for kind in ("min", "max"))), DRY_RUN)


GROUP = "judgement.test.headroom.example"
KIND = {"kind": "Quantities", "plural": "quantities", "singular": "quantity"}
CASE = {
    "type": "object",
    "properties": {name: {"type": "string", "maxLength": 128} for name in ("text", "nanos")},
    "x-kubernetes-validations": [
        {"rule": "isQuantity(self.text) == has(self.nanos)", "message": "one of us takes it for a quantity"},
        {
            "rule": "!has(self.nanos) || quantity(self.text).compareTo(quantity(self.nanos)) == 0",
            "message": "it has another value",
        },
    ],
}
SPEC = {"type": "object", "properties": {"cases": {"type": "array", "maxItems": 100, "items": CASE}}}
SCHEMA = {"openAPIV3Schema": {"type": "object", "properties": {"spec": SPEC}}}
MANIFEST = {
    "apiVersion": "apiextensions.k8s.io/v1",
    "kind": "CustomResourceDefinition",
    "metadata": {"name": f"quantities.{GROUP}"},
    "spec": {
        "group": GROUP,
        "scope": "Cluster",
        "names": KIND,
        "versions": [{"name": "v1", "served": True, "storage": True, "schema": SCHEMA}],
    },
}
SUFFIXES = ["", "n", "u", "m", "k", "M", "G", "T", "P", "E", "Ki", "Mi", "Gi", "Ti", "Pi", "Ei"]
EXPONENTS = [
    f"{letter}{sign}{digits}" for letter in "eE" for sign in ("", "+", "-") for digits in ("0", "3", "12", "027")
]

numbers = st.one_of(
    st.integers(0, 10**21).map(str),
    st.decimals(0, 10**12, places=12, allow_nan=False).map(lambda number: f"{number:f}"),
    st.sampled_from([".5", "5.", "00.10", "0"]),
)
quantities = st.builds(
    lambda sign, number, suffix: sign + number + suffix,
    st.sampled_from(["", "+", "-"]),
    numbers,
    st.sampled_from(SUFFIXES + EXPONENTS),
)
# Left out: a suffix or sign without a number, which counts as zero in Kubernetes and which we refuse; and exponents of
# three digits and more, over which a real API server can compute until it runs out of memory.
_LONG_EXPONENT = re.compile(r"[eE][+-]?[0-9]{3}")
near_misses = st.text("0123456789.+-eEinumkKMGTPi ", max_size=12).filter(
    lambda text: (
        not _LONG_EXPONENT.search(text)
        and (text == "" or any(character.isdigit() for character in text.split("e")[0].split("E")[0]))
    )
)


def _case(text: str) -> dict[str, str]:
    try:
        exact = parse_quantity(text)
    except QuantityError:
        return {"text": text}
    return {"text": text, "nanos": f"{int(exact * 10**9)}n"}


async def _evaluate(kubeconfig: str, texts: Sequence[str]) -> None:
    """Let the server compare each text with the value that we give it; it refuses the object where we differ."""
    body = {
        "apiVersion": f"{GROUP}/v1",
        "kind": "Quantities",
        "metadata": {"name": "evaluated"},
        "spec": {"cases": [_case(text) for text in texts]},
    }
    async with kube.ApiServer(kube.connect(kubeconfig), user_agent="headroom-tests") as api:
        try:
            await api.create(f"/apis/{GROUP}/v1/quantities", body, params={"dryRun": "All"})
        except kube.ApiError as error:
            pytest.fail(f"{error.message} for {body['spec']}")


async def _install(kubeconfig: str) -> None:
    async with kube.ApiServer(kube.connect(kubeconfig), user_agent="headroom-tests") as api:
        await install(api, MANIFEST)


@pytest.fixture(scope="module")
def evaluate(cluster: "Cluster") -> str:
    """A kubeconfig of a server with the kind whose validation compares quantities."""
    asyncio.run(_install(str(cluster.kubeconfig)))
    return str(cluster.kubeconfig)


@settings(max_examples=20, deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(texts=st.lists(st.one_of(quantities, near_misses), min_size=30, max_size=100))
def test_values_match_api_server(evaluate: str, texts: list[str]) -> None:
    """The API server takes the same texts for quantities as we do, with the same exact values."""
    asyncio.run(_evaluate(evaluate, texts))


@settings(max_examples=10, deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(
    milli=st.lists(st.integers(0, 999_999), min_size=5, max_size=20),
    data=st.lists(st.integers(0, 2**62), min_size=20, max_size=20),
)
async def test_texts_match_api_server(cluster: "Cluster", milli: list[int], data: list[int]) -> None:
    """The texts that we write for CPU and bytes are the server's canonical ones."""
    containers: list[dict[str, Any]] = [
        {
            "name": f"c{index}",
            "image": "none",
            # The notation decides about the canonical form; ours for bytes is the binary one.
            "resources": {"requests": {"cpu": f"{cpu}m", "memory": f"{(memory // 1024)}Ki"}},
        }
        for index, (cpu, memory) in enumerate(zip(milli, data, strict=False))
    ]
    pod = {"metadata": {"generateName": "quantity-"}, "spec": {"containers": containers}}
    async with kube.ApiServer(kube.connect(str(cluster.kubeconfig)), user_agent="headroom-tests") as api:
        answer = await api.create(kube.paths.pods("default"), pod, params={"dryRun": "All"})
    for sent, back in zip(containers, answer["spec"]["containers"], strict=True):
        cpu, memory = sent["resources"]["requests"]["cpu"], sent["resources"]["requests"]["memory"]
        assert back["resources"]["requests"]["cpu"] == format_milli_cores(milli_value(cpu))
        assert back["resources"]["requests"]["memory"] == format_bytes(value(memory))
