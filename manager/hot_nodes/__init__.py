"""Hot nodes: a taint keeps new pods away from them, whatever the scheduler. Only `taint` does I/O."""
