"""The size and the retention of the store."""

from dataclasses import dataclass

from headroom.runtime.option_types import duration, mebibytes, whole
from headroom.runtime.options import setting

_MIB = 1 << 20
_DAY = 86400


@dataclass(frozen=True, slots=True)
class StoreSettings:
    """Keeping."""

    raw_seconds: int = setting(4 * 3600, flag="store-raw", kind=duration(1, 7 * _DAY, whole=True))
    """Retention of single samples. [s] Windows need 30 minutes; the rest is for people."""
    minute_days: int = setting(8, flag="store-minute-days", kind=whole(1, 366))
    """The least retention of 1-minute points. [days] A prediction policy may need more: windowDays + 1."""
    max_bytes: int = setting(256 * _MIB, flag="store-max-mib", kind=mebibytes(32, 1 << 20))
    """Hard bound of the database and its log. [bytes; the flag: MiB] The oldest samples go first when it is reached."""
    block_ticks: int = setting(600, flag="store-block-ticks", kind=whole(10, 3600))
    """Samples per series in one compressed block: ten minutes at one a second."""
    memory_ticks: int = setting(2400, flag="store-memory-ticks", kind=whole(30, 100_000))
    """Ticks held in memory while the disk cannot be written: 40 minutes at one a second, about 12 MB at 110 pods."""
    wal_checkpoint_seconds: float = setting(5.0, flag="store-flush", kind=duration(0.05, 3600))
    """Interval at which the write-ahead log is moved into the file, off the tick. [s] The most a power loss costs."""

    retry_seconds: float = setting(10.0, flag="store-retry", kind=duration(0.05, 3600))
    """Time before a database that failed to open is opened again; memory replaces it meanwhile. [s]"""

    def __post_init__(self) -> None:
        if self.memory_ticks < 3 * self.block_ticks:
            raise ValueError(
                f"store setting memory_ticks must be at least three blocks ({3 * self.block_ticks} ticks), "
                f"got: {self.memory_ticks}"
            )

    @property
    def file_bytes(self) -> int:
        """The limit of the database file; the rest of `max_bytes` is the log's. [bytes]"""
        return self.max_bytes * 3 // 4

    @property
    def full_bytes(self) -> int:
        """Content from which on the oldest samples go. [bytes]"""
        return self.max_bytes * 5 // 8

    @property
    def log_bytes(self) -> int:
        """Log from which on it is emptied in the tick itself; one transaction may pass it. [bytes]"""
        return self.max_bytes // 8
