"""The content of a container image beside our code: the Dockerfiles run this file inside the build, with Python alone.

`system` takes the interpreter, its standard library and the shared libraries out of the base, so that an image has
no shell, package manager or pip; `libraries` removes parts of the locked libraries that no service
runs; `settle` compiles, and sets all times. The same inputs give the same bytes: no time stamp, no path of the build
and no order of a hash decides.
"""

import argparse
import compileall
import os
import py_compile
import re
import shutil
import subprocess
import sys
import sysconfig
from collections.abc import Iterator, Sequence
from importlib import metadata
from pathlib import Path
from typing import Final

USER: Final = 65532  # the user of the images; no user of a machine
EPOCH: Final = 315532800
"""Time of all files without SOURCE_DATE_EPOCH: 1980, which every archive can store [seconds since 1970]."""
RUNTIME_LIBRARIES: Final = "libstdc++.so.6 libgcc_s.so.1 libm.so.6 libdl.so.2 libpthread.so.0 librt.so.1 libutil.so.1"
"""The libraries that wheels expect of a system (PEP 600), and those that glibc loads when a thread ends."""
NOT_RUN: Final = "__pycache__ dist-packages ensurepip idlelib lib2to3 pydoc_data site-packages test tkinter turtledemo"
"""Folders of the standard library that a service never needs."""
SYSTEM_FILES: Final = ("/etc/ld.so.cache", "/etc/os-release", "/etc/ssl/openssl.cnf")
TESTS: Final = ("tests", "conftest.py", "test_*.py", "*_test.py")  # test code of libraries
FOR_COMPILERS: Final = "*.a *.c *.cpp *.f *.f90 *.h *.hpp *.inc *.lib *.pxd *.pyi *.pyx *.src"
"""Files that only a compiler or an editor reads."""
UNUSED_SCIPY: Final = (
    "cluster constants datasets differentiate fft fftpack integrate interpolate io linalg "
    "misc ndimage odr optimize signal sparse spatial stats"
)
"""Parts of scipy that nothing of ours imports: we use `scipy.special` alone."""
INSTALLERS: Final = ("pip", "setuptools", "wheel")
"""Never kept, also when required: sqlite-utils requires them to install plugins."""
LOADABLE: Final = re.compile(r"=> (/\S+)|^\s*(/\S+) \(", re.MULTILINE)  # a shared library in what `ldd` prints


