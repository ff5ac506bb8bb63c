#!/usr/bin/env bash
# Runs rdma-core's own tests, as Debian's rdma-core package brings them, on the drop-in, unprivileged: in a network
# namespace with an interface of its own, and with a sysfs that shows the device.
#   run.sh DIRECTORY-OF-THE-DROP-IN [ARGUMENTS OF unittest]
set -euo pipefail
drop_in=$(realpath "$1")
here=$(dirname "$(realpath "$0")")
shift
packaged=/usr/share/doc/rdma-core/tests
device=emu0 interface=rdma0

if [ -z "${SOFTRNIC_INSIDE:-}" ]; then
  [ -d "$packaged" ] || { echo "rdma-core is not installed" >&2; exit 77; }
  exec env SOFTRNIC_INSIDE=1 unshare --user --map-root-user --net --mount "$0" "$drop_in" "$@"
fi

ip link set lo up
ip link add "$interface" type veth peer name "$interface-peer"
ip address add 192.0.2.1/24 dev "$interface"
ip link set "$interface-peer" mtu 9000 up
ip link set "$interface" mtu 9000 up

work=$(mktemp -d)
trap 'cd /; umount "$work"; rmdir "$work"' EXIT
mount -t tmpfs tmpfs "$work"
mkdir "$work/tests"
for file in "$packaged"/*; do
  case $file in
    *.gz) gunzip -c "$file" > "$work/tests/$(basename "$file" .gz)" ;;
    *) cp "$file" "$work/tests/" ;;
  esac
done

fake=$work/class/infiniband/$device
mkdir -p "$fake/ports/1/pkeys" "$fake/ports/1/gid_attrs/types" "$fake/device/net/$interface"
echo 0xffff > "$fake/ports/1/pkeys/0"
echo "RoCE v2" > "$fake/ports/1/gid_attrs/types/0"
mount -t overlay overlay -o "lowerdir=$work/class:/sys/class" /sys/class

cd "$work"
export LD_LIBRARY_PATH=$drop_in SOFTRNIC_INTERFACE=$interface SOFTRNIC_DEVICE_NAME=$device
gid=$(ibv_devinfo -v | grep -c 'GID\[')
/usr/bin/python3 "$here/runner.py" --dev "$device" --gid "$((gid - 1))" "$@"
