"""The one HTTP server of all services, with bounds on connections, bytes and time. Knows pages alone."""

from headroom.runtime.http.connection import Limits
from headroom.runtime.http.listener import CertificateError, Served, ServerTls, listen, serve
from headroom.runtime.http.pages import JSON, TEXT, Page, Pages, Reply, Request
from headroom.runtime.http.rate_limited_pages import OPEN, CoalescedRender, MetricsPage, health_pages
from headroom.runtime.http.tls_socket import TlsSocket, bind

__all__ = [
    "JSON",
    "OPEN",
    "TEXT",
    "CertificateError",
    "CoalescedRender",
    "Limits",
    "MetricsPage",
    "Page",
    "Pages",
    "Reply",
    "Request",
    "Served",
    "ServerTls",
    "TlsSocket",
    "bind",
    "health_pages",
    "listen",
    "serve",
]
