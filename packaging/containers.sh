#!/bin/sh
# Builds the image of packaging/Dockerfile and runs apptainer.def's %post and %test, without a daemon or a registry of images.
# The base stands in for python:3.12-slim: Debian sid by debootstrap, with its newer Python. Part of `make release-check`, as root.
# Usage: containers.sh DIR
set -eu
cd "$(dirname "$0")/.."
mkdir -p "$1"
scratch=$(cd "$1" && pwd)
export STORAGE_DRIVER=vfs BUILDAH_ISOLATION=chroot
for tool in buildah debootstrap; do
  command -v $tool > /dev/null || { echo "no $tool (Debian: buildah crun debootstrap)" >&2; exit 1; }
done
b() { buildah --root "$scratch/images" --runroot "$scratch/run" "$@"; }
demo='cd /tmp && punoise simulate --out-dir sim --n-labeled 200 --n-unlabeled 600 --quiet &&
  punoise run --labeled sim/labeled.csv --unlabeled sim/unlabeled.csv --out-dir results --quiet && test -s results/report.html'

if [ ! -e "$scratch/base/.complete" ]; then
  rm -rf "$scratch/base"
  debootstrap --variant=minbase --include=python3,python3-pip,python3-venv,ca-certificates sid "$scratch/base" \
    ${DEBIAN_MIRROR:-} > "$scratch/debootstrap.log"
  rm -f "$scratch"/base/usr/lib/python3*/EXTERNALLY-MANAGED # as in the image it stands in for
  cp /etc/ssl/certs/ca-certificates.crt "$scratch/base/etc/ssl/certs/"
  echo 'Acquire::Check-Valid-Until "false";' > "$scratch/base/etc/apt/apt.conf.d/99mirror" # mirrors lag
  touch "$scratch/base/.complete"
fi
c=$(b from scratch)
b add -q "$c" "$scratch/base" / > /dev/null
b config --env PIP_CERT=/etc/ssl/certs/ca-certificates.crt "$c"
b commit -q --rm "$c" docker.io/library/python:3.12-slim > /dev/null

b bud -q --pull-never --format docker -t punoise:check -f packaging/Dockerfile . > /dev/null
c=$(b from --pull-never localhost/punoise:check)
[ "$(b run "$c" -- id -un)" = punoise ] || { echo "the image runs as root" >&2; exit 1; }
b run "$c" -- ps --version
b run "$c" -- sh -c "python3 --version && punoise --version && $demo"
b rm "$c" > /dev/null
echo "Dockerfile: built and run"

c=$(b from --pull-never docker.io/library/python:3.12-slim)
section() { sed -n "/^%$1/,/^%/p" packaging/apptainer.def | grep '^    '; }
section files | while read -r from to; do b copy -q "$c" "$from" "$to" > /dev/null; done
b run "$c" -- sh -ec "$(section post)" > /dev/null
b run "$c" -- sh -ec "$(section test)"
b run "$c" -- sh -c "$demo"
b rm "$c" > /dev/null
echo "apptainer.def: %files, %post and %test run"
