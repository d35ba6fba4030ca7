"""A headless browser, driven by its own protocol (DevTools) over a WebSocket."""

import asyncio
import itertools
import os
import shutil
import signal
import subprocess
import time
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager, contextmanager, suppress
from pathlib import Path
from typing import Any

import aiohttp

_START_SECONDS = 120.0
_ANSWER_SECONDS = 120.0
_END_SECONDS = 120.0


class Tab:
    def __init__(self, socket: aiohttp.ClientWebSocketResponse) -> None:
        self._socket = socket
        self._numbers = itertools.count(1)
        self._answers: dict[int, asyncio.Future[dict[str, Any]]] = {}
        self._loaded = asyncio.Event()
        self.problems: list[str] = []
        """Errors and warnings of the console, exceptions of scripts, and violations of the security policy."""

    async def listen(self) -> None:
        async for message in self._socket:
            self._take(message.json())

    def _take(self, said: dict[str, Any]) -> None:
        if "id" in said:
            self._answers.pop(said["id"]).set_result(said)
            return
        method, inputs = said["method"], said.get("params") or {}
        if method == "Page.loadEventFired":
            self._loaded.set()
        elif method == "Runtime.exceptionThrown":
            self.problems.append(str(inputs["exceptionDetails"]))
        elif method == "Runtime.consoleAPICalled" and inputs["type"] in ("error", "warning", "assert"):
            self.problems.append(str(inputs["args"]))
        elif method == "Log.entryAdded" and inputs["entry"]["level"] in ("error", "warning"):
            self.problems.append(str(inputs["entry"]))

    async def call(self, method: str, **given: Any) -> dict[str, Any]:  # noqa: ANN401 - any JSON
        number = next(self._numbers)
        answer = self._answers[number] = asyncio.get_running_loop().create_future()
        await self._socket.send_json({"id": number, "method": method, "params": given})
        async with asyncio.timeout(_ANSWER_SECONDS):
            said = await answer
        assert "error" not in said, f"{method}: {said}"
        result: dict[str, Any] = said.get("result", {})
        return result

    async def open(self, url: str) -> None:
        self._loaded.clear()
        await self.call("Page.navigate", url=url)
        async with asyncio.timeout(_ANSWER_SECONDS):
            await self._loaded.wait()

    async def evaluate(self, expression: str) -> Any:  # noqa: ANN401 - any JSON
        said = await self.call("Runtime.evaluate", expression=expression, returnByValue=True, awaitPromise=True)
        assert "exceptionDetails" not in said, said
        return said["result"].get("value")

    async def until(self, expression: str, seconds: float = 120.0) -> None:
        """Wait until an expression is true; the time is only how long a slow machine may take."""
        end = time.monotonic() + seconds
        while not await self.evaluate(expression):
            assert time.monotonic() < end, f"not within {seconds:.0f} s: {expression}"
            await asyncio.sleep(0.1)

    async def narrow(self, width: int) -> None:
        look = {"width": width, "height": 900, "deviceScaleFactor": 1, "mobile": False}
        await self.call("Emulation.setDeviceMetricsOverride", **look)

    async def scheme(self, scheme: str) -> None:
        """Prefer a light or dark page."""
        await self.call("Emulation.setEmulatedMedia", features=[{"name": "prefers-color-scheme", "value": scheme}])

    async def press(self, key: str, number: int = 0) -> None:
        """Press a key; with its number, the browser also acts on it, such as scrolls."""
        for kind in ("rawKeyDown" if number else "keyDown", "keyUp"):
            await self.call("Input.dispatchKeyEvent", type=kind, key=key, code=key, windowsVirtualKeyCode=number)


@contextmanager
def running(program: Path, home: Path) -> Iterator[int]:
    """A browser, with a folder for its files; the port on which it takes commands. It ends at the end."""
    # Tests run as root, and open nothing but our own page.
    flags = ("headless", "no-sandbox", "disable-gpu", "disable-dev-shm-usage", "no-first-run")
    arguments = ("disable-background-networking", "remote-debugging-port=0", f"user-data-dir={home}")
    command = [str(program), *(f"--{entry}" for entry in (*flags, *arguments)), "about:blank"]
    # Debian's program is a shell that waits for the browser: only a signal to the whole group reaches both.
    quiet = subprocess.DEVNULL
    process = subprocess.Popen(command, stdout=quiet, stderr=quiet, start_new_session=True)
    try:
        yield _port(process, home / "DevToolsActivePort")
    finally:
        for number in (signal.SIGTERM, signal.SIGKILL):
            _end(process.pid, number)
        process.wait()
        shutil.rmtree(home, ignore_errors=True)


def _end(group: int, number: signal.Signals) -> None:
    """Send a signal to a group of processes, and wait until it is empty, but not for ever."""
    end = time.monotonic() + _END_SECONDS
    with suppress(ProcessLookupError):  # it is empty
        os.killpg(group, number)
        while time.monotonic() < end:
            with suppress(ChildProcessError):
                os.waitpid(group, os.WNOHANG)
            os.killpg(group, 0)
            time.sleep(0.05)


def _port(process: "subprocess.Popen[bytes]", file: Path) -> int:
    """The port on which it listens, which it writes into a file when it does."""
    end = time.monotonic() + _START_SECONDS
    while True:
        lines = file.read_text().splitlines() if file.exists() else []
        if lines and lines[0].isdigit():
            return int(lines[0])
        assert process.poll() is None, f"the browser ended with code {process.returncode}"
        assert time.monotonic() < end, "the browser did not begin to listen"
        time.sleep(0.05)


@asynccontextmanager
async def tab_of(port: int) -> AsyncIterator[Tab]:
    async with aiohttp.ClientSession() as session:
        async with session.put(f"http://127.0.0.1:{port}/json/new?about:blank") as answer:
            where = (await answer.json())["webSocketDebuggerUrl"]
        async with session.ws_connect(where, max_msg_size=0) as socket:
            tab = Tab(socket)
            listening = asyncio.create_task(tab.listen())
            for domain in ("Page", "Runtime", "Log"):
                await tab.call(f"{domain}.enable")
            yield tab
            listening.cancel()
