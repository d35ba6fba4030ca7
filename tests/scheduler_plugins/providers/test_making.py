"""From arguments to a provider."""

from typing import Any, cast

import pytest

from headroom.kube import ApiServer
from scheduler_plugins.arguments import encode
from scheduler_plugins.providers.provider import Cluster, Provider
from scheduler_plugins.providers.runner import make
from scheduler_plugins.providers.spec import TYPES, MetricProvider, ProviderSpec, is_url

NOWHERE = Cluster(cast("ApiServer", None), lambda _name: None)


def made(watcher_address: str | None = None, **settings: Any) -> Provider:  # noqa: ANN401
    return make(ProviderSpec(MetricProvider(**settings), watcher_address), NOWHERE)


def test_type_selects_the_provider() -> None:
    assert made(type="Prometheus").address == "http://prometheus-k8s:9090"
    assert made(type="SignalFx").address == "https://api.signalfx.com"
    assert made(type="Prometheus", address="https://p:9").address == "https://p:9"
    assert {made(type=name).name for name in TYPES if name != "NodeMetric"} == set(TYPES) - {"NodeMetric"}


def test_watcher_comes_first() -> None:
    provider = made("http://w:2020", type="Prometheus", address="http://p:9090")
    assert (provider.name, provider.address) == ("LoadWatcher", "http://w:2020")


@pytest.mark.parametrize("name", ["", "NodeMetric", "prometheus", "Datadog"])
def test_others_are_no_providers(name: str) -> None:
    with pytest.raises(LookupError, match="Prometheus"):
        made(type=name)


def test_unchecked_certificate_is_warned_of(caplog: pytest.LogCaptureFixture) -> None:
    made(type="Prometheus")
    assert caplog.text == ""
    made(type="Prometheus", insecure_skip_verify=True)
    assert "is not checked" in caplog.text


@pytest.mark.parametrize(
    ("settings", "field"),
    [
        ({"address": "prometheus:9090"}, "address"),
        ({"address": "http://u:p@host"}, "address"),
        ({"token": "a", "token_file": "b"}, "tokenFile"),
        ({"node_pattern": "("}, "nodePattern"),
        ({"node_pattern": "abc"}, "nodePattern"),
        ({"node_pattern": "(a)(b)"}, "nodePattern"),
        ({"node_pattern": "([[:alpha:]]+)"}, "nodePattern"),  # of another dialect: it would match no node
        ({"window_duration": 0.0}, "windowDuration"),
        ({"interval_seconds": float("nan")}, "intervalSeconds"),
        ({"timeout_seconds": 1e9}, "timeoutSeconds"),
        ({"cpu_metric": "x" * 5000}, "cpuMetric"),
    ],
)
def test_mistakes_are_named(settings: dict[str, Any], field: str) -> None:
    assert [name for name, _ in MetricProvider(**settings).mistakes()] == [field]


def test_good_settings_have_no_mistakes() -> None:
    assert MetricProvider().mistakes() == []
    used = MetricProvider("Prometheus", "https://p:9090/base", "abc", node_pattern="(.*):9100", ca_file="/ca.crt")
    assert used.mistakes() == []


@pytest.mark.parametrize("text", ["", "http://", "ftp://a", "http://a:99999", "http://[", "http://a?b=c", "//a"])
def test_other_texts_are_no_urls(text: str) -> None:
    assert not is_url(text)


def test_token_is_not_shown() -> None:
    settings = MetricProvider("SignalFx", token="s3cret")  # noqa: S106
    assert "s3cret" not in repr(settings)
    assert encode(settings, secrets=False)["token"] == "..."  # noqa: S105
    assert encode(settings)["token"] == "s3cret"  # noqa: S105
