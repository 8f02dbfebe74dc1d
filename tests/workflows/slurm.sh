#!/usr/bin/env bash
# Run a command on a scratch one-node SLURM, which is stopped and removed afterwards.
# Usage, as root: tests/workflows/slurm.sh COMMAND...      Debian packages: slurm-wlm munge
set -euo pipefail

die() { echo "slurm.sh: $*" >&2; exit 1; }
command -v slurmctld slurmd munged >/dev/null || die "needs the packages slurm-wlm and munge"
[ "$(id -u)" = 0 ] || die "needs root"
conf=/etc/slurm/slurm.conf # a job's own srun looks nowhere else
[ ! -e $conf ] && [ ! -L $conf ] || die "$conf exists: there is a SLURM here already"

scratch=$(mktemp -d)
pids=()
stop() {
  for pid in "${pids[@]}"; do kill "$pid" 2>/dev/null || true; done
  wait
  rm -rf $conf "$scratch"
}
trap stop EXIT
trap 'exit 143' TERM
trap 'exit 130' INT

if ! munge -n >/dev/null 2>&1; then
  install -d -o munge -g munge /run/munge
  setpriv --reuid munge --regid munge --clear-groups munged --foreground 2>"$scratch/munged.log" &
  pids+=($!)
fi

read -r port1 port2 < <(python3 -c '
import socket
free = [socket.create_server(("127.0.0.1", 0)) for _ in range(2)]
print(*(s.getsockname()[1] for s in free))')
host=$(hostname -s)
mkdir -p /etc/slurm "$scratch"/{state,spool}
cat >"$scratch/slurm.conf" <<CONF
ClusterName=scratch
SlurmctldHost=$host(127.0.0.1)
SlurmUser=root
AuthType=auth/munge
SlurmctldPort=$port1
SlurmdPort=$port2
StateSaveLocation=$scratch/state
SlurmdSpoolDir=$scratch/spool
SlurmctldPidFile=$scratch/slurmctld.pid
SlurmdPidFile=$scratch/slurmd.pid
SlurmctldLogFile=$scratch/slurmctld.log
SlurmdLogFile=$scratch/slurmd.log
ProctrackType=proctrack/linuxproc
TaskPlugin=task/none
JobAcctGatherType=jobacct_gather/none
AccountingStorageType=accounting_storage/none
SelectType=select/cons_tres
SelectTypeParameters=CR_Core_Memory
MpiDefault=none
ReturnToService=2
SchedulerParameters=sched_min_interval=100000
NodeName=$host NodeAddr=127.0.0.1 CPUs=$(nproc) RealMemory=4000 State=UNKNOWN
PartitionName=main Nodes=ALL Default=YES MaxTime=INFINITE State=UP
CONF
ln -s "$scratch/slurm.conf" $conf

slurmctld -D 2>"$scratch/slurmctld.err" &
pids+=($!)
slurmd -D -N "$host" 2>"$scratch/slurmd.err" &
pids+=($!)
for _ in {1..60}; do
  [ "$(sinfo -h -o %T 2>/dev/null)" = idle ] && break
  sleep 0.5
done
[ "$(sinfo -h -o %T)" = idle ] || { cat "$scratch"/*.log >&2; die "SLURM did not start"; }
"$@"
