"""Packages of the distribution: for the real node; for tests, a browser and a Prometheus."""

import os
import platform
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

from tools.devcluster.commands import CommandError, DevClusterError, MissingRequirementError, run
from tools.devcluster.network import CNI_FOLDERS, CNI_PLUGINS
from tools.devcluster.places import cache_directory, file_lock

ADMINISTRATOR_FOLDERS = "/usr/local/sbin:/usr/sbin:/sbin"
"""Where some of the programs are, which a user's PATH may leave out."""
INSTALL_SECONDS = 900.0
DOWNLOAD_SECONDS = 600.0

Say = Callable[[str], None]


@dataclass(frozen=True)
class Package:
    """A package of Debian and Ubuntu, and a check that it is installed."""

    name: str
    purpose: str  # its use in the dev cluster
    programs: tuple[str, ...] = ()  # programs that it brings; on PATH or in an administrator's folder
    files: tuple[tuple[Path, ...], ...] = ()  # files that it brings: of each group one must be there

    @property
    def present(self) -> bool:
        """Return whether this machine has the package's programs, from any source."""
        path = f"{os.environ.get('PATH', os.defpath)}:{ADMINISTRATOR_FOLDERS}"
        programs = all(shutil.which(program, path=path) for program in self.programs)
        return programs and all(any(file.exists() for file in group) for group in self.files)


_CNI = tuple(tuple(folder / plugin for folder in CNI_FOLDERS) for plugin in CNI_PLUGINS)
_CERTIFICATES = (Path("/etc/ssl/certs/ca-certificates.crt"), Path("/etc/ssl/cert.pem"))
PACKAGES = (
    Package("util-linux", "namespaces", ("unshare", "nsenter")),
    Package("iproute2", "the node's network", ("ip",)),
    Package("runc", "runs containers", ("runc",)),
    Package("containernetworking-plugins", "the pods' network", files=_CNI),
    Package("debootstrap", "the base of our images", ("debootstrap",)),
    Package("buildah", "builds our images", ("buildah",)),
    Package("ca-certificates", "downloads", files=(_CERTIFICATES,)),
)
"""Packages of the real node and its images that are not built here."""


def real_node_refusal() -> str | None:
    """Return why this user on this machine cannot have a real node, or None: a matter of rights, not of packages."""
    if sys.platform != "linux" or platform.machine() not in ("x86_64", "aarch64"):
        return f"the real node needs Linux on x86_64 or aarch64, and this is {platform.system()} {platform.machine()}"
    if os.geteuid() != 0:
        return "the real node needs root: run with sudo; kwok nodes work without"
    return None


def missing(packages: Sequence[Package] = PACKAGES) -> list[Package]:
    """The missing packages."""
    return [package for package in packages if not package.present]


def install(say: Say = print) -> None:
    """Install the real node's missing packages, where a node is possible."""
    refusal = real_node_refusal()
    if refusal:
        say(f"no system packages are needed: {refusal}")
    else:
        install_packages(missing(), say)


def install_packages(wanted: Sequence[Package], say: Say = print) -> None:
    """Install packages: with apt-get as root on Debian and Ubuntu, said first; elsewhere say what to install."""
    if not wanted:
        return
    names = [package.name for package in wanted]
    if shutil.which("apt-get") is None:
        raise MissingRequirementError(f"install what Debian calls {' '.join(names)} with this system's package manager")
    if os.geteuid() != 0:
        raise MissingRequirementError(f"missing here: {' '.join(names)}; as root, apt-get install {' '.join(names)}")
    say(f"installing system packages: {', '.join(f'{name.name} ({name.purpose})' for name in wanted)}")
    for command in (["update"], ["install", "-y", "--no-install-recommends", *names]):
        _apt_get(command, f"install {' '.join(names)} by hand")
    left = [package.name for package in missing(wanted)]
    if left:
        raise MissingRequirementError(f"still missing after apt-get: what {', '.join(left)} bring")


