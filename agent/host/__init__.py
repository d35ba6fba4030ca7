"""The machine: files of /proc and /sys/fs/cgroup as numbers. No clocks of its own, no Kubernetes."""
