import pytest

from headroom.kube.proxies import proxy_for

PROXY = "http://proxy:3128"


def _proxied(url: str, no_proxy: str, **more: str) -> bool:
    environment = {"HTTPS_PROXY": PROXY, "HTTP_PROXY": "http://plain:3128", "NO_PROXY": no_proxy, **more}
    return proxy_for(url, environment) is not None


CLUSTER = ".svc,10.0.0.0/8,fd00::/8"


@pytest.mark.parametrize(
    ("url", "no_proxy", "proxied"),
    [
        ("https://10.96.0.1:443", CLUSTER, False),
        ("https://11.96.0.1:443", CLUSTER, True),
        ("https://[fd00::1]:6443", CLUSTER, False),
        ("https://[fe00::1]:6443", CLUSTER, True),
        ("https://[::ffff:10.1.2.3]", CLUSTER, False),
        ("https://kubernetes.default.svc", CLUSTER, False),
        ("https://kubernetes.default.svc.cluster.local", CLUSTER, True),
        ("https://svc", CLUSTER, True),  # a leading dot names subdomains alone
        ("https://10.96.0.1", " 10.0.0.0/8 , x", False),
        ("https://10.96.0.1", "10.96.7.7/16", False),
        ("https://10.96.0.1", "10.0.0.0/33,10.96.0.1/x", True),
        ("https://name", "0.0.0.0/0", True),
        ("https://example.com", "example.com", False),
        ("https://a.example.com", "example.com", False),
        ("https://anexample.com", "example.com", True),
        ("https://example.com", ".example.com", True),
        ("https://a.example.com", ".example.com", False),
        ("https://a.example.com", "*.example.com", False),
        ("https://example.com", "*.example.com", True),
        ("https://EXAMPLE.com", "Example.COM", False),
        ("https://example.com:6443", "example.com:6443", False),
        ("https://example.com:443", "example.com:6443", True),
        ("https://example.com", "example.com:443", False),
        ("http://example.com", "example.com:80", False),
        ("https://192.0.2.1:6443", "192.0.2.1:6443", False),
        ("https://192.0.2.1", "192.0.2.1:6443", True),
        ("https://192.0.2.1", "192.0.2.1", False),
        ("https://192.0.2.10", "192.0.2.1", True),
        ("https://[2001:db8::1]:6443", "[2001:db8::1]:6443", False),
        ("https://[2001:db8::1]:6444", "[2001:db8::1]:6443", True),
        ("https://[2001:db8::1]", "2001:db8:0::1", False),
        ("https://[2001:db8::1]", "[2001:db8::1]", False),
        ("https://[2001:db8::2]", "2001:db8::1", True),
        ("https://b\u00fccher.example", "xn--bcher-kva.example", False),
        ("https://xn--bcher-kva.example", "b\u00fccher.example", False),
        ("https://example.com", "*", False),
        ("https://example.com", "a, * ,b", False),
        ("https://example.com", "", True),
        ("https://example.com", ",, ,:443,", True),
        ("https://localhost:6443", "", False),
        ("https://127.0.0.1", "", False),
        ("https://127.9.9.9", "", False),
        ("https://[::1]:6443", "", False),
        ("https://localhost.example.com", "", True),
        ("ftp://example.com", "", False),
    ],
)
def test_no_proxy(url: str, no_proxy: str, *, proxied: bool) -> None:
    """NO_PROXY has Go's rules: ranges, addresses, ports, and domains with and without a leading dot."""
    assert _proxied(url, no_proxy) is proxied


def test_variables() -> None:
    """Each scheme has a variable; upper case comes first; without a scheme the proxy speaks http."""
    assert proxy_for("https://a", {"https_proxy": PROXY}) == PROXY
    assert proxy_for("https://a", {"https_proxy": "http://no", "HTTPS_PROXY": PROXY}) == PROXY
    assert proxy_for("https://a", {"HTTPS_PROXY": PROXY, "NO_PROXY": "", "no_proxy": "a"}) is None
    assert proxy_for("https://a", {"HTTPS_PROXY": PROXY, "NO_PROXY": "b", "no_proxy": "a"}) == PROXY
    assert proxy_for("https://a", {"HTTP_PROXY": PROXY, "ALL_PROXY": PROXY}) is None
    assert proxy_for("http://a", {"HTTPS_PROXY": PROXY}) is None
    assert proxy_for("http://a", {"HTTP_PROXY": "proxy:3128"}) == PROXY
    assert proxy_for("http://a", {"HTTP_PROXY": PROXY, "REQUEST_METHOD": "GET"}) is None
    assert proxy_for("https://a", {"HTTPS_PROXY": "socks5://p:1080"}) == "socks5://p:1080"
    assert proxy_for("https://a", {}) is None
