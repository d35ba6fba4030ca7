from collections.abc import Iterator

import pytest

from manager.calculators.mid import calculate
from manager.health import Progress
from manager.http import ListenError, parse_address
from manager.inputs import Amounts, PodInputs
from manager.metrics import ManagerMetrics, MetricsServer
from manager.mid.pod_limits import PodLimits
from tests.agent.process import get
from tests.support.objects import mid_pod, node, node_inputs, report


@pytest.fixture
def progress() -> Progress:
    return Progress()


@pytest.fixture
def metrics() -> ManagerMetrics:
    return ManagerMetrics()


@pytest.fixture
def server(metrics: ManagerMetrics, progress: Progress) -> Iterator[MetricsServer]:
    server = MetricsServer("127.0.0.1:0", metrics, progress.health)
    server.start()
    yield server
    server.stop()


def _get(server: MetricsServer, path: str) -> tuple[int, str]:
    return get(f"http://127.0.0.1:{server.port}{path}")


def test_metrics_of_a_node_come_and_go_with_it(server: MetricsServer, metrics: ManagerMetrics) -> None:
    pods = [PodInputs.from_object(mid_pod("m", cpu="5000", limits={})), PodInputs.from_object(mid_pod("limited"))]
    limits = PodLimits.of(pods, {"shop/m": Amounts(5500, 3 << 30)})
    metrics.show("n1", calculate(node_inputs(node(), report(), mid_pod("m", cpu="5000"))), limits)
    status, text = _get(server, "/metrics")
    assert status == 200
    assert 'headroom_manager_mid_calculated{node="n1",resource="cpu"} 4000.0' in text
    assert 'headroom_manager_mid_published{node="n1",resource="cpu"} 5000.0' in text
    assert 'headroom_manager_mid_deficit{node="n1",resource="cpu"} 1000.0' in text
    assert 'headroom_manager_mid_pods_without_limits{node="n1"} 1.0' in text
    assert 'headroom_manager_mid_pods_beyond_requests{node="n1"} 1.0' in text
    assert 'headroom_manager_mid_usage_beyond_requests{node="n1",resource="cpu"} 500.0' in text
    assert 'headroom_manager_mid_usage_beyond_requests{node="n1",resource="memory"} 1.073741824e+09' in text
    metrics.show("n1", calculate(node_inputs(node(), report(age=5000))), PodLimits())
    assert 'headroom_manager_mid_pods_without_limits{node="n1"} 0.0' in _get(server, "/metrics")[1]
    assert 'headroom_manager_mid_degraded{node="n1",reason="ReportExpired"} 1.0' in _get(server, "/metrics")[1]
    metrics.show("n1", calculate(node_inputs(node(), report())), PodLimits())
    assert 'reason="ReportExpired"' not in _get(server, "/metrics")[1]
    metrics.forget("n1")
    metrics.forget("n1")
    assert 'node="n1"' not in _get(server, "/metrics")[1]


def test_health_is_200_or_503_with_words(server: MetricsServer, progress: Progress) -> None:
    assert _get(server, "/healthz") == (200, "ok\n")
    assert _get(server, "/livez") == (200, "ok\n")
    progress.heartbeat -= 40
    assert _get(server, "/healthz") == (503, "[-] loop: the event loop has been stuck for 40 s\nunhealthy\n")
    assert _get(server, "/livez")[0] == 503
    assert _get(server, "/")[0] == 404


def test_readiness_names_the_missing_part(server: MetricsServer, progress: Progress) -> None:
    """A manager is ready once it has read everything, leader or not; until then the page names the missing part."""
    progress.problem = "The API server cannot be reached"
    progress.pods.problem = "Forbidden"
    status, text = _get(server, "/readyz")
    assert status == 503
    assert text.splitlines() == [
        "[-] config: the ConfigMap has not been read yet; The API server cannot be reached",
        "[-] nodes: Nodes have not been listed yet; The API server cannot be reached",
        "[-] nodemetrics: NodeMetrics have not been listed yet",
        "[-] pods: Forbidden; The API server cannot be reached",
        "not ready",
    ]
    progress.problem = progress.pods.problem = ""
    progress.config_read = progress.nodes_listed = progress.pods.synced = True
    progress.node_metrics.not_found = True
    status, text = _get(server, "/readyz")
    assert (status, "install Headroom's CRDs" in text) == (503, True)
    progress.node_metrics.not_found, progress.node_metrics.synced = False, True
    assert _get(server, "/readyz") == (200, "ready\n")
    progress.further["webhook"] = lambda: "no certificate yet"
    assert _get(server, "/readyz") == (503, "[-] webhook: no certificate yet\nnot ready\n")


def test_verbose_tells_of_the_definition(server: MetricsServer, progress: Progress) -> None:
    """A definition removed later does not make the manager unready; the verbose page reports it, and the leader."""
    progress.config_read = progress.nodes_listed = progress.pods.synced = progress.node_metrics.synced = True
    progress.node_metrics.not_found = True
    progress.leadership = lambda: "is a standby of a"
    assert _get(server, "/readyz")[0] == 200
    text = _get(server, "/readyz?verbose")[1]
    assert "    leadership: is a standby of a\n" in text
    assert "    NodeMetric: the API server does not know NodeMetric" in text


@pytest.mark.parametrize(
    ("text", "address"),
    [(":8080", ("", 8080)), ("127.0.0.1:0", ("127.0.0.1", 0)), ("[::1]:80", ("::1", 80)), ("host:9", ("host", 9))],
)
def test_addresses_are_read(text: str, address: tuple[str, int]) -> None:
    assert parse_address(text) == address


@pytest.mark.parametrize("text", ["", "8080", "host:", "host:x", "host:70000", ":-1"])
def test_bad_addresses_are_refused(text: str) -> None:
    with pytest.raises(ListenError, match="write host:port"):
        parse_address(text)