def main(argv: Sequence[str] | None = None) -> None:
    """Do one step of a build."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    steps = parser.add_subparsers(dest="step", required=True)
    system = steps.add_parser("system", help="copy what Python needs to run into an empty folder")
    libraries = steps.add_parser("libraries", help="remove what no service runs from a virtual environment")
    libraries.add_argument("--needs", nargs="+", required=True, help="the libraries that our code imports")
    settle = steps.add_parser("settle", help="compile a folder's Python files and set the times of all files")
    for step in (system, libraries, settle):
        step.add_argument("folder", type=Path)
        step.add_argument("place", type=Path, help="where the folder will lie in the image")
    system.add_argument("--certificates", type=Path, required=True, help="the authorities that the base trusts")
    options = parser.parse_args(argv)
    if options.step == "system":
        copy_system(options.folder)
        take_certificates(options.certificates, options.folder)
    elif options.step == "libraries":
        remove_unused(options.folder, options.needs)
    settle_all(options.folder, options.place)


def copy_system(target: Path) -> None:
    """Copy the interpreter, its standard library, the shared libraries that these load; name the users."""
    interpreter = Path(sys.executable)
    result = [interpreter, *_shared_libraries([interpreter.resolve()])]
    for folder in sorted({sysconfig.get_path("stdlib"), sysconfig.get_path("platstdlib")}):
        files = [path for path in _files(Path(folder)) if _is_run(path.relative_to(folder))]
        result += [*files, *_shared_libraries([path for path in files if path.suffix == ".so"])]
    result += [path for name in RUNTIME_LIBRARIES.split() if (path := _system_library(name))]
    result += [path for name in SYSTEM_FILES if (path := Path(name)).exists()]
    for path in result:
        take(path, target)
    _name_packages(result, target)
    etc = target / "etc"
    (etc / "passwd").write_text(f"root:x:0:0:root:/:/none\nheadroom:x:{USER}:{USER}:Headroom:/:/none\n")
    (etc / "group").write_text(f"root:x:0:\nheadroom:x:{USER}:\n")
    (etc / "nsswitch.conf").write_text("hosts: files dns\n")
    (target / "tmp").mkdir()
    (target / "tmp").chmod(0o1777)


def take_certificates(file: Path, target: Path) -> None:
    """Put the authorities where Debian has them."""
    certificates = target / "etc/ssl/certs"
    certificates.mkdir(parents=True, exist_ok=True)
    shutil.copy(file, certificates / "ca-certificates.crt")


def _name_packages(found: Sequence[Path], target: Path) -> None:
    """Say in /var/lib/dpkg/status.d, as scanners of images expect it, of which Debian packages files were taken."""
    owner = {
        file: listing.stem.partition(":")[0]
        for listing in Path("/var/lib/dpkg/info").glob("*.list")
        for file in listing.read_text().splitlines()
    }
    names = {name for path in found for name in (str(path), str(path.resolve()))}
    # What Debian's lists call /lib is /usr/lib where the two are one folder.
    owners = {owner.get(name) or owner.get(name.removeprefix("/usr")) for name in names}
    folder = target / "var/lib/dpkg/status.d"
    folder.mkdir(parents=True)
    status = Path("/var/lib/dpkg/status")
    for stanza in status.read_text().split("\n\n") if status.exists() else ():
        name = stanza.partition("\n")[0].removeprefix("Package: ")
        if name in owners:
            (folder / name).write_text(stanza.strip() + "\n")


def take(path: Path, target: Path) -> None:
    """Copy a file to the same place below `target`, with every symbolic link on the way to it."""
    so_far = Path("/")
    parts = [part for part in path.parts[1:] if part != "."]
    for number, part in enumerate(parts):
        if part == "..":
            so_far = so_far.parent
            continue
        so_far /= part
        if so_far.is_symlink():
            copy = target / so_far.relative_to("/")
            copy.parent.mkdir(parents=True, exist_ok=True)
            if not copy.is_symlink():
                copy.symlink_to(so_far.readlink())
            take(Path(os.path.normpath(so_far.parent / so_far.readlink())).joinpath(*parts[number + 1 :]), target)
            return
    copy = target / so_far.relative_to("/")
    copy.parent.mkdir(parents=True, exist_ok=True)
    shutil.copy2(so_far, copy)


def remove_unused(environment: Path, needs: Sequence[str]) -> None:
    """Remove the libraries that none of `needs` requires, and the unused parts of the others."""
    (site,) = environment.glob("lib/python3*/site-packages")
    installed = {
        _normal(distribution.metadata["Name"]): distribution
        for distribution in metadata.distributions(path=[str(site)])
    }
    for name in installed.keys() - _required(installed, needs):
        for file in installed[name].files or []:
            (site / str(file)).unlink(missing_ok=True)
    unused = [site / "scipy" / part for part in UNUSED_SCIPY.split()]
    for pattern in (*TESTS, *FOR_COMPILERS.split()):
        unused += site.rglob(pattern)
    unused += [script for script in environment.glob("bin/*") if not script.name.startswith("python")]
    for path in unused:
        if path.is_dir():
            shutil.rmtree(path)
        else:
            path.unlink(missing_ok=True)
    for path in sorted(environment.rglob("*"), reverse=True):  # every folder that holds no file
        if path.is_dir() and not path.is_symlink() and not any(path.iterdir()):
            path.rmdir()


def _required(installed: dict[str, metadata.Distribution], needs: Sequence[str]) -> set[str]:
    """The names in `needs`, and all that these require here."""
    from pip._vendor.packaging.requirements import Requirement  # noqa: PLC0415 - only a build has pip

    paths: set[str] = set()
    todo = [_normal(name) for name in needs]
    while todo:
        name = todo.pop()
        if name in paths or name in INSTALLERS:
            continue
        if name not in installed:
            raise SystemExit(f"{name} is needed, and the lock does not install it")
        paths.add(name)
        requirements = [Requirement(text) for text in installed[name].requires or []]
        todo += [
            _normal(requirement.name)
            for requirement in requirements
            if requirement.marker is None or requirement.marker.evaluate({"extra": ""})
        ]
    return paths


def settle_all(folder: Path, place: Path) -> None:
    """Compile all Python files so that no time stamp decides whether that holds, and give all files the same time."""
    for cache in [*folder.rglob("__pycache__")]:
        shutil.rmtree(cache)
    compileall.compile_dir(
        folder,
        quiet=1,
        force=True,
        stripdir=str(folder),
        prependdir=str(place),
        invalidation_mode=py_compile.PycInvalidationMode.UNCHECKED_HASH,
        workers=1,
    )
    moment = int(os.environ.get("SOURCE_DATE_EPOCH", str(EPOCH)))
    for path in [*folder.rglob("*"), folder]:
        os.utime(path, (moment, moment), follow_symlinks=False)


def _normal(name: str) -> str:
    return re.sub(r"[-_.]+", "-", name).lower()


def _files(folder: Path) -> Iterator[Path]:
    return (path for path in sorted(folder.rglob("*")) if path.is_file())


def _is_run(path: Path) -> bool:
    """Return whether a file of the standard library belongs into an image; its path is relative."""
    return not any(part in NOT_RUN.split() or part.startswith("config-") for part in path.parts) and path.suffix != ".a"


def _shared_libraries(programs: Sequence[Path]) -> list[Path]:
    """Every shared library that these programs and libraries load, with the loader itself."""
    if not programs:
        return []
    said = subprocess.run(["ldd", *programs], check=False, capture_output=True, text=True).stdout
    return sorted({Path(first or second) for first, second in LOADABLE.findall(said)})


def _system_library(name: str) -> Path | None:
    """Where the system has a library; None where it has none of this name."""
    for folder in ("/lib", "/usr/lib", "/usr/local/lib"):
        for place in (Path(folder), *sorted(Path(folder).glob("*-linux-*"))):
            if (place / name).exists():
                return place / name
    return None


if __name__ == "__main__":
    main()
