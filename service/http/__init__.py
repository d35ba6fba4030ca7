"""The one HTTP server of all services, with bounds on connections, bytes and time. Knows pages alone."""

from service.http.connection import Limits
from service.http.door import Door, bind
from service.http.listener import CertificateError, Served, ServerTls, listen, serve
from service.http.open_pages import OPEN, MetricsPage, Paced, health_pages
from service.http.pages import JSON, TEXT, Page, Pages, Reply, Request

__all__ = [
    "JSON",
    "OPEN",
    "TEXT",
    "CertificateError",
    "Door",
    "Limits",
    "MetricsPage",
    "Paced",
    "Page",
    "Pages",
    "Reply",
    "Request",
    "Served",
    "ServerTls",
    "bind",
    "health_pages",
    "listen",
    "serve",
]
