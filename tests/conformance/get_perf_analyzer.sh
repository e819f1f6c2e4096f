#!/usr/bin/env bash
# NVIDIA's perf_analyzer into a folder: afterwards FOLDER/perf_analyzer runs, on Debian 12 too.
#
# Its wheel wants a newer C library than Debian 12 has. The one of the next Debian release is unpacked
# beside it and loaded by it alone; nothing is installed, and apt's own lists stay as they are.
set -euo pipefail
version=2.60.0
mkdir -p "$1"
folder=$(cd "$1" && pwd)
cd "$folder"

python3 -m pip download --quiet --no-deps --only-binary :all: --python-version 3.12 \
  --platform manylinux_2_38_x86_64 --dest wheel "perf-analyzer==$version"
python3 -m zipfile -e wheel/perf_analyzer-"$version"-*.whl package
binary=$folder/package/perf_analyzer/bin/perf_analyzer
chmod +x "$binary"

# The machine's own mirror, in either form that Debian writes it down in.
mirror=$(awk '$1 == "URIs:" {print $2; exit} $1 == "deb" {for (i = 2; i <= NF; i++) if ($i ~ /:\//) {print $i; exit}}' \
  $(ls /etc/apt/sources.list.d/debian.sources /etc/apt/sources.list 2>/dev/null))
mkdir -p apt/lists/partial apt/archives/partial libraries trixie
: > apt/status
echo "deb [signed-by=/usr/share/keyrings/debian-archive-keyring.gpg] $mirror trixie main" > apt/sources.list
apt=(apt-get -qq -o Dir::State="$folder/apt" -o Dir::State::status="$folder/apt/status"
  -o Dir::Cache="$folder/apt" -o Dir::Etc::sourcelist="$folder/apt/sources.list"
  -o Dir::Etc::sourceparts=/dev/null -o APT::Sandbox::User=root)
"${apt[@]}" update
(cd libraries && "${apt[@]}" download libc6 libgcc-s1 libssl3t64 libstdc++6 libzstd1 zlib1g)
for package in libraries/*.deb; do dpkg-deb -x "$package" trixie; done

cat > perf_analyzer <<EOF
#!/bin/sh
exec "$folder/trixie/usr/lib64/ld-linux-x86-64.so.2" --library-path "$folder/trixie/usr/lib/x86_64-linux-gnu" "$binary" "\$@"
EOF
chmod +x perf_analyzer
./perf_analyzer --version
