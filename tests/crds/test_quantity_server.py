"""Quantities against the API server's own arithmetic."""

import asyncio
import re
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from crds.quantity import QuantityError, format_bytes, format_milli_cores, milli_value, parse_quantity, value
from headroom import kube
from tests.crds.installing import install

if TYPE_CHECKING:
    from tools.devcluster import Cluster

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


async def _judge(kubeconfig: str, texts: Sequence[str]) -> None:
    """Let the server compare each text with the value that we give it; it refuses the object where we differ."""
    body = {
        "apiVersion": f"{GROUP}/v1",
        "kind": "Quantities",
        "metadata": {"name": "judged"},
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
def judge(cluster: "Cluster") -> str:
    """A kubeconfig of a server that knows the kind whose validation compares quantities."""
    asyncio.run(_install(str(cluster.kubeconfig)))
    return str(cluster.kubeconfig)


@pytest.mark.cluster
@settings(max_examples=20, deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(texts=st.lists(st.one_of(quantities, near_misses), min_size=30, max_size=100))
def test_values_match_api_server(judge: str, texts: list[str]) -> None:
    """The API server takes the same texts for quantities as we do, with the same exact values."""
    asyncio.run(_judge(judge, texts))


@pytest.mark.cluster
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
