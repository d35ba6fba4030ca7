"""The proxy of a request by the environment, by the rules of Go, which kubectl and Kubernetes' components follow."""

import ipaddress
import os
from collections.abc import Mapping
from urllib.parse import urlsplit

_PORTS = {"http": 80, "https": 443}
_Address = ipaddress.IPv4Address | ipaddress.IPv6Address


def proxy_for(url: str, environment: Mapping[str, str] | None = None) -> str | None:
    """Return the URL of the proxy for a request; None for a direct one.

    HTTPS_PROXY is for https and HTTP_PROXY for http; without a scheme it is an http proxy. Loopback is always reached
    directly, and so are the entries of NO_PROXY, separated by commas: `*`, an address, a range such as 10.0.0.0/8,
    a domain with its subdomains (`example.com`), subdomains alone (`.example.com`, `*.example.com`). An address or
    domain may have a port. Names in upper case come before those in lower case.
    """
    environment = os.environ if environment is None else environment
    parts = urlsplit(url)
    proxy = _either(environment, f"{parts.scheme.upper()}_PROXY") if parts.scheme in _PORTS else ""
    if parts.scheme == "http" and environment.get("REQUEST_METHOD"):
        proxy = ""  # of a CGI program, HTTP_PROXY is a header of its client's request
    host = _ascii(parts.hostname or "")
    if not proxy or _is_direct(host, parts.port or _PORTS[parts.scheme], _either(environment, "NO_PROXY")):
        return None
    return proxy if "://" in proxy else f"http://{proxy}"


def _either(environment: Mapping[str, str], name: str) -> str:
    return environment.get(name) or environment.get(name.lower()) or ""


def _is_direct(host: str, port: int, no_proxy: str) -> bool:
    address = _address(host)
    if host == "localhost" or (address is not None and address.is_loopback):
        return True
    entries = [entry for part in no_proxy.split(",") if (entry := part.strip().lower())]
    return "*" in entries or any(_matches(entry, host, port, address) for entry in entries)


def _matches(entry: str, host: str, port: int, address: _Address | None) -> bool:
    """Return whether an entry of NO_PROXY names a host."""
    try:
        network = ipaddress.ip_network(entry, strict=False) if "/" in entry else None
    except ValueError:
        network = None
    if network is not None:
        return address is not None and address in network
    name, _, wanted_port = entry.rpartition(":") if entry.count(":") == 1 or "]:" in entry else (entry, "", "")
    name = name.removeprefix("[").removesuffix("]")
    if not name or (wanted_port and wanted_port != str(port)):
        return False
    named = _address(name)
    if address is not None or named is not None:
        return address == named
    domain = _ascii(name.removeprefix("*"))
    if domain.startswith("."):
        return host.endswith(domain)
    return host == domain or host.endswith(f".{domain}")


def _address(text: str) -> _Address | None:
    """Return an address without its zone; one of version 4 that is written in version 6 is of version 4."""
    try:
        address = ipaddress.ip_address(text.partition("%")[0])
    except ValueError:
        return None
    return getattr(address, "ipv4_mapped", None) or address


def _ascii(name: str) -> str:
    """Return a name with ASCII letters alone, in the form of DNS."""
    try:
        return name if name.isascii() else name.encode("idna").decode("ascii")
    except UnicodeError:
        return name
