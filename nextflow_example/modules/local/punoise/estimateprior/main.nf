process PUNOISE_ESTIMATEPRIOR {
    tag "${meta.id}"
    label 'process_single'

    conda "${moduleDir}/environment.yml"
    container "punoise:0.1.0"

    input:
    tuple val(meta), path(scores), path(sketch), path(verdicts)

    output:
    tuple val(meta), path("${prefix}/prior.json"), emit: prior
    tuple val("${task.process}"), val('punoise'), eval('punoise --version'), emit: versions_punoise, topic: versions

    when:
    task.ext.when == null || task.ext.when

    script:
    def args = task.ext.args ?: ''
    def source = scores ? "--scores ${scores}" : "--sketch ${sketch}"
    def known = verdicts ? "--verdicts ${verdicts}" : ''
    prefix = task.ext.prefix ?: "${meta.id}"
    """
    mkdir -p '${prefix}'
    punoise estimate-prior \\
        ${source} \\
        ${known} \\
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
