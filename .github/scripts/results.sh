#!/usr/bin/env bash
# The branch `results` and the files between jobs. Run from the checkout's root.
#
#   results.sh take URL        fetch the branch into .results, and lay its files where the tracker looks
#   results.sh pack            what this machine measured, into handed-in/
#   results.sh answers FOLDER  checked answers of scripts.confirm, beside the results
#   results.sh save URL        commit and push what the tracker has; TOKEN is in the environment
#
# ATOMWATCH_RESULTS_URL in the environment: another repository than ours for the branch.
set -euo pipefail

url=${ATOMWATCH_RESULTS_URL:-${2:-}}
results=.asv/results
evidence=.cache/evidence
branch=.results
# A runner's user need not have a name, and a rebase wants one as a commit does.
as=(-c user.name=atomwatch -c user.email=atomwatch@users.noreply.github.com)

lay() {  # FROM TO
  if [ -d "$1" ]; then
    mkdir -p "$2"
    cp -R "$1/." "$2/"
  fi
}

take() {
  rm -rf "$branch"
  if ! git clone --quiet --depth 1 --branch results --single-branch "$url" "$branch"; then
    if [ -n "$(git ls-remote --heads "$url" results)" ]; then exit 1; fi
    # The first run: there is no such branch yet.
    git init --quiet --initial-branch=results "$branch"
  fi
  lay "$branch/results" "$results"
  lay "$branch/evidence" "$evidence"
}

pack() {
  rm -rf handed-in
  mkdir handed-in
  for pair in "$results results" "$evidence evidence"; do
    read -r from to <<<"$pair"
    [ -d "$from" ] || continue
    # Only what is new: the rest came from the branch, and nobody planned it today.
    (cd "$from" && find . -type f -not -name '.*' -not -path './ledger/*' -not -path './confirmations/*' -print0) |
      while IFS= read -r -d '' file; do
        if ! cmp --silent "$from/$file" "$branch/$to/$file"; then
          mkdir -p "$(dirname "handed-in/$to/$file")"
          cp "$from/$file" "handed-in/$to/$file"
        fi
      done
  done
}

save() {
  lay "$results" "$branch/results"
  lay "$evidence" "$branch/evidence"
  cd "$branch"
  git add --all -- . ':!*.lock'
  if git diff --cached --quiet; then
    echo "Nothing new to save"
    return
  fi
  # No hash and no number of Triton's in the message: they would show up in its timeline.
  git "${as[@]}" commit --quiet -m "Results"
  for try in 1 2 3 4 5; do
    if git -c "http.extraHeader=Authorization: Basic $(printf 'x-access-token:%s' "${TOKEN:-}" | base64 -w0)" \
        push --quiet "$url" HEAD:results; then
      return
    fi
    sleep $((RANDOM % 5 + try))
    # A file a commit and a file a thread: two writers do not meet in one.
    git fetch --quiet "$url" results
    git "${as[@]}" rebase --quiet FETCH_HEAD
  done
  echo "error: the branch results could not be pushed in 5 tries; run the workflow again" >&2
  exit 1
}

case "$1" in
  take) take ;;
  pack) pack ;;
  answers) lay "$2/confirmations" "$results/confirmations" ;;
  save) save ;;
  *) echo "results.sh: $1?" >&2; exit 2 ;;
esac
