#!/bin/bash
# Makes a disk of Debian that cloud-init sets up, with the kernel and initial RAM disk beside it.
#
#   image.sh FOLDER RELEASE
#
# Needs root, mmdebstrap and mkfs.ext4. Packages come from where this system has them.
set -euo pipefail

folder=$1 release=$2
say() { echo "testbed: $*" >&2; }
for tool in mmdebstrap mkfs.ext4; do
    command -v "$tool" >/dev/null || { say "there is no $tool (apt-get install mmdebstrap e2fsprogs)"; exit 1; }
done
work=$(mktemp -d "$folder.XXXXXX")
trap 'rm -rf --one-file-system "$work"' EXIT
trap 'exit 130' INT TERM HUP

# The archive that apt is set up with; Debian's own if it has none of this kind.
archive=$(apt-get indextargets --format '$(REPO_URI) $(ORIGIN) $(LABEL)' 'Created-By: Packages' 2>/dev/null |
    sed -n 's/ Debian Debian$//p' | head -n 1 || true)
# Only what tells apt how to fetch.
apt-config dump | grep -E '^Acquire::((http|https|ftp)::|Retries|Check-|ForceIPv)' >"$work/settings" || true

# What the disk is to hold beside a bare system: what starts it, what sets it up, and what Narrows
# calls and links to.
packages=systemd-sysv,udev,dbus,kmod,cloud-init,iproute2,libelf1,linux-image-cloud-$(dpkg --print-architecture)
say "a disk of $release; its packages take some minutes"
mmdebstrap --quiet --variant=minbase --aptopt="$work/settings" --include="$packages" \
    --dpkgopt=path-exclude='/usr/share/doc/*' --dpkgopt=path-exclude='/usr/share/man/*' \
    --customize-hook='chroot "$1" systemctl enable systemd-networkd.service' \
    --customize-hook='printf "%s\\n" "datasource_list: [NoCloud]" \
        "cloud_init_modules: [write-files, set_hostname]" "cloud_config_modules: [runcmd]" \
        "cloud_final_modules: [scripts-user]" >"$1/etc/cloud/cloud.cfg.d/90_narrows.cfg"' \
    --customize-hook='rm -f "$1/etc/machine-id" "$1"/var/lib/apt/lists/*_*' \
    "$release" "$work/tree" ${archive:+"$archive"}
mkfs.ext4 -q -F -L root -m 0 -d "$work/tree" "$work/disk.img" 2G
kernels=("$work"/tree/boot/vmlinuz-*)
cp "${kernels[0]}" "$work/vmlinuz"
cp "$work/tree/boot/initrd.img-${kernels[0]##*/vmlinuz-}" "$work/initrd.img"
rm -rf --one-file-system "$work/tree" "$work/settings"
chmod 755 "$work"
chmod 644 "$work"/*
mv -T "$work" "$folder"
trap - EXIT
say "$folder holds $(du -sh "$folder" | cut -f1)"
