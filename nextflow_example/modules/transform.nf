process PUNOISE_TRANSFORM {
    tag "${meta.id}"
    label 'process_low'

    input:
    tuple val(meta), path(labeled, stageAs: 'labeled/*'), path(unlabeled, stageAs: 'unlabeled/*'), path(negatives, stageAs: 'negatives/*')

    output:
    tuple val(meta), path("${prefix}/scores.parquet"), emit: scores, optional: true
    tuple val(meta), path("${prefix}/model.punoise"), emit: model, optional: true
    tuple val("${task.process}"), val('punoise'), eval('punoise --version'), emit: versions_punoise, topic: versions

    script:
    def args = task.ext.args ?: ''
    def rows = labeled ? "--labeled ${labeled} --unlabeled ${unlabeled}" : "--table ${unlabeled}"
    def known = negatives ? "--negatives ${negatives}" : ''
    prefix = task.ext.prefix ?: "${meta.id}"
    // Exit code 3 is unusable input: no files, no error
    """
    mkdir -p '${prefix}'
    punoise transform \\
        ${rows} \\
        ${known} \\
        --out '${prefix}/scores.parquet' \\
        --model-out '${prefix}/model.punoise' \\
        --threads ${task.cpus} \\
        ${args} || { code=\$?; [ \$code -eq 3 ] || exit \$code; }
    """

    stub:
    prefix = task.ext.prefix ?: "${meta.id}"
    """
    mkdir -p '${prefix}'
    touch '${prefix}/scores.parquet' '${prefix}/model.punoise'
    """
}
