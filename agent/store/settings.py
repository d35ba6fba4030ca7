"""How much the store keeps, and for how long."""

from dataclasses import dataclass

_MIB = 1 << 20


@dataclass(frozen=True, slots=True)
class StoreSettings:
    """Retention and bounds of the local database."""

    raw_seconds: int = 4 * 3600
    """How long every sample is kept. [s] Windows need 30 minutes of them; the rest is for people who look back."""
    minute_days: int = 8
    """How long 1-minute points are kept at least. [days] A prediction policy may ask for more: windowDays + 1."""
    daily_days: int = 31
    """How long daily maxima are kept [days]."""
    max_bytes: int = 256 * _MIB
    """The file's hard bound, write-ahead log included. [bytes] The oldest samples go first when it is reached."""
    block_ticks: int = 600
    """Samples per series in one compressed block: ten minutes at one a second."""
    wal_checkpoint_seconds: float = 5.0
    """How often the write-ahead log is moved into the file, off the tick. [s] What a power loss can cost at most."""

    def __post_init__(self) -> None:
        for name in ("raw_seconds", "minute_days", "daily_days", "block_ticks", "wal_checkpoint_seconds"):
            if getattr(self, name) <= 0:
                raise ValueError(f"store setting {name} must be positive, got: {getattr(self, name)}")
        if self.max_bytes < 4 * _MIB:
            raise ValueError(f"store setting max_bytes must be at least 4 MiB, got: {self.max_bytes}")
