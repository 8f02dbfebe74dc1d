"""The paper's table 3: the same data sets with the transform and without it.

python benchmarks/table3.py --data DIRECTORY --repeats 5
"""

from __future__ import annotations

import table1

COLUMNS = {
    "alphamax-n": "alphamax_n",
    "alphamax-nm": "alphamax_nm_pca3",
    "msgmm": "msgmm_t",
    "msgmm-pca": "msgmm_pca3",
}

if __name__ == "__main__":
    table1.main("table3", COLUMNS)
