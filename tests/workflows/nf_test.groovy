// Runs the nf-test files of the modules where nf-test itself cannot be had: the part of its language that they use.
// java -cp 'LIB/*' groovy.ui.GroovyMain tests/workflows/nf_test.groovy [--update] NEXTFLOW tests/main.nf.test ...
import groovy.json.JsonOutput
import groovy.json.JsonSlurper
import java.nio.file.Files
import java.security.MessageDigest

class Step { // a process with its inputs
    String name, alias, script, inputs = ''
    void script(String path) { script = path }
    void process(Closure body) { inputs = body() }
}

class Outcome { boolean success; int exitStatus; Map out = [:]; String stdout }

class Content { // nf-test's path(...)
    File file
    def getJson() { new JsonSlurper().parse(file) }
    String getText() { file.text }
    List getLines() { file.readLines() }
}

class Snapshot {
    List content; Map stored; String test; boolean update
    boolean match() {
        def now = new JsonSlurper().parseText(JsonOutput.toJson(content))
        if (update) { stored[test] = [content: now]; return true }
        if (stored[test] == null) { println "  no snapshot of '${test}'"; return false }
        if (stored[test].content != now) { println "  expected ${JsonOutput.toJson(stored[test].content)}\n  received ${JsonOutput.toJson(now)}" }
        return stored[test].content == now
    }
}

class Test {
    String name; Suite suite
    List<Step> steps = []; Step main = new Step(); Closure check; String option = ''
    Outcome process
    void options(String text) { option = text }
    void tag(String text) { }
    void setup(Closure body) { call(body, this) }
    void run(Map named = [:], String process, Closure body) {
        def step = new Step(name: process, alias: named.alias)
        call(body, step); steps << step
    }
    void when(Closure body) { call(body, main) }
    void then(Closure body) { check = body }
    def path(name) { new Content(file: new File(name.toString())) }
    def file(name) { new File(name.toString()) }
    def snapshot(Object... parts) {
        new Snapshot(content: parts.collect { suite.digested(it) }, stored: suite.snapshots, test: name, update: suite.update)
    }
    void assertAll(Closure... asserts) { asserts.each { it() } }
    static void call(Closure body, target) { body.delegate = target; body.resolveStrategy = Closure.DELEGATE_FIRST; body() }
}

class Suite {
    File file; String nextflow; boolean update
    String process, script, config; List<Test> tests = []; Map snapshots = [:]
    void name(String text) { }
    void tag(String text) { }
    void script(String path) { script = path }
    void process(String name) { process = name }
    void config(String path) { config = path }
    void test(String name, Closure body) { def test = new Test(name: name, suite: this); Test.call(body, test); tests << test }

    def digested(value) {
        if (value instanceof Map) return value.collectEntries { k, v -> [(k): digested(v)] }
        if (value instanceof List) return value.collect { digested(it) }
        def path = value instanceof CharSequence && value.startsWith('/') ? new File(value.toString()) : null
        if (path?.isFile()) return "${path.name}:md5,${MessageDigest.getInstance('MD5').digest(path.bytes).encodeHex()}".toString()
        return value
    }

    String located(String path) { new File(file.parentFile, path).canonicalPath }

    Outcome execute(Test test) {
        def folder = Files.createTempDirectory('nf-test').toFile()
        def steps = test.steps + [new Step(name: process, script: script, inputs: test.main.inputs)]
        def includes = steps.collect { "include { ${it.name}${it.alias ? " as ${it.alias}" : ''} } from '${located(it.script)}'" }.unique()
        def calls = steps.collect { "if (true) {\n def input = []\n${it.inputs}\n ${it.alias ?: it.name}(*input)\n}" }
        new File(folder, 'main.nf').text = """
${includes.join('\n')}
def plain(v) { v instanceof java.nio.file.Path ? v.toString() : v instanceof List ? v.collect { plain(it) } : v }
workflow {
${calls.join('\n')}
    ${process}.out.getNames().each { name ->
        ${process}.out.getProperty(name).toList().subscribe { list ->
            file("${folder}/out_\${name}.json").text = groovy.json.JsonOutput.toJson(plain(list))
        }
    }
}
"""
        def command = [nextflow, 'run', 'main.nf', '-ansi-log', 'false'] + (config ? ['-c', located(config)] : []) + test.option.tokenize()
        def job = new ProcessBuilder(command).directory(folder).redirectErrorStream(true).start()
        def text = job.inputStream.text
        def outcome = new Outcome(exitStatus: job.waitFor(), stdout: text)
        outcome.success = outcome.exitStatus == 0
        def names = new File(located(script)).readLines().findResults { line -> def m = line =~ /emit: (\w+)/; m ? m[0][1] : null }
        def found = names.collectEntries { n -> def f = new File(folder, "out_${n}.json"); [(n): f.exists() ? new JsonSlurper().parse(f) : []] }
        outcome.out = new TreeMap(found + names.withIndex().collectEntries { n, i -> [(i.toString()): found[n]] })
        outcome.out.each { k, v -> if (v instanceof List) v.sort { it.toString() } }
        folder.deleteOnExit()
        return outcome
    }

    int run() {
        def stored = new File(file.path + '.snap')
        snapshots = stored.exists() && !update ? new JsonSlurper().parse(stored) : [:]
        int failed = 0
        tests.each { test ->
            test.process = execute(test)
            try {
                Test.call(test.check, test)
                println "PASSED ${process} ${test.name}"
            } catch (AssertionError error) {
                failed++
                println "FAILED ${process} ${test.name}\n${error.message}\n${test.process.stdout}"
            }
        }
        if (update) stored.text = JsonOutput.prettyPrint(JsonOutput.toJson(new TreeMap(snapshots))) + '\n'
        return failed
    }
}

def words = args as List
boolean update = words.remove('--update')
int failed = words.tail().sum { name ->
    def file = new File(name).canonicalFile
    def suite = new Suite(file: file, nextflow: new File(words.head()).canonicalPath, update: update)
    def binding = new Binding(moduleTestDir: file.parent)
    binding.setVariable('nextflow_process', { Closure body -> Test.call(body, suite) })
    new GroovyShell(binding).evaluate(file)
    suite.run()
}
System.exit(failed ? 1 : 0)
