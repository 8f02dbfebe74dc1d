process PUNOISE_RUN {
    tag "${meta.id}"
    label 'process_low'

    conda "${moduleDir}/environment.yml"
    container "punoise:0.1.0"

    input:
    tuple val(meta), path(labeled, stageAs: 'labeled/*'), path(unlabeled, stageAs: 'unlabeled/*'), path(negatives, stageAs: 'negatives/*'), path(table, stageAs: 'table/*')
    val label_column

    output:
    tuple val(meta), path("${prefix}/prior.json"), emit: prior
    tuple val(meta), path("${prefix}/scores.parquet"), emit: scores, optional: true
    tuple val(meta), path("${prefix}/posterior.parquet"), emit: posterior, optional: true
    tuple val(meta), path("${prefix}/model.punoise"), emit: model, optional: true
    tuple val(meta), path("${prefix}/report.html"), emit: report, optional: true
    tuple val(meta), path("${prefix}/{psms,peptides}.tsv"), emit: matches, optional: true
    tuple val("${task.process}"), val('punoise'), eval('punoise --version'), emit: versions_punoise, topic: versions

    when:
    task.ext.when == null || task.ext.when

    script:
    def args = task.ext.args ?: ''
    def rows = table ? "--table ${table}" : "--labeled ${labeled} --unlabeled ${unlabeled}"
    def column = label_column ? "--label-column '${label_column}'" : '' // a .pin file has none
    def known = negatives ? "--negatives ${negatives}" : ''
    prefix = task.ext.prefix ?: "${meta.id}"
    """
    punoise run \\
        ${rows} \\
        ${column} \\
        ${known} \\
        --out-dir '${prefix}' \\
        --sample '${meta.id}' \\
        --threads ${task.cpus} \\
        ${args}
    """

    stub:
    prefix = task.ext.prefix ?: "${meta.id}"
    """
    mkdir -p '${prefix}'
    echo '{"alpha": 0.5}' > '${prefix}/prior.json'
    (cd '${prefix}' && touch scores.parquet posterior.parquet model.punoise report.html)
    """
}
