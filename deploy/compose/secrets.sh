#!/usr/bin/env bash
# Makes what docker-compose.yml keeps secret, in deploy/compose/secrets (ignored by git): passwords and
# tokens where there are none yet, and from them users.acl of Redis and the gateways' foregate.yaml,
# each time anew. To replace a secret delete its file, run this, and recreate the containers.
#
# Containers read these files as users of their own, who are others to the host: so the files are
# readable, and the folder is open to nobody else.
set -euo pipefail
here=$(cd "$(dirname "$0")" && pwd)
dir=${1:-$here/secrets}
umask 077
mkdir -p "$dir"
chmod 700 "$dir"

sha256() { if command -v sha256sum >/dev/null; then sha256sum; else shasum -a 256; fi | cut -d' ' -f1; }

for name in admin-token api-key seal-key redis-foregate redis-operator redis-exporter grafana-password; do
  # 32 bytes of the system's own randomness, in hex: no character in it needs an escape anywhere.
  [ -s "$dir/$name" ] || head -c 32 /dev/urandom | od -An -v -tx1 | tr -d ' \n' >"$dir/$name"
done
[ -e "$dir/hf-token" ] || : >"$dir/hf-token" # for vllm.yml: a token of the hub, where models need one

hash_of() { printf %s "$(cat "$dir/$1")" | sha256; }

sed -e "s/SHA256-OF-FOREGATES-PASSWORD/$(hash_of redis-foregate)/" \
    -e "s/SHA256-OF-THE-OPERATORS-PASSWORD/$(hash_of redis-operator)/" \
    -e "s/SHA256-OF-THE-EXPORTERS-PASSWORD/$(hash_of redis-exporter)/" \
    "$here/../redis/users.acl" >"$dir/users.acl.new"
sed -e '/^#/d' \
    -e "s/REDIS-FOREGATE-PASSWORD/$(cat "$dir/redis-foregate")/" \
    -e "s/REDIS-OPERATOR-PASSWORD/$(cat "$dir/redis-operator")/" \
    -e "s/API-KEY-SHA256/$(hash_of api-key)/" \
    "$here/foregate.yaml" >"$dir/foregate.yaml.new"
# Written over, not replaced: a mounted file is the file that was there when the container started.
for name in users.acl foregate.yaml; do
  cat "$dir/$name.new" >"$dir/$name"
  rm "$dir/$name.new"
done
chmod 644 "$dir"/*
echo "secrets are in $dir"
