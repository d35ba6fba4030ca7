"""Configuration: text in, judged strategy out. Pure: no I/O, no clock, no logging."""
