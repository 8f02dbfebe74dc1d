process PUNOISE_SKETCH {
    tag "${meta.id}"
    label 'process_single'

    input:
    tuple val(meta), path(scores)

    output:
    tuple val(meta), path("${prefix}.sketch"), emit: sketch
    tuple val("${task.process}"), val('punoise'), eval('punoise --version'), emit: versions_punoise, topic: versions

    script:
    def args = task.ext.args ?: ''
    prefix = task.ext.prefix ?: "${meta.id}"
    """
    punoise sketch \\
        --scores ${scores} \\
        --out '${prefix}.sketch' \\
        --threads ${task.cpus} \\
        ${args}
    """

    stub:
    prefix = task.ext.prefix ?: "${meta.id}"
    """
    touch '${prefix}.sketch'
    """
}
