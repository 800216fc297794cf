#!/usr/bin/env bash
# Becomes process 1 of a systemd of its own: with its own processes, mounts and services, over a view
# of a system's files that takes all changes along when it ends. nested_systemd.py starts it, in new
# namespaces.
#
#   nested_systemd.sh DIRECTORY FILES     DIRECTORY: an empty one, for the mounts; FILES: the system's root

set -euo pipefail

directory=$1
files=$2
root=$directory/root

mount -t tmpfs tmpfs "$directory"
mkdir "$directory"/{changes,work,root}
mount -t overlay overlay \
  -o "lowerdir=$files,upperdir=$directory/changes,workdir=$directory/work" "$root"

mount -t proc proc "$root/proc"
mount --bind "$root/proc/sys" "$root/proc/sys"
mount -o remount,bind,ro "$root/proc/sys"
mount -t sysfs -o ro sysfs "$root/sys"
mount -t cgroup2 cgroup2 "$root/sys/fs/cgroup"
for place in run tmp; do mount -t tmpfs -o mode=755 tmpfs "$root/$place"; done
mount -t tmpfs -o mode=755 tmpfs "$root/dev"
for device in null zero full random urandom tty; do
  touch "$root/dev/$device"
  mount --bind "/dev/$device" "$root/dev/$device"
done
mkdir "$root"/dev/{pts,shm}
mount -t devpts -o newinstance,ptmxmode=666 devpts "$root/dev/pts"
ln -s pts/ptmx "$root/dev/ptmx"
ln -s /proc/self/fd "$root/dev/fd"
mount -t tmpfs tmpfs "$root/dev/shm"
chmod 1777 "$root/tmp" "$root/dev/shm"

# What a machine starts with is neither needed nor permitted here: its devices, disks and clocks.
: >"$root/etc/fstab"
for unit in systemd-{modules-load,sysctl,udevd,udev-trigger,random-seed,remount-fs,update-utmp,binfmt}.service \
  systemd-{hwdb-update,tmpfiles-setup-dev,tmpfiles-setup,firstboot,machine-id-commit,pstore}.service \
  systemd-{timesyncd,networkd,resolved,logind}.service {networking,ifupdown-pre}.service \
  systemd-udevd-{control,kernel}.socket systemd-tmpfiles-clean.timer tmp.mount \
  dev-{hugepages,mqueue}.mount sys-{kernel-debug,kernel-tracing,kernel-config,fs-fuse-connections}.mount \
  proc-sys-fs-binfmt_misc.automount; do
  ln -sf /dev/null "$root/etc/systemd/system/$unit"
done

cd "$root"
mkdir old
pivot_root . old
umount --lazy /old
mount --make-rshared / # as at boot: what is mounted for a service is seen by it
exec env -i container=idproxy-test PATH=/usr/sbin:/usr/bin:/sbin:/bin \
  setpriv --bounding-set=-sys_time,-sys_boot,-sys_module,-sys_rawio \
  /lib/systemd/systemd --system --unit=basic.target --log-target=journal --show-status=no
