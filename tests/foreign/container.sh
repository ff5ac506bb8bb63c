#!/usr/bin/env bash
# Imitates a container for an installation (INSTALLED) and runs SCRIPT in it, for what container engines restrict by
# default and more: read-only root, tmpfs on /tmp, no capability, no_new_privs, a seccomp filter (LAUNCHER), namespaces
# for mounts, processes and network with nothing but loopback, and nobody's user number where root may choose one.
# Not imitated: AppArmor and SELinux profiles, masked files in /proc, limits on memory and processes, a bridge.
# To be started under unshare(1), in a mount, process and network namespace; ROOT is an empty folder.
set -eE
trap 'echo "no container can be made here: line $LINENO" >&2; exit 1' ERR

mount --make-rprivate /
mount --rbind / "$ROOT"
mount -o remount,bind,ro "$ROOT"
mount -t proc proc "$ROOT/proc"
mount -t sysfs -o ro sysfs "$ROOT/sys"
mount -t tmpfs -o mode=1777 tmpfs "$ROOT/tmp"

# What the image would have installed.
mount -t tmpfs -o mode=755 tmpfs "$ROOT/opt"
cp -dR --preserve=mode "$INSTALLED" "$ROOT/opt/softrnic"
cp "$LAUNCHER" "$ROOT/opt/contained"
mount -o remount,bind,ro "$ROOT/opt"

mount -t tmpfs -o mode=755 tmpfs "$ROOT/dev"
for node in null zero full random urandom tty; do
  touch "$ROOT/dev/$node"
  mount --bind "/dev/$node" "$ROOT/dev/$node"
done
mkdir -p "$ROOT/dev/shm"
mount -t tmpfs -o mode=1777 tmpfs "$ROOT/dev/shm"
ln -s /proc/self/fd "$ROOT/dev/fd"
ip link set lo up

user=()
if [ "$NOBODY" = yes ]; then user=(--reuid 65534 --regid 65534 --clear-groups); fi
exec env -i PATH=/usr/sbin:/usr/bin:/sbin:/bin chroot "$ROOT" setpriv "${user[@]}" --inh-caps=-all --ambient-caps=-all \
  --bounding-set=-all --no-new-privs /opt/contained sh -ec "$SCRIPT"
