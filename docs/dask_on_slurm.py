"""Run punoise on twenty SLURM jobs: python dask_on_slurm.py run --labeled ... --out-dir results

Takes the options of any command that has --dask. Needs `pip install 'punoise[dask]'`, and the same
files and Python environment on all nodes. For PBS or LSF use PBSCluster or LSFCluster.
"""

import subprocess
import sys

from dask_jobqueue import SLURMCluster

if __name__ == "__main__":
    with SLURMCluster(cores=1, processes=1, memory="2GB", walltime="04:00:00") as cluster:
        cluster.scale(jobs=20)
        command = ["punoise", *sys.argv[1:], "--dask", cluster.scheduler_address]
        sys.exit(subprocess.run(command).returncode)
