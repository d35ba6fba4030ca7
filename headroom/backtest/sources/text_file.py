"""Opens files of traces as text, compressed or not; one sentence where a file cannot be read."""

import gzip
import lzma
import zlib
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Final, TextIO

from headroom.backtest.trace import TraceError

ENDINGS: Final = ("", ".gz", ".xz")
"""What a file's name may end in beside its own ending: it is unpacked as it is read."""


def find(folder: Path, name: str) -> Path | None:
    """The file of this name in a folder, compressed or not; None when there is none."""
    return next((path for ending in ENDINGS if (path := folder / f"{name}{ending}").is_file()), None)


@contextmanager
def open_text(path: Path) -> Iterator[TextIO]:
    """The file as text, unpacked as it is read.

    Raises:
        TraceError: it cannot be read, here or while it is used.
    """
    try:
        with _opened(path) as stream:
            yield stream
    except UnicodeDecodeError as error:
        raise TraceError(f"{path}: is no text in UTF-8 ({error.reason} at byte {error.start})") from error
    except EOFError as error:
        raise TraceError(f"{path}: is cut off; copy it again") from error
    except (gzip.BadGzipFile, lzma.LZMAError, zlib.error) as error:
        raise TraceError(f"{path}: cannot be unpacked: {error}") from error
    except OSError as error:
        raise TraceError(f"{path}: cannot be read: {error.strerror or error}") from error


def _opened(path: Path) -> TextIO:
    if path.suffix == ".gz":
        return gzip.open(path, "rt", encoding="utf-8-sig", newline="")
    if path.suffix == ".xz":
        return lzma.open(path, "rt", encoding="utf-8-sig", newline="")
    return path.open(encoding="utf-8-sig", newline="")