def _apt_get(command: Sequence[str], hint: str) -> None:
    # Rows of tests begin beside each other, and apt-get fails where another one is at work.
    with file_lock(cache_directory() / "apt-get.lock", "apt-get"):
        done = subprocess.run(
            ["apt-get", "-qq", *command],
            check=False,
            env={**os.environ, "DEBIAN_FRONTEND": "noninteractive"},
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            timeout=INSTALL_SECONDS,
        )
    if done.returncode != 0:
        last = "\n".join(f"    {line}" for line in done.stdout.splitlines()[-10:])
        raise DevClusterError(f"`apt-get {' '.join(command)}` failed; {hint}:\n{last}")


def download(names: Sequence[str], folder: Path, say: Say = print) -> Path:
    """Download packages into a folder and unpack them, without installing them; returns where to."""
    command = ["apt-get", "-qq", "download", *names]
    try:
        run(command, cwd=folder, timeout_seconds=DOWNLOAD_SECONDS)
    except CommandError:  # there may be no lists yet, or they name a version that is gone
        if os.geteuid() != 0:
            raise MissingRequirementError("as root, apt-get update") from None
        say("reading which system packages there are")
        _apt_get(["update"], "run it by hand")
        run(command, cwd=folder, timeout_seconds=DOWNLOAD_SECONDS)
    for package in sorted(folder.glob("*.deb")):
        run(["dpkg-deb", "--extract", package, folder / "unpacked"])
    return folder / "unpacked"


BROWSER = Package("chromium-headless-shell", "a browser without a window", ("chromium-headless-shell",))
"""Debian's; 100 MB with its dependencies."""
BROWSERS = (BROWSER.name, "headless_shell", "chromium", "chromium-browser", "google-chrome", "google-chrome-stable")
"""Browsers that understand the same words, the smallest first."""


def _find_browser() -> Path | None:
    return next((Path(result) for browser in BROWSERS if (result := shutil.which(browser))), None)


def browser_refusal() -> str | None:
    """Return why this machine cannot have a browser, or None."""
    if _find_browser() is not None:
        return None
    if shutil.which("apt-get") is None:
        return f"no browser ({', '.join(BROWSERS)}) is installed, and {BROWSER.name} is Debian's package"
    if os.geteuid() != 0:
        return f"no browser is installed, and only root can: apt-get install {BROWSER.name}"
    return None


def browser(say: Say = print) -> Path:
    """A real browser for tests of the manager's web page, installed the first time."""
    if unable := browser_refusal():
        raise MissingRequirementError(unable)
    if _find_browser() is None:
        install_packages([BROWSER], say)
    result = _find_browser()
    if result is None:
        raise MissingRequirementError(f"{BROWSER.name} is installed and brought none of {', '.join(BROWSERS)}")
    return result


@dataclass(frozen=True, slots=True)
class Prometheus:
    """A real Prometheus for tests."""

    server: Path
    tool: Path  # checks rules and configurations


def _find_prometheus() -> Prometheus | None:
    """The installed one, else the one in the cache."""
    path = f"{os.environ.get('PATH', os.defpath)}:{cache_directory() / 'prometheus/bin'}"
    server, tool = shutil.which("prometheus", path=path), shutil.which("promtool", path=path)
    return Prometheus(Path(server), Path(tool)) if server and tool else None


def prometheus_refusal() -> str | None:
    """Return why this machine cannot have Prometheus, or None: it is a package of Debian and Ubuntu."""
    if _find_prometheus() is None and not all(map(shutil.which, ("apt-get", "dpkg-deb"))):
        return "Prometheus is not installed, and its package is Debian's and Ubuntu's"
    return None


def prometheus(say: Say = print) -> Prometheus:
    """The Prometheus that is installed, else the one in the cache, unpacked there the first time, not installed."""
    if unable := prometheus_refusal():
        raise MissingRequirementError(unable)
    if (result := _find_prometheus()) is not None:
        return result
    directory = cache_directory() / "prometheus"
    with file_lock(directory / "lock", "prometheus", say):
        if (result := _find_prometheus()) is not None:
            return result
        say("downloading prometheus, without installing it")
        with tempfile.TemporaryDirectory(dir=directory, prefix=".partial-") as work:
            (download(["prometheus"], Path(work), say) / "usr/bin").rename(directory / "bin")
    result = _find_prometheus()
    if result is None:
        raise DevClusterError("the package prometheus does not hold prometheus and promtool")
    return result
