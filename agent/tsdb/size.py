"""How large the store is, and what it had to do without."""

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class StoreSize:
    """How large the store is."""

    file_bytes: int
    """The file and its write-ahead log on disk."""
    used_bytes: int
    """What of the file holds data."""
    series: int
    """Series known."""
    head_ticks: int
    """Ticks not yet compressed."""
    unwritten_ticks: int = 0
    """Ticks that are only in memory, because the disk could not be written."""
    set_aside: int = 0
    """Files that could not be used and were set aside since the start."""
    damaged_chunks: int = 0
    """Chunks that could not be read since the start: each is a gap of one series."""
    dropped_blocks: int = 0
    """Blocks that went before their time since the start, because there was no room."""
