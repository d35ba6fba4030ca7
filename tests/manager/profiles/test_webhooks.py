"""The webhooks of profiles."""

from manager.profiles.webhooks import changes_pods_of_koordinator, name_of, webhooks, with_authority
from tests.manager.profiles.made import profile

NAMESPACE = "headroom-system"
SERVICE = "headroom-manager-webhook"


def test_webhook_selects_what_its_profile_selects() -> None:
    """Namespaces and labels are those of the profile, without kube-system and Headroom's namespace; failures pass."""
    selected = profile(
        namespaceSelector={"matchLabels": {"team": "a"}, "matchExpressions": []},
        selector={"matchExpressions": [{"key": "app", "operator": "Exists", "values": []}]},
    )
    (hook,) = webhooks([selected], NAMESPACE, SERVICE)
    assert hook["namespaceSelector"] == {
        "matchLabels": {"team": "a"},
        "matchExpressions": [
            {"key": "kubernetes.io/metadata.name", "operator": "NotIn", "values": ["kube-system", NAMESPACE]}
        ],
    }
    assert hook["objectSelector"] == {"matchExpressions": [{"key": "app", "operator": "Exists"}]}
    assert (hook["failurePolicy"], hook["timeoutSeconds"], hook["sideEffects"]) == ("Ignore", 2, "None")
    assert hook["clientConfig"]["service"] == {
        "name": SERVICE,
        "namespace": NAMESPACE,
        "path": "/profiles/mid",
        "port": 443,
    }


def test_share_of_pods_is_reviewed_once() -> None:
    """A second review would select more than the share; a profile with probability 0 has no webhook."""
    assert webhooks([profile()], NAMESPACE, SERVICE)[0]["reinvocationPolicy"] == "IfNeeded"
    assert webhooks([profile(probability="30%")], NAMESPACE, SERVICE)[0]["reinvocationPolicy"] == "Never"
    assert webhooks([profile(probability=0)], NAMESPACE, SERVICE) == []


def test_authority_is_kept() -> None:
    """A webhook keeps its authority, and a new one gets that of the others, or the manager's own."""
    wanted = webhooks([profile()], NAMESPACE, SERVICE)
    (first,) = with_authority(wanted, [], "own")
    assert first["clientConfig"]["caBundle"] == "own"
    (kept,) = with_authority(wanted, [{**first, "clientConfig": {"caBundle": "kept"}}], "own")
    assert kept["clientConfig"]["caBundle"] == "kept"
    (usual,) = with_authority(wanted, [{"name": "other", "clientConfig": {"caBundle": "others"}}], "own")
    assert usual["clientConfig"]["caBundle"] == "others"
    assert with_authority(wanted, [], "") == wanted


def test_long_names_stay_different() -> None:
    """The name of a webhook has at most 253 characters, and differs for different profiles."""
    assert name_of("mid") == "mid.profiles.headroom.dev"
    names = {name_of("a" * 250 + end) for end in ("bcd", "bce")}
    assert len(names) == 2
    assert all(len(name) <= 253 for name in names)


def test_koordinator_is_its_webhook_for_pods() -> None:
    """Koordinator applies profiles if it has a webhook for pods; one for nodes or quotas does not count."""
    hook = {"name": "mpod-create.koordinator.sh", "rules": [{"resources": ["pods"]}]}
    other = {"name": "mnode.koordinator.sh", "rules": [{"resources": ["nodes/status"]}]}
    foreign = {"name": "pods.example.com", "rules": [{"resources": ["pods"]}]}
    configuration = {"metadata": {"name": "koord"}, "webhooks": [other, foreign]}
    assert changes_pods_of_koordinator([{"metadata": {"name": "none"}}, configuration]) == ""
    assert changes_pods_of_koordinator([{**configuration, "webhooks": [other, hook]}]) == "koord"
