#!/bin/sh
# Make or renew a virtual environment: make_venv.sh FOLDER PYTHON REQUIREMENT...
# With uv if there is one, else venv and pip. FOLDER/ready is written last, so an interrupt is repaired.
set -eu
folder=$1 python=$2
shift 2
if [ -z "$python" ]; then
  echo "error: no Python 3.11 or newer with venv found: install one (Debian: python3-venv), or make PYTHON=..." >&2
  exit 2
fi
rm -rf "$folder"
echo "Setting up $folder with $($python -V)"
if command -v uv >/dev/null 2>&1; then
  uv venv --quiet --seed --python "$($python -c 'import sys; print(sys.executable)')" "$folder"
  uv pip install --quiet --python "$folder/bin/python" "$@"
else
  "$python" -m venv "$folder"
  "$folder/bin/python" -m pip install --quiet --disable-pip-version-check "$@"
fi
touch "$folder/ready"
