#!/usr/bin/env bash
# prepare.sh FOLDER: makes FOLDER/vmlinuz and FOLDER/initramfs.gz from Debian's kernel package, which is downloaded and
# unpacked, not installed. The root file system of the machine is the host's, over 9p; the initramfs only mounts it.
set -euo pipefail
here=$(cd "$(dirname "$0")" && pwd)
folder=$(mkdir -p "${1:?usage: prepare.sh FOLDER}" && cd "$1" && pwd)

# Program and Debian package.
needs=(qemu-system-x86_64:qemu-system-x86 busybox:busybox-static cpio:cpio depmod:kmod dpkg:dpkg apt-get:apt ip:iproute2)
missing=()
for need in "${needs[@]}"; do
  PATH=$PATH:/usr/sbin:/sbin command -v "${need%%:*}" >/dev/null || missing+=("${need##*:}")
done
if [ ${#missing[@]} -gt 0 ]; then
  echo "kernel-peer: not installed: ${missing[*]} (apt-get install --no-install-recommends ${missing[*]})" >&2
  exit 3
fi
PATH=$PATH:/usr/sbin:/sbin
[ -f "$folder/initramfs.gz" ] && [ "$folder/initramfs.gz" -nt "$here/prepare.sh" ] &&
  [ "$folder/initramfs.gz" -nt "$here/machine/init" ] && exit 0

cd "$folder"
if ! compgen -G "kernel/boot/vmlinuz-*" >/dev/null; then
  package=$(apt-cache depends linux-image-amd64 2>/dev/null | awk '/Depends: linux-image/ {print $2; exit}')
  if [ -z "$package" ]; then
    echo "kernel-peer: apt knows no linux-image-amd64: run apt-get update (Debian on x86-64 is needed)" >&2
    exit 3
  fi
  rm -rf kernel ./*.deb
  apt-get download -qq "$package" || { echo "kernel-peer: $package cannot be downloaded" >&2; exit 3; }
  dpkg -x ./"$package"_*.deb unpacked
  rm -f ./*.deb
  mv unpacked kernel
fi
version=$(ls kernel/lib/modules)
depmod -b kernel "$version"
rm -rf tree
mkdir -p tree/{bin,modules,proc,sys,dev,root}
cp "$(command -v busybox)" tree/bin/busybox
cp "$here/machine/init" tree/init
chmod 755 tree/init
# In the order in which they are loaded.
for module in virtio_pci 9p 9pnet_virtio virtio_net rdma_rxe rdma_ucm crc32_generic crc32_pclmul; do
  modprobe -d kernel -S "$version" --show-depends "$module" | awk '$1 == "insmod" {print $2}'
done | awk '!seen[$0]++' | while read -r file; do
  cp "$file" tree/modules/
  basename "$file" >>tree/modules/order
done
cp "kernel/boot/vmlinuz-$version" vmlinuz
(cd tree && find . | cpio -o -H newc --quiet | gzip -1) >initramfs.gz.new
rm -rf tree
mv initramfs.gz.new initramfs.gz
echo "$version" >version
