process PUNOISE_SCORE {
    tag "${meta.id}"
    label 'process_single'

    input:
    tuple val(meta), path(table), path(model)

    output:
    tuple val(meta), path("${prefix}/scores.parquet"), emit: scores
    tuple val(meta), path("${prefix}.sketch"), emit: sketch
    tuple val("${task.process}"), val('punoise'), eval('punoise --version'), emit: versions_punoise, topic: versions

    script:
    def args = task.ext.args ?: ''
    prefix = task.ext.prefix ?: "${meta.id}"
    """
    mkdir -p '${prefix}'
    punoise score \\
        --model ${model} \\
        --table ${table} \\
        --out '${prefix}/scores.parquet' \\
        --sketch '${prefix}.sketch' \\
        --threads ${task.cpus} \\
        ${args}
    """

    stub:
    prefix = task.ext.prefix ?: "${meta.id}"
    """
    mkdir -p '${prefix}'
    touch '${prefix}/scores.parquet' '${prefix}.sketch'
    """
}
