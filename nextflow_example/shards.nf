// One huge unlabeled table in many files: train once, then score them in parallel.
// results/shards/prior.json and the parts in posterior/ are exactly what the table in one piece gives.

include { PUNOISE_ESTIMATEPRIOR } from './modules/estimateprior'
include { PUNOISE_POSTERIOR     } from './modules/posterior'
include { PUNOISE_SCORE         } from './modules/score'
include { PUNOISE_SIMULATE      } from './modules/simulate'
include { PUNOISE_TRAIN         } from './modules/train'
include { write_versions        } from './versions'

def in_order(files) {
    return files.toSortedList { a, b -> a.name <=> b.name }.map { list -> [list] }
}

workflow SHARDS {
    take:
    labeled // channel: the files of the labeled table, mostly one
    unlabeled // channel: the files of the unlabeled table

    main:
    whole = [id: 'all']
    PUNOISE_TRAIN(in_order(labeled).combine(in_order(unlabeled)).map { l, u -> [whole, l, u] })
    model = PUNOISE_TRAIN.out.model.map { _meta, model -> model }

    parts = labeled
        .map { table -> [[id: table.baseName, set: 'labeled'], table] }
        .mix(unlabeled.map { table -> [[id: table.baseName, set: 'unlabeled'], table] })
    PUNOISE_SCORE(parts.combine(model))

    sketches = PUNOISE_SCORE.out.sketch
        .toSortedList { a, b -> a[0].set <=> b[0].set ?: a[0].id <=> b[0].id }
        .map { entries -> [entries.collect { _meta, sketch -> sketch }] }
    PUNOISE_ESTIMATEPRIOR(sketches.map { files -> [whole, [], files[0]] })
    prior = PUNOISE_ESTIMATEPRIOR.out.prior

    PUNOISE_POSTERIOR(
        PUNOISE_SCORE.out.scores
            .combine(prior.map { _meta, file -> file })
            .combine(sketches)
    )

    emit:
    prior = prior
    posterior = PUNOISE_POSTERIOR.out.posterior
    model = PUNOISE_TRAIN.out.model
    versions = PUNOISE_TRAIN.out.versions_punoise.mix(
        PUNOISE_SCORE.out.versions_punoise,
        PUNOISE_ESTIMATEPRIOR.out.versions_punoise,
        PUNOISE_POSTERIOR.out.versions_punoise,
    )
}

workflow {
    if (params.labeled && params.unlabeled) {
        labeled = channel.fromPath(params.labeled, checkIfExists: true)
        unlabeled = channel.fromPath(params.unlabeled, checkIfExists: true)
    }
    else if (!params.labeled && !params.unlabeled) {
        // The example's own inputs
        PUNOISE_SIMULATE([id: 'example'])
        labeled = PUNOISE_SIMULATE.out.tables.map { _meta, table, _other -> table }
        unlabeled = PUNOISE_SIMULATE.out.tables
            .map { _meta, _other, table -> table }
            .splitText(by: 1000, keepHeader: true, file: true)
    }
    else {
        error("--labeled and --unlabeled belong together; without both, the example is run")
    }
    SHARDS(labeled, unlabeled)
    write_versions(SHARDS.out.versions, "${params.outdir}/shards")
}
