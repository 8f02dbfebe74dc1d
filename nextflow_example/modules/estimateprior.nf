process PUNOISE_ESTIMATEPRIOR {
    tag "${meta.id}"
    label 'process_single'

    input:
    tuple val(meta), path(scores), path(sketches, stageAs: '?/*')

    output:
    tuple val(meta), path("${prefix}/prior.json"), emit: prior
    tuple val("${task.process}"), val('punoise'), eval('punoise --version'), emit: versions_punoise, topic: versions

    script:
    def args = task.ext.args ?: ''
    def source = scores ? "--scores ${scores}" : "--sketch ${sketches}"
    prefix = task.ext.prefix ?: "${meta.id}"
    """
    mkdir -p '${prefix}'
    punoise estimate-prior \\
        ${source} \\
        --out '${prefix}/prior.json' \\
        --threads ${task.cpus} \\
        ${args}
    """

    stub:
    prefix = task.ext.prefix ?: "${meta.id}"
    """
    mkdir -p '${prefix}'
    echo '{"alpha": 0.5}' > '${prefix}/prior.json'
    """
}
