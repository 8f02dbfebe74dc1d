// What ran, in the form that MultiQC lists under its software versions
def write_versions(versions, folder) {
    versions
        .unique()
        .map { process, tool, version -> "${process}:\n  ${tool}: ${version}\n" }
        .collectFile(name: 'punoise_mqc_versions.yml', storeDir: folder, sort: true)
}
