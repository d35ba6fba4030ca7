"""Configuration: text in, validated strategy out. Pure: no I/O, no clock, no logging."""
