#!/usr/bin/env bash
# Makes what docker-compose.yml keeps secret, in deploy/compose/secrets (ignored by git): passwords, keys and
# tokens where there are none yet, and from them what programs read, each time anew: users.acl of Redis, and the
# gateways' tenants.yaml and admin-tokens. To replace a secret delete its file and run this;
# deploy/RUNBOOK.md (Rotation) says what follows.
#
# Containers read these files as users of their own, who are others to the host: so the files are
# readable, and the folder is open to nobody else.
set -euo pipefail
here=$(cd "$(dirname "$0")" && pwd)
dir=${1:-$here/secrets}
umask 077
mkdir -p "$dir"
chmod 700 "$dir"

# 32 bytes of the system's own randomness, in hex: no character in it needs an escape anywhere.
random() { head -c 32 /dev/urandom | od -An -v -tx1 | tr -d ' \n'; }
sha256() { if command -v sha256sum >/dev/null; then sha256sum; else shasum -a 256; fi | cut -d' ' -f1; }

for name in token-operator token-prometheus api-key redis-foregate redis-operator redis-exporter grafana-password; do
  [ -s "$dir/$name" ] || random >"$dir/$name"
done
# Lines ID SECRET, of which the first seals. What somebody has put there stays.
[ -s "$dir/seal-keys" ] || echo "k1 $(random)" >"$dir/seal-keys"
[ -e "$dir/hf-token" ] || : >"$dir/hf-token" # for vllm.yml: a token of the hub, where models need one

hash_of() { printf %s "$(cat "$dir/$1")" | sha256; }

sed -e "s/SHA256-OF-FOREGATES-PASSWORD/$(hash_of redis-foregate)/" \
    -e "s/SHA256-OF-THE-OPERATORS-PASSWORD/$(hash_of redis-operator)/" \
    -e "s/SHA256-OF-THE-EXPORTERS-PASSWORD/$(hash_of redis-exporter)/" \
    "$here/../redis/users.acl" >"$dir/users.acl.new"
sed -e '/^#/d' -e "s/API-KEY-SHA256/$(hash_of api-key)/" "$here/tenants.yaml" >"$dir/tenants.yaml.new"
# Lines NAME SCOPES SECRET: Prometheus may read metrics and nothing else.
cat >"$dir/admin-tokens.new" <<EOF
prometheus metrics $(cat "$dir/token-prometheus")
operator operate $(cat "$dir/token-operator")
EOF
# Written over, not replaced: a mounted file is the file that was there when the container started.
for name in users.acl tenants.yaml admin-tokens; do
  cat "$dir/$name.new" >"$dir/$name"
  rm "$dir/$name.new"
done
chmod 644 "$dir"/*
echo "secrets are in $dir"
