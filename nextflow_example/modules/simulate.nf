process PUNOISE_SIMULATE {
    tag "${meta.id}"
    label 'process_single'

    input:
    val meta

    output:
    tuple val(meta), path("${prefix}/labeled.csv"), path("${prefix}/unlabeled.csv"), emit: tables
    tuple val("${task.process}"), val('punoise'), eval('punoise --version'), emit: versions_punoise, topic: versions

    script:
    def args = task.ext.args ?: ''
    prefix = task.ext.prefix ?: "${meta.id}"
    """
    punoise simulate \\
        --out-dir '${prefix}' \\
        --threads ${task.cpus} \\
        ${args}
    """

    stub:
    prefix = task.ext.prefix ?: "${meta.id}"
    """
    mkdir -p '${prefix}'
    seq 2 | tee '${prefix}/labeled.csv' > '${prefix}/unlabeled.csv'
    """
}
