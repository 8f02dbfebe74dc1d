process PUNOISE_RUN {
    tag "$meta.id"
    label 'process_low'

    conda "${moduleDir}/environment.yml"
    container "punoise:0.1.0" // docker build -t punoise:0.1.0 .

    input:
    tuple val(meta), path(labeled, stageAs: 'labeled/*'), path(unlabeled, stageAs: 'unlabeled/*')

    output:
    tuple val(meta), path("${prefix}/prior.json")       , emit: prior
    tuple val(meta), path("${prefix}/scores.parquet")   , emit: scores   , optional: true
    tuple val(meta), path("${prefix}/posterior.parquet"), emit: posterior, optional: true
    tuple val(meta), path("${prefix}/model.punoise")    , emit: model    , optional: true
    tuple val(meta), path("${prefix}/report.html")      , emit: report   , optional: true
    path "versions.yml"                                 , emit: versions

    when:
    task.ext.when == null || task.ext.when

    script:
    def args = task.ext.args ?: ''
    def beta = meta.beta ? "--beta ${meta.beta}" : ''
    prefix = task.ext.prefix ?: "${meta.id}"
    """
    punoise run \\
        --labeled $labeled \\
        --unlabeled $unlabeled \\
        --out-dir $prefix \\
        --sample '${meta.id}' \\
        --on-failure write \\
        --threads $task.cpus \\
        $beta \\
        $args

    cat <<-END_VERSIONS > versions.yml
    "${task.process}":
        punoise: \$(punoise --version)
    END_VERSIONS
    """

    stub:
    prefix = task.ext.prefix ?: "${meta.id}"
    """
    mkdir -p $prefix
    cd $prefix && touch prior.json scores.parquet posterior.parquet model.punoise report.html && cd -

    cat <<-END_VERSIONS > versions.yml
    "${task.process}":
        punoise: \$(punoise --version)
    END_VERSIONS
    """
}
