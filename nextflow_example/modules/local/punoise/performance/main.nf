process PUNOISE_PERFORMANCE {
    tag "${meta.id}"
    label 'process_single'

    conda "${moduleDir}/environment.yml"
    container "punoise:0.1.0"

    input:
    tuple val(meta), path(scores), path(prior)

    output:
    tuple val(meta), path("${prefix}.json"), emit: performance
    tuple val("${task.process}"), val('punoise'), eval('punoise --version'), emit: versions_punoise, topic: versions

    when:
    task.ext.when == null || task.ext.when

    script:
    def args = task.ext.args ?: ''
    prefix = task.ext.prefix ?: "${meta.id}"
    """
    punoise performance \\
        --scores ${scores} \\
        --prior ${prior} \\
        --out '${prefix}.json' \\
        --threads ${task.cpus} \\
        ${args}
    """

    stub:
    prefix = task.ext.prefix ?: "${meta.id}"
    """
    echo '{}' > '${prefix}.json'
    """
}
