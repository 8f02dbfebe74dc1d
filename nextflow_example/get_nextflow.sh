#!/bin/sh
# Nextflow from Maven Central, where its own installer cannot be reached.
# Usage: get_nextflow.sh DIR LAUNCHER      jars into DIR/lib, a command 'nextflow' as LAUNCHER
set -eu
die() { echo "get_nextflow.sh: $*" >&2; exit 1; }
command -v java > /dev/null || die "Java 17 or newer is missing (Debian: default-jre-headless)"
command -v mvn > /dev/null || die "Maven is missing (Debian: maven)"
java=$(java -version 2>&1 | sed -n 's/.* version "\([0-9]*\).*/\1/p')
[ "${java:-0}" -ge 17 ] || die "Java 17 or newer is needed; 'java -version' says $java"

mkdir -p "$1"
home=$(cd "$1" && pwd)
rm -rf "$home/lib" # so that no jar of another release stays
mvn --batch-mode --quiet --file "$(dirname "$0")/pom.xml" \
  dependency:copy-dependencies -DoutputDirectory="$home/lib" \
  || die "Maven could not fetch Nextflow; is Maven Central reached?"

# The packages are those that Nextflow's own launcher opens
cat > "$2" << END
#!/bin/sh
export NXF_HOME="\${NXF_HOME:-$home/home}" NXF_OFFLINE="\${NXF_OFFLINE:-true}"
set -- nextflow.cli.Launcher "\$@"
for package in java.lang java.io java.nio java.net java.util java.util.concurrent.locks \\
  java.util.concurrent.atomic java.util.regex sun.nio.ch sun.nio.fs sun.net.www.protocol.http \\
  sun.net.www.protocol.https sun.net.www.protocol.ftp sun.net.www.protocol.file \\
  jdk.internal.misc jdk.internal.vm
do set -- --add-opens="java.base/\$package=ALL-UNNAMED" "\$@"
done
exec java -XX:TieredStopAtLevel=1 -cp "$home/lib/*" "\$@"
END
chmod +x "$2"
