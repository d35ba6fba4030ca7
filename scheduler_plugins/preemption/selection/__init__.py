"""The victims for an unschedulable pod: a pure decision."""
