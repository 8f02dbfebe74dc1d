// Class priors and posteriors of many samples: the tables of a sample sheet in, results/ out.

include { PUNOISE_ESTIMATEPRIOR } from './modules/estimateprior'
include { PUNOISE_POSTERIOR     } from './modules/posterior'
include { PUNOISE_REPORT        } from './modules/report'
include { PUNOISE_SIMULATE      } from './modules/simulate'
include { PUNOISE_SUMMARIZE     } from './modules/summarize'
include { PUNOISE_TRANSFORM     } from './modules/transform'
include { write_versions        } from './versions'

// The rows of the sheet, checked before anything runs
def read_sheet(path) {
    def rows = file(path, checkIfExists: true).splitCsv(header: true, sep: '\t')
    def seen = [] as Set
    rows.each { row ->
        if (!(row.sample ==~ /[\p{L}\p{N} ._+-]+/)) {
            error("${path}: '${row.sample}' is no sample name: letters, digits, spaces and ._+- make one")
        }
        if (!seen.add(row.sample)) {
            error("${path}: sample ${row.sample} is listed twice")
        }
    }
    return rows
}

// What a message calls a table: its path in the sheet, where that can be staged as it is
def named(path, folder) {
    return path ==~ /\w[\w .+\/-]*/ && !path.contains('..') ? path : "${folder}/${file(path).name}"
}

def label_options(row) {
    def column = row.label_column ? "--label-column '${row.label_column}'" : ''
    return row.labeled_value ? "${column} --labeled-value '${row.labeled_value}'" : column
}

def meta_of(row) {
    return [
        id: row.sample,
        beta: row.beta ?: null,
        labeled: row.labeled ? named(row.labeled, 'labeled') : null,
        unlabeled: named(row.table ?: row.unlabeled, 'unlabeled'),
        negatives: row.negatives ? named(row.negatives, 'negatives') : null,
        label_options: label_options(row),
    ]
}

// Why a sample has no scores: its tables, called what the sheet calls them, are read once more
process UNUSABLE {
    tag "${meta.id}"
    label 'process_single'

    input:
    tuple val(meta), path("${meta.labeled}"), path("${meta.unlabeled}"), path("${meta.negatives}")

    output:
    tuple val(meta), path('prior.json'), emit: prior
    tuple val("${task.process}"), val('punoise'), eval('punoise --version'), emit: versions_punoise, topic: versions

    script:
    def rows = meta.labeled ? "--labeled '${meta.labeled}' --unlabeled '${meta.unlabeled}'" : "--table '${meta.unlabeled}'"
    def known = meta.negatives ? "--negatives '${meta.negatives}'" : ''
    """
    punoise estimate-prior \\
        ${rows} \\
        ${known} \\
        --out prior.json \\
        --threads ${task.cpus} \\
        ${task.ext.args} \\
        ${task.ext.args2}
    """

    stub:
    """
    echo '{"alpha": null}' > prior.json
    """
}

workflow SAMPLES {
    take:
    tables // channel: [meta, labeled, unlabeled, negatives], [] where there are none; without labeled, unlabeled has all rows
    ids // list: the samples in the order of the summary

    main:
    PUNOISE_TRANSFORM(tables)

    scores = PUNOISE_TRANSFORM.out.scores
    PUNOISE_ESTIMATEPRIOR(scores.map { meta, file -> [meta, file, []] })
    UNUSABLE(
        tables
            .join(scores, remainder: true)
            .filter { _meta, _labeled, _unlabeled, _negatives, file -> !file }
            .map { meta, labeled, unlabeled, negatives, _none -> [meta, labeled, unlabeled, negatives] }
    )
    priors = PUNOISE_ESTIMATEPRIOR.out.prior.mix(UNUSABLE.out.prior)

    estimated = priors.filter { _meta, prior ->
        new groovy.json.JsonSlurper().parseText(prior.text).alpha != null
    }
    scored = scores.join(estimated)
    PUNOISE_POSTERIOR(scored.map { meta, file, prior -> [meta, file, prior, []] })
    PUNOISE_REPORT(scored)

    place = ids.withIndex().collectEntries()
    in_order = priors.toSortedList { a, b -> place[a[0].id] <=> place[b[0].id] }
    PUNOISE_SUMMARIZE(in_order.map { entries -> entries.collect { _meta, prior -> prior } })

    emit:
    summary = PUNOISE_SUMMARIZE.out.table
    multiqc = PUNOISE_SUMMARIZE.out.multiqc
    prior = priors
    posterior = PUNOISE_POSTERIOR.out.posterior
    report = PUNOISE_REPORT.out.report
    model = PUNOISE_TRANSFORM.out.model
    versions = PUNOISE_TRANSFORM.out.versions_punoise.mix(
        PUNOISE_ESTIMATEPRIOR.out.versions_punoise,
        UNUSABLE.out.versions_punoise,
        PUNOISE_POSTERIOR.out.versions_punoise,
        PUNOISE_REPORT.out.versions_punoise,
        PUNOISE_SUMMARIZE.out.versions_punoise,
    )
}

workflow {
    if (!params.samples) {
        error("name a sample sheet with --samples, or run the example: -params-file example.yaml")
    }
    rows = read_sheet(params.samples)
    (simulated, given) = rows.split { row -> row.sample in params.simulate }
    tables = given.collect { row ->
        def paths = [row.labeled, row.table ?: row.unlabeled, row.negatives]
        [meta_of(row)] + paths.collect { path -> path ? file(path, checkIfExists: true) : [] }
    }
    PUNOISE_SIMULATE(channel.fromList(simulated).map { row -> meta_of(row) })
    without_negatives = PUNOISE_SIMULATE.out.tables.map { meta, labeled, unlabeled -> [meta, labeled, unlabeled, []] }

    SAMPLES(
        channel.fromList(tables).mix(without_negatives),
        rows.collect { row -> row.sample },
    )
    write_versions(PUNOISE_SIMULATE.out.versions_punoise.mix(SAMPLES.out.versions), params.outdir)
}
