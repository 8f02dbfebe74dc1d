# PSMs and peptides of many searches: one .pin file per sample in, results/ out.
# snakemake -s proteomics.smk --cores 4 --config pins=searches
# Runs of one study belong into one command instead: punoise matches 'searches/*.pin' --out-dir results


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


rule proteomics:
    input:
        os.path.join(config["pins"], "{sample}.pin"),
    output:
        psms="results/{sample}/psms.tsv",
        peptides="results/{sample}/peptides.tsv",
        summary="results/{sample}/matches.json",
        report="results/{sample}/report.html",
    params:
        folder=lambda wildcards, output: os.path.dirname(output.psms),
        extra=config["matches"],
    log:
        "logs/{sample}/proteomics.log",
    conda:
        "environment.yaml"
    threads: 2
    resources:
        mem_mb=2000,
        runtime=60,
    shell:
        "punoise matches {input:q} --out-dir {params.folder:q}"
        " --threads {threads} {params.extra} 2> {log:q}"
