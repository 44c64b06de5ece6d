#!/bin/sh
# Stands in for `python3 -m pip download`. Called through a link; hands out the wheels that a test put beside the link.
here=$(dirname "$0")
echo "$@" >> "$here/calls"
while [ $# -gt 0 ]; do
    if [ "$1" = --dest ]; then dest=$2; fi
    shift
done
if [ -f "$here/stderr" ]; then cat "$here/stderr" >&2; fi
for wheel in "$here"/*.whl; do
    if [ -f "$wheel" ]; then cp "$wheel" "$dest"; fi
done
exit "$(cat "$here/status" 2>/dev/null || echo 0)"
