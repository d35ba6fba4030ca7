"""Every parser against anything: 10,000 inputs each in `make soak`, a few and always the same ones otherwise.

The claim is the same everywhere: a parser returns valid numbers, or raises the error that it is documented to raise,
in one line that names the thing.
"""
