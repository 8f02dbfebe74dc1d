process PUNOISE_POSTERIOR {
    tag "${meta.id}"
    label 'process_single'

    input:
    tuple val(meta), path(scores), path(prior), path(sketches, stageAs: '?/*')

    output:
    tuple val(meta), path("${prefix}/posterior.parquet"), emit: posterior
    tuple val("${task.process}"), val('punoise'), eval('punoise --version'), emit: versions_punoise, topic: versions

    script:
    def args = task.ext.args ?: ''
    def whole = [sketches].flatten().collect { file -> "--sketch ${file}" }.join(' ')
    prefix = task.ext.prefix ?: "${meta.id}"
    """
    mkdir -p '${prefix}'
    punoise posterior \\
        --scores ${scores} \\
        --prior ${prior} \\
        ${whole} \\
        --out '${prefix}/posterior.parquet' \\
        --threads ${task.cpus} \\
        ${args}
    """

    stub:
    prefix = task.ext.prefix ?: "${meta.id}"
    """
    mkdir -p '${prefix}'
    touch '${prefix}/posterior.parquet'
    """
}
