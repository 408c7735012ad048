#!/usr/bin/env bash
# Copy out/docs to a folder of the branch gh-pages, named by the version; `dev` for main. UNTESTED on GitHub; the test
# tests/test_release.py runs it on a repository of its own.
set -euo pipefail
folder=dev
if [ "$KIND" = tag ]; then folder="${REF#v}"; fi
site=$(mktemp -d)
if git fetch origin gh-pages:refs/remotes/origin/gh-pages 2> /dev/null; then
  git worktree add --quiet --detach "$site" origin/gh-pages
else
  git worktree add --quiet --detach "$site"
  git -C "$site" checkout --quiet --orphan gh-pages
  git -C "$site" rm --quiet -rf .
fi
rm -rf "${site:?}/$folder"
cp -R out/docs "$site/$folder"
touch "$site/.nojekyll"
cd "$site"
newest=$(find . -maxdepth 1 -type d -name '[0-9]*' | sed 's|^\./||' | sort -V | tail -n 1)
printf '<!doctype html><meta http-equiv="refresh" content="0; url=%s/">\n' "${newest:-dev}" > index.html
{ echo '['; find . -maxdepth 1 -type d \( -name '[0-9]*' -o -name dev \) | sed 's|^\./||' | sort -rV | sed 's/.*/  "&",/' | sed '$ s/,$//'; echo ']'; } > versions.json
git add --all
git -c user.name=docs -c user.email=docs@localhost commit --quiet --allow-empty -m "Site of $folder"
git push --quiet origin HEAD:gh-pages
