# One huge unlabeled table in many files: train once, then score them in parallel.
# results/shards/prior.json and the parts in posterior/ are exactly what the table in one piece gives.


configfile: "shards.yaml"


SHARDS = config["shards"] or sorted(glob_wildcards(config["unlabeled"]).shard)
TABLES = {
    "labeled": {"all": config["labeled"]},
    "unlabeled": {shard: config["unlabeled"].format(shard=shard) for shard in SHARDS},
}
PARTS = [f"{set}/{part}" for set in TABLES for part in TABLES[set]]
SKETCHES = expand("results/shards/sketches/{part}.sketch", part=PARTS)


wildcard_constraints:
    set="labeled|unlabeled",


rule all:
    input:
        expand("results/shards/posterior/{part}.parquet", part=PARTS),


rule train:
    input:
        labeled=config["labeled"],
        shards=TABLES["unlabeled"].values(),
    output:
        "results/shards/model.punoise",
    params:
        unlabeled=config["unlabeled"].replace("{shard}", "*"),
        extra=config["train"],
    log:
        "logs/shards/train.log",
    benchmark:
        "benchmarks/shards/train.tsv"
    conda:
        "environment.yaml"
    threads: 2
    resources:
        mem_mb=4000,
        runtime=240,
    shell:
        "punoise train --labeled {input.labeled:q} --unlabeled {params.unlabeled:q}"
        " --out {output:q} --threads {threads} {params.extra} 2> {log:q}"


rule score:
    input:
        model=rules.train.output,
        table=lambda wildcards: TABLES[wildcards.set][wildcards.part],
    output:
        scores="results/shards/scores/{set}/{part}.parquet",
        sketch="results/shards/sketches/{set}/{part}.sketch",
    log:
        "logs/shards/score/{set}/{part}.log",
    benchmark:
        "benchmarks/shards/score/{set}/{part}.tsv"
    conda:
        "environment.yaml"
    threads: 1
    resources:
        mem_mb=2000,
        runtime=120,
    shell:
        "punoise score --model {input.model:q} --table {input.table:q} --set {wildcards.set}"
        " --out {output.scores:q} --sketch {output.sketch:q} --threads {threads} 2> {log:q}"


rule estimate_prior:
    input:
        SKETCHES,
    output:
        "results/shards/prior.json",
    params:
        extra=config["estimate_prior"],
    log:
        "logs/shards/estimate_prior.log",
    conda:
        "environment.yaml"
    threads: 1
    resources:
        mem_mb=4000,
        runtime=60,
    shell:
        "punoise estimate-prior --sketch {input:q} --out {output:q} --threads {threads}"
        " {params.extra} 2> {log:q}"


rule posterior:
    input:
        scores=rules.score.output.scores,
        sketches=SKETCHES,
        prior=rules.estimate_prior.output,
    output:
        "results/shards/posterior/{set}/{part}.parquet",
    params:
        sketches=lambda wildcards, input: [w for file in input.sketches for w in ("--sketch", file)],
        extra=config["posterior"],
    log:
        "logs/shards/posterior/{set}/{part}.log",
    benchmark:
        "benchmarks/shards/posterior/{set}/{part}.tsv"
    conda:
        "environment.yaml"
    threads: 1
    resources:
        mem_mb=2000,
        runtime=60,
    shell:
        "punoise posterior --scores {input.scores:q} {params.sketches:q}"
        " --prior {input.prior:q} --out {output:q} --threads {threads} {params.extra} 2> {log:q}"


# The example's own inputs: not needed where shards.yaml names tables that exist.
rule simulate:
    output:
        labeled="inputs/shards/labeled.csv",
        shards=expand("inputs/shards/unlabeled/{shard}.csv", shard=list("abcd")),
    params:
        dir=subpath(output.labeled, parent=True),
    log:
        "logs/shards/simulate.log",
    conda:
        "environment.yaml"
    threads: 1
    resources:
        mem_mb=1000,
        runtime=10,
    shell:
        """
        punoise simulate --out-dir {params.dir:q} --n-labeled 500 --n-unlabeled 4000 2> {log:q}
        first=2
        for shard in {output.shards:q}
        do
            sed -n "1p; $first,$((first + 999))p" {params.dir:q}/unlabeled.csv > "$shard"
            first=$((first + 1000))
        done
        """
