process PUNOISE_TRAIN {
    tag "${meta.id}"
    label 'process_medium'

    input:
    tuple val(meta), path(labeled, stageAs: 'labeled/*'), path(unlabeled, stageAs: 'unlabeled/*')

    output:
    tuple val(meta), path("${prefix}/model.punoise"), emit: model
    tuple val("${task.process}"), val('punoise'), eval('punoise --version'), emit: versions_punoise, topic: versions

    script:
    def args = task.ext.args ?: ''
    prefix = task.ext.prefix ?: "${meta.id}"
    """
    mkdir -p '${prefix}'
    punoise train \\
        --labeled 'labeled/*' \\
        --unlabeled 'unlabeled/*' \\
        --out '${prefix}/model.punoise' \\
        --threads ${task.cpus} \\
        ${args}
    """

    stub:
    prefix = task.ext.prefix ?: "${meta.id}"
    """
    mkdir -p '${prefix}'
    touch '${prefix}/model.punoise'
    """
}
