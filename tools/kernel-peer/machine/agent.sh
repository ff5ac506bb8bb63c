#!/bin/bash
# The machine's whole life: a network, a soft-RoCE device on it, then jobs. A job is a file N.job, which appears whole;
# its output goes to N.out and its exit status, when it has ended, to N.rc. Jobs run side by side. N counts from 1.
export PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin LC_ALL=C HOME=/tmp
cd /tmp/jobs || exit
. ./machine.conf
ip link set lo up
device=$(ls /sys/class/net | grep -v '^lo$' | head -1)
ip link set "$device" up mtu "$MTU"
for address in $ADDRESSES; do
  case $address in *:*) ip addr add "$address" dev "$device" nodad ;; *) ip addr add "$address" dev "$device" ;; esac
done
rdma link add rxe0 type rxe netdev "$device"
ulimit -l unlimited
uname -r >ready.new && mv ready.new ready
# Pauses without a process for each: those are dear here.
exec 9<> <(:)
pause() { read -r -t "$1" -u 9; }
number=1
while [ ! -e stop ]; do
  if [ -e "$number.job" ]; then
    ( bash "./$number.job" >"$number.out" 2>&1 </dev/null; echo $? >"$number.new"; mv "$number.new" "$number.rc" ) &
    number=$((number + 1))
  else
    pause 0.1
  fi
done
sync
echo o >/proc/sysrq-trigger
sleep 9
