process PUNOISE_SUMMARIZE {
    label 'process_single'

    input:
    path priors, stageAs: '?/*'

    output:
    path "summary.tsv", emit: table
    path "punoise_mqc.json", emit: multiqc
    tuple val("${task.process}"), val('punoise'), eval('punoise --version'), emit: versions_punoise, topic: versions

    script:
    def args = task.ext.args ?: ''
    """
    punoise summarize \\
        ${priors} \\
        --out summary.tsv \\
        --multiqc punoise_mqc.json \\
        --threads ${task.cpus} \\
        ${args}
    """

    stub:
    """
    touch summary.tsv punoise_mqc.json
    """
}
