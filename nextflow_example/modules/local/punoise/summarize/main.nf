process PUNOISE_SUMMARIZE {
    label 'process_single'

    conda "${moduleDir}/environment.yml"
    container "punoise:0.1.0"

    input:
    path priors, stageAs: '?/*'

    output:
    path "summary.tsv", emit: table
    path "punoise_mqc.json", emit: multiqc
    tuple val("${task.process}"), val('punoise'), eval('punoise --version'), emit: versions_punoise, topic: versions

    when:
    task.ext.when == null || task.ext.when

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
