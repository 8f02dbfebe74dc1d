"""From a VCF to posteriors and back, with bcftools, as docs/variants.md has it."""

import gzip
import shutil
import subprocess

import numpy as np
import pytest

pytestmark = pytest.mark.skipif(
    not all(map(shutil.which, ("bcftools", "bgzip", "tabix"))),
    reason="needs bcftools and tabix: apt-get install bcftools tabix",
)
HEADER = """##fileformat=VCFv4.2
##contig=<ID=1>
##contig=<ID=2>
##INFO=<ID=CADD,Number=A,Type=Float,Description="A score of each allele">
##INFO=<ID=PHYLOP,Number=1,Type=Float,Description="Another score">
##INFO=<ID=CLNSIG,Number=.,Type=String,Description="What is known">
#CHROM\tPOS\tID\tREF\tALT\tQUAL\tFILTER\tINFO
"""


def record(rng, i) -> str:
    positive = rng.random() < (0.9 if i % 4 == 0 else 0.3)
    scores = [f"{v:.3f}" for v in rng.normal(2 * positive, 1, 2)]
    alleles = "A,C" if i % 7 == 0 else "A"
    info = f"CADD={','.join(scores[: len(alleles.split(','))])};PHYLOP={rng.normal(positive):.3f}"
    known = ";CLNSIG=Pathogenic" if i % 4 == 0 else ""
    return f"{1 + i // 300}\t{100 + 10 * i}\t.\tG\t{alleles}\t.\tPASS\t{info}{known}\n"


def shell(folder, *commands: str) -> None:
    for command in commands:
        subprocess.run(["bash", "-euo", "pipefail", "-c", command], cwd=folder, check=True)


def records(path) -> list[list[str]]:
    with gzip.open(path, "rt") as file:
        return [line.rstrip("\n").split("\t") for line in file if not line.startswith("#")]


def test_there_and_back(punoise, tmp_path):
    rng = np.random.default_rng(5)
    text = HEADER + "".join(record(rng, i) for i in range(600))
    (tmp_path / "variants.vcf").write_text(text)
    refused = punoise(
        *("estimate-prior", "--table", tmp_path / "variants.vcf", "--label-column", "CLNSIG"),
        expect=3,
    )
    assert "bcftools norm -m-" in refused.err
    assert "%INFO/CADD\\t%INFO/PHYLOP" in refused.err
    fields = r"%CHROM\t%POS\t%REF\t%ALT\t%INFO/CADD\t%INFO/PHYLOP\t%INFO/CLNSIG\n"
    shell(
        tmp_path,
        "bcftools norm -m- variants.vcf -Oz -o split.vcf.gz 2> norm.log",
        "bcftools index split.vcf.gz",
        f"bcftools query -H -f '{fields}' split.vcf.gz > variants.tsv",
    )
    punoise(
        *("run", "--table", tmp_path / "variants.tsv", "--label-column", "CLNSIG"),
        *("--labeled-value", "*", "--id-column", "CHROM,POS,REF,ALT", "--classifier", "logistic"),
        *("--format", "tsv", "--out-dir", tmp_path / "results"),
    )
    header = '##INFO=<ID=PU,Number=1,Type=Float,Description="Posterior">'
    shell(
        tmp_path,
        "head -1 results/posterior.tsv | tr '\\t' '\\n' | grep -nx posterior | cut -d: -f1 > place",
        "tail -n +2 results/posterior.tsv | cut -f 1-4,$(cat place) | sort -k1,1 -k2,2n"
        " | bgzip > pu.tsv.gz",
        "tabix -s 1 -b 2 -e 2 pu.tsv.gz",
        f"echo '{header}' > pu.hdr",
        "bcftools annotate -a pu.tsv.gz -h pu.hdr -c CHROM,POS,REF,ALT,PU split.vcf.gz"
        " -Oz -o annotated.vcf.gz",
    )
    before, after = (records(tmp_path / f"{name}.vcf.gz") for name in ("split", "annotated"))
    assert len(before) == len(after) > 600
    for old, new in zip(before, after, strict=True):
        kept, added = new[7].rsplit(";PU=", 1)
        assert [*new[:7], kept] == old
        assert 0 <= float(added) <= 1
