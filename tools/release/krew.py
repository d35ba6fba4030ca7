"""`python -m tools.release.krew`: archives for krew, of the plugin with its libraries for several versions of Python.

An archive has `kubectl-headroom` (a shell script), LICENSE, and `lib/3.11` and so on, each as pip would install it. Two
builds of the same sources and lock give the same bytes.
"""

import argparse
import gzip
import hashlib
import io
import os
import platform
import shutil
import subprocess
import sys
import tarfile
import tempfile
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Final

ROOT: Final = Path(__file__).parents[2]  # the project
PLATFORMS: Final = {
    "linux/amd64": "x86_64-manylinux_2_28",
    "linux/arm64": "aarch64-manylinux_2_28",
    "darwin/amd64": "x86_64-apple-darwin",
    "darwin/arm64": "aarch64-apple-darwin",
}
"""Platform: its name in krew -> its name in wheels."""
PYTHONS: Final = ("3.11", "3.12", "3.13")  # versions of Python that an archive brings libraries for
_MACHINES: Final = {"x86_64": "amd64", "aarch64": "arm64", "arm64": "arm64"}
_NOT_NEEDED: Final = ("tests", "test", "bin", "__pycache__", "include")
_EXECUTABLE: Final = 0o755
_PLAIN: Final = 0o644
_LAUNCHER: Final = """\
#!/bin/sh
# Starts kubectl-headroom with a Python that this archive has libraries for.
self=$(readlink -f "$0" 2>/dev/null) || self=$0
here=$(dirname "$self")
case "${0##*/}" in kubectl_complete-headroom) call=complete ;; *) call=main ;; esac
start="import sys; sys.path.insert(0, sys.argv.pop(1)); from kubectl_headroom.__main__ import $call; sys.exit($call())"
for candidate in python3 python3.13 python3.12 python3.11; do
  command -v "$candidate" >/dev/null 2>&1 || continue
  version=$("$candidate" -c 'import sys; print("%d.%d" % sys.version_info[:2])' 2>/dev/null) || continue
  # -P and -s: the current folder and user packages are not on the path.
  [ -d "$here/lib/$version" ] && exec "$candidate" -s -P -c "$start" "$here/lib/$version" "$@"
done
echo "kubectl headroom: this archive needs one of Python $(ls "$here/lib" | tr '\\n' ' ')on the PATH" >&2
exit 3
"""


def this_platform() -> str:
    """The platform of this machine, as krew calls it."""
    machine = platform.machine()
    return f"{platform.system().lower()}/{_MACHINES.get(machine, machine)}"


def build(out: Path, platforms: Sequence[str], pythons: Sequence[str]) -> Iterator[str]:
    """Build the archives; print progress, and each one's sha256."""
    out.mkdir(parents=True, exist_ok=True)
    number = version()
    with tempfile.TemporaryDirectory(prefix="headroom-krew-") as scratch:
        yield f"Building the wheel of headroom {number} ..."
        wheel = _wheel(Path(scratch))
        for name in platforms:
            yield f"Gathering libraries for {name}, Python {', '.join(pythons)} ..."
            folder = Path(scratch) / name.replace("/", "-")
            for python in pythons:
                install(folder / "lib" / python, name, python, wheel)
            file = archive(out, number, name)
            sha256 = pack(folder, file)
            yield f"{file}: {file.stat().st_size / 2**20:.0f} MiB, sha256 {sha256}"


def version() -> str:
    """Return the version in pyproject.toml."""
    lines = (ROOT / "pyproject.toml").read_text(encoding="utf-8").splitlines()
    return next(line.split('"')[1] for line in lines if line.startswith("version = "))


def archive(out: Path, number: str, name: str) -> Path:
    """Return the file of the archive for a platform."""
    return out / f"kubectl-headroom_{number}_{name.replace('/', '_')}.tar.gz"


