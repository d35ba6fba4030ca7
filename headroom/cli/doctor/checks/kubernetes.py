"""The API server: its version, and whether our clock agrees with its."""

import re
from collections.abc import AsyncIterator
from typing import Final

from headroom.cli.doctor.cluster import Site
from headroom.cli.doctor.finding import Finding, error, info, ok

OLDEST: Final = (1, 30)  # the oldest Kubernetes that the chart installs on
_CLOCK_SECONDS: Final = 10.0


async def check(site: Site) -> AsyncIterator[Finding]:
    """Version of the API server, and its clock."""
    text = str((await site.version()).get("gitVersion", ""))
    number = minor(text)
    if number is None:
        yield info(f"The API server calls its version {text!r}, which says nothing.")
    elif number < OLDEST:
        yield error(
            f"The API server is Kubernetes {text}; Headroom needs 1.30 or newer.",
            "upgrade the cluster's control plane",
            "compatibility.md",
        )
    else:
        yield ok(f"The API server is Kubernetes {text}.")
    ahead = site.api.ahead_seconds
    if abs(ahead) > _CLOCK_SECONDS:
        yield info(
            f"The clock of this machine is {abs(ahead):.0f} s {'ahead of' if ahead > 0 else 'behind'} the API "
            "server's, by which ages are told here.",
            "sudo timedatectl set-ntp true",
        )


def minor(version: str) -> tuple[int, int] | None:
    """Major and minor number of a version such as "v1.33.5-gke.1"; None for anything else."""
    found = re.match(r"v?(\d+)\.(\d+)", version)
    return (int(found[1]), int(found[2])) if found else None
