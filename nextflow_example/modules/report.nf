process PUNOISE_REPORT {
    tag "${meta.id}"
    label 'process_single'

    input:
    tuple val(meta), path(scores), path(prior)

    output:
    tuple val(meta), path("${prefix}/report.html"), emit: report
    tuple val("${task.process}"), val('punoise'), eval('punoise --version'), emit: versions_punoise, topic: versions

    script:
    def args = task.ext.args ?: ''
    prefix = task.ext.prefix ?: "${meta.id}"
    """
    mkdir -p '${prefix}'
    punoise report \\
        --scores ${scores} \\
        --prior ${prior} \\
        --out '${prefix}/report.html' \\
        --threads ${task.cpus} \\
        ${args}
    """

    stub:
    prefix = task.ext.prefix ?: "${meta.id}"
    """
    mkdir -p '${prefix}'
    touch '${prefix}/report.html'
    """
}
