"""A distribution that somebody else wrote, as a wheel that pip installs beside ours."""

import hashlib
import os
import subprocess
import sys
import zipfile
from base64 import urlsafe_b64encode
from pathlib import Path

ROOT = Path(__file__).parents[1]


def install(folder: Path, name: str, module: str, entry_points: str) -> Path:
    """Install a module of that name, with entry points, into a folder below this one; without any network."""
    info = f"{name}-1.0.dist-info"
    files = {
        f"{name}.py": module,
        f"{info}/METADATA": f"Metadata-Version: 2.1\nName: {name.replace('_', '-')}\nVersion: 1.0\n",
        f"{info}/WHEEL": "Wheel-Version: 1.0\nGenerator: test\nRoot-Is-Purelib: true\nTag: py3-none-any\n",
        f"{info}/entry_points.txt": entry_points,
    }
    wheel = folder / f"{name}-1.0-py3-none-any.whl"
    record = [f"{path},sha256={_digest(text)},{len(text.encode())}" for path, text in files.items()]
    with zipfile.ZipFile(wheel, "w") as archive:
        for path, text in {**files, f"{info}/RECORD": "\n".join([*record, ""])}.items():
            archive.writestr(path, text)
    options = ["--quiet", "--no-index", "--no-deps", "--no-compile", "--disable-pip-version-check"]
    command = [sys.executable, "-m", "pip", "install", *options, "--target", str(folder / "site"), str(wheel)]
    subprocess.run(command, check=True, timeout=120)
    return folder / "site"


def python(site: Path, *arguments: str, stdin: str | None = None) -> subprocess.CompletedProcess[str]:
    """Run Python with what is installed there and with ours."""
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join([str(site), str(ROOT)])}
    return subprocess.run(
        [sys.executable, *arguments],
        cwd=ROOT,
        env=environment,
        input=stdin,
        capture_output=True,
        text=True,
        check=False,
        timeout=120,
    )


def _digest(text: str) -> str:
    return urlsafe_b64encode(hashlib.sha256(text.encode()).digest()).rstrip(b"=").decode()
