#!/usr/bin/env bash
# The branch `results` and the files between jobs. Run from the checkout's root.
#
#   results.sh take [URL]      fetch the branch into .results, and lay its files where the tracker looks. By hand
#                              too: what the workflows measured is then here. URL: else the checkout's origin
#   results.sh pack            what this machine measured, into handed-in/
#   results.sh answers FOLDER  checked answers of scripts.confirm, beside the results
#   results.sh save URL        commit and push what the tracker has; TOKEN is in the environment
#
# ATOMWATCH_RESULTS_URL in the environment: another repository than ours for the branch.
set -euo pipefail

url=${ATOMWATCH_RESULTS_URL:-${2:-$(git remote get-url origin 2>/dev/null || true)}}
# Commits of main; files of sessions, so that a kernel that was timed once is not timed again.
results=.asv/commits/results
evidence=.cache/evidence
sessions=.cache/commit-sessions
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
  lay "$branch/sessions" "$sessions"
}

# Of a machine that runs other people's code only what it alone can know: which commits, variants and
# benchmarks there are is told by the plan and by our own sources.
measured() {  # FOLDER
  case "$1" in
    "$results") find . -mindepth 2 -maxdepth 2 -name '*.json' -print0; find . -maxdepth 1 -name failures.json -print0 ;;
    "$evidence") find . -type f -print0 ;;
    "$sessions") find . -mindepth 2 -maxdepth 2 -name 'hd*.json' -print0 ;;
  esac
}

pack() {
  rm -rf handed-in
  mkdir handed-in
  for pair in "$results results" "$evidence evidence" "$sessions sessions"; do
    read -r from to <<<"$pair"
    [ -d "$from" ] || continue
    # Only what is new: the rest came from the branch, and nobody planned it today.
    (cd "$from" && measured "$from") |
      while IFS= read -r -d '' file; do
        case "$file" in */.* | ./ledger/* | ./confirmations/*) continue ;; esac
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
  lay "$sessions" "$branch/sessions"
  cd "$branch"
  git add --all -- . ':!*.lock' ':(exclude,glob)**/.*'
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
