#!/bin/busybox sh
# The first program in the guest: this machine's files, read-only, with /proc, /sys and pure cgroup v2 of the guest's own.
# Runs /run/out/run and leaves its exit code in /run/out/exit-code; then the guest ends.
b=/bin/busybox
for module in /modules/*.ko; do $b insmod "$module" || echo "cannot load $module"; done
$b mount -t 9p -o trans=virtio,version=9p2000.L,msize=512000,cache=loose,ro root /host || echo "cannot mount the files"
$b mount -t proc proc /host/proc
$b mount -t sysfs sysfs /host/sys
$b mount -t devtmpfs dev /host/dev
$b mount -t cgroup2 cgroup2 /host/sys/fs/cgroup
$b mount -t tmpfs tmpfs /host/run
$b mkdir /host/run/out /host/run/tmp
$b mount -t 9p -o trans=virtio,version=9p2000.L,msize=512000,cache=none out /host/run/out || echo "cannot mount the results"
$b ip link set lo up
$b chroot /host /run/out/run
echo $? > /host/run/out/exit-code
$b reboot -f