def manifest(template: str, out: Path, number: str, platforms: Sequence[str]) -> str:
    """Return the manifest for an index, with the version and the checksums of these platforms' archives.

    `{url}` stays: a release is published at the publisher's address.
    """
    head, *entries = template.replace("{version}", number).split("    - selector:")
    chosen = []
    for name in platforms:
        file = archive(out, number, name)
        entry = next(entry for entry in entries if file.name in entry)
        chosen.append(entry.replace("{sha256}", hashlib.sha256(file.read_bytes()).hexdigest()))
    return "    - selector:".join([head, *chosen])


def _wheel(folder: Path) -> Path:
    """Our own packages, for every platform: without the compiled module; from a copy, since a build leaves files."""
    copy = folder / "source"
    ignored = shutil.ignore_patterns(
        ".*", "*.egg-info", "*.pyx", "*.so", "build", "dist", "__pycache__", "tests", "tools", "node_modules"
    )
    shutil.copytree(ROOT, copy, ignore=ignored)
    _run(sys.executable, "-m", "pip", "wheel", "--quiet", "--no-deps", "--wheel-dir", str(folder), str(copy))
    return next(folder.glob("kube_headroom-*.whl"))


def install(target: Path, name: str, python: str, wheel: Path) -> None:
    """Install the locked libraries and our own packages, without what only their authors need."""
    where = ["--target", str(target), "--python-version", python, "--python-platform", PLATFORMS[name]]
    lock = ["--require-hashes", "--only-binary", ":all:", "-r", str(ROOT / "requirements/cli.txt")]
    uv = [str(Path(sys.executable).with_name("uv")), "pip", "install", "--quiet", "--no-python-downloads"]
    _run(*uv, *where, *lock)
    _run(*uv, *where, "--no-deps", str(wheel))
    for path in sorted(target.rglob("*"), reverse=True):
        if path.is_dir() and path.name in _NOT_NEEDED and "site-packages" not in path.name:
            shutil.rmtree(path, ignore_errors=True)
    for path in target.rglob("*.dist-info"):
        for name_of_file in ("RECORD", "INSTALLER", "REQUESTED", "direct_url.json", "uv_cache.json"):
            (path / name_of_file).unlink(missing_ok=True)


def pack(folder: Path, file: Path) -> str:
    """Pack a folder with `lib/` into an archive: the same bytes for the same content. Returns its sha256."""
    (folder / "kubectl-headroom").write_text(_LAUNCHER, encoding="utf-8")
    shutil.copyfile(ROOT / "LICENSE", folder / "LICENSE")
    written = int(os.environ.get("SOURCE_DATE_EPOCH", "0"))
    # gzip's header has a time and a file name by default.
    with (
        file.open("wb") as raw,
        gzip.GzipFile("", "wb", mtime=0, fileobj=raw) as packed,
        tarfile.open(fileobj=packed, mode="w", format=tarfile.PAX_FORMAT) as archive,
    ):
        for path in sorted(path for path in folder.rglob("*") if path.is_file()):
            entry = tarfile.TarInfo(str(path.relative_to(folder)))
            entry.size, entry.mtime = path.stat().st_size, written
            entry.mode = _EXECUTABLE if path.name == "kubectl-headroom" else _PLAIN
            archive.addfile(entry, io.BytesIO(path.read_bytes()))
    return hashlib.sha256(file.read_bytes()).hexdigest()


def _run(*command: str) -> None:
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    if done.returncode:
        raise RuntimeError(f"{' '.join(command[:4])} … failed: {(done.stderr or done.stdout).strip()[-2000:]}")


if __name__ == "__main__":
    parser = argparse.ArgumentParser(prog="python -m tools.release.krew", description="Build the archives for krew.")
    parser.add_argument("--out", type=Path, default=Path("dist/krew"), help="where to (default: dist/krew)")
    repeated = "can be repeated (default: this machine's)"
    parser.add_argument("--platform", action="append", choices=sorted(PLATFORMS), help=repeated)
    parser.add_argument("--python", action="append", choices=PYTHONS, help="can be repeated (default: all of them)")
    options = parser.parse_args()
    for line in build(options.out, options.platform or [this_platform()], options.python or PYTHONS):
        print(line, flush=True)
