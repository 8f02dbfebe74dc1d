# PEPs and q-values of many searches: one .pin file per sample in, results/ out.
# snakemake -s proteomics.smk --cores 4 --config pins=searches


configfile: "proteomics.yaml"


SEARCHES = glob_wildcards(os.path.join(config["pins"], "{sample}.pin")).sample


def of_searches(pattern):
    """One file for each search, of which there must be some."""

    def files(wildcards):
        if not SEARCHES:
            raise WorkflowError(f"pins: no .pin file in {config['pins']}")
        return expand(pattern, sample=SEARCHES)

    return files


rule all:
    input:
        of_searches("results/{sample}/psms.tsv"),
        "results/psms.summary.tsv",


rule proteomics:
    input:
        os.path.join(config["pins"], "{sample}.pin"),
    output:
        psms="results/{sample}/psms.tsv",
        peptides="results/{sample}/peptides.tsv",
        posterior="results/{sample}/posterior.parquet",
        prior="results/{sample}/prior.json",
        report="results/{sample}/report.html",
    params:
        folder=lambda wildcards, output: os.path.dirname(output.psms),
        extra=config["run"],
    log:
        "logs/{sample}/proteomics.log",
    conda:
        "environment.yaml"
    threads: 2
    resources:
        mem_mb=2000,
        runtime=60,
    shell:
        "punoise run --table {input:q} --out-dir {params.folder:q} --sample {wildcards.sample:q}"
        " --threads {threads} {params.extra} 2> {log:q}"


rule summarize:
    input:
        of_searches("results/{sample}/prior.json"),
    output:
        "results/psms.summary.tsv",
    log:
        "logs/summarize.log",
    conda:
        "environment.yaml"
    shell:
        "punoise summarize {input:q} --out {output:q} 2> {log:q}"
