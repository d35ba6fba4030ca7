"""`python -m tests.docs.pictures KUBECONFIG NODE`: draw the pictures of the pages from a running demo (`make demo`)."""

import asyncio
import base64
import io
import os
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Final

from rich.console import Console
from rich.text import Text

from tests.manager.web import browser
from tools.devcluster import packages

ROOT: Final = Path(__file__).parents[2]
IMAGES: Final = ROOT / "docs/images"
TRACE: Final = "tools/bench/data/bitbrains-rnd-2013-08"
POLICIES: Final = ("nsigma-v2", "percentile", "recent-max", "sum-max")
PLUGIN: Final = Path(sys.executable).with_name("kubectl-headroom")
COLUMNS: Final = 150
LINES: Final = 34  # of the explanation: both tables of terms
PORT: Final = 18081


def main() -> None:
    """Draw all pictures."""
    kubeconfig, node = sys.argv[1:]
    environment = {**os.environ, "KUBECONFIG": kubeconfig, "COLUMNS": str(COLUMNS)}
    _terminal(["explain", "node", node], environment)
    words = ["--trace", TRACE, "--seed", "0", "--horizon", "24h", "--policies", "target:0.5,1,1.5,2,3,5"]
    words += [word for policy in POLICIES for word in ("--policy", policy)]
    plot = ["--plot", str(IMAGES / "backtest.svg")]
    subprocess.run([PLUGIN, "backtest", *words, *plot], cwd=ROOT, check=True, capture_output=True)
    with (
        tempfile.TemporaryDirectory() as home,
        _forwarded(environment),
        browser.running(packages.browser(), Path(home, "browser")) as port,
    ):
        asyncio.run(_page(port))


def _terminal(words: list[str], environment: dict[str, str]) -> None:
    """Draw a command's output as its terminal shows it."""
    command = ["script", "--quiet", "--command", f"stty cols {COLUMNS}; {PLUGIN} {' '.join(words)}", "/dev/null"]
    shown = subprocess.run(command, env=environment, check=True, capture_output=True, text=True).stdout
    console = Console(record=True, width=COLUMNS, file=io.StringIO(), force_terminal=True, color_system="truecolor")
    for line in shown.replace("\r", "").splitlines()[:LINES]:
        console.print(Text.from_ansi(line), soft_wrap=False, overflow="ellipsis", no_wrap=True)
    title = f"kubectl headroom {' '.join(words)}"
    (IMAGES / "explain-node.svg").write_text(console.export_svg(title=title))


@contextmanager
def _forwarded(environment: dict[str, str]) -> Iterator[None]:
    """Forward a port to the manager's page."""
    command = ["kubectl", "-n", "headroom-system", "port-forward", "deployment/headroom-manager", f"{PORT}:8081"]
    with subprocess.Popen(command, env=environment, stdout=subprocess.PIPE) as process:
        assert process.stdout is not None
        process.stdout.readline()  # it listens
        try:
            yield
        finally:
            process.terminate()


async def _page(port: int) -> None:
    """Draw the page of the manager, with the first node open."""
    async with browser.tab_of(port) as tab:
        await tab.narrow(1280)
        await tab.open(f"http://localhost:{PORT}/ui")
        await tab.until("document.querySelectorAll('svg').length > 0")
        await asyncio.sleep(2.0)
        picture = await tab.call("Page.captureScreenshot", format="png")
        (IMAGES / "page.png").write_bytes(base64.b64decode(picture["data"]))


if __name__ == "__main__":
    main()
