process PUNOISE_MATCHES {
    tag "${meta.id}"
    label 'process_low'

    conda "${moduleDir}/environment.yml"
    container "punoise:0.1.0"

    input:
    tuple val(meta), path(searches, stageAs: 'searches/*'), path(model)

    output:
    tuple val(meta), path("${prefix}/psms.tsv"), emit: psms
    tuple val(meta), path("${prefix}/peptides.tsv"), emit: peptides
    tuple val(meta), path("${prefix}/decoys.psms.tsv"), emit: decoy_psms
    tuple val(meta), path("${prefix}/decoys.peptides.tsv"), emit: decoy_peptides
    tuple val(meta), path("${prefix}/matches.json"), emit: summary
    tuple val(meta), path("${prefix}/model.punoise"), emit: model, optional: true
    tuple val("${task.process}"), val('punoise'), eval('punoise --version'), emit: versions_punoise, topic: versions

    when:
    task.ext.when == null || task.ext.when

    script:
    def args = task.ext.args ?: ''
    def known = model ? "--model ${model}" : ''
    prefix = task.ext.prefix ?: "${meta.id}"
    """
    punoise matches \\
        ${searches} \\
        --out-dir '${prefix}' \\
        ${known} \\
        --threads ${task.cpus} \\
        ${args}
    """

    stub:
    prefix = task.ext.prefix ?: "${meta.id}"
    """
    mkdir -p '${prefix}'
    echo '{}' > '${prefix}/matches.json'
    (cd '${prefix}' && touch psms.tsv peptides.tsv decoys.psms.tsv decoys.peptides.tsv model.punoise)
    """
}
