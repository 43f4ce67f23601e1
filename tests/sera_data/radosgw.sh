#!/usr/bin/env bash
# A whole Ceph on this machine, in memory and for tests only: one monitor, one storage daemon, one object gateway.
#
#   tests/sera_data/radosgw.sh COMMAND ...     starts it, makes a bucket, runs COMMAND, ends it; COMMAND's exit status
#
# COMMAND finds it by the variables of tests/sera_data/object_server.py. Needs (Debian, Ubuntu):
#   apt-get install --no-install-recommends radosgw ceph-mon ceph-osd
# Nothing of an installed Ceph is read or changed: configuration, data, sockets and logs lie in a folder of their own.
set -euo pipefail

for tool in ceph ceph-mon ceph-osd monmaptool radosgw radosgw-admin; do
  command -v "$tool" >/dev/null || {
    echo "error: $tool is missing (hint: apt-get install --no-install-recommends radosgw ceph-mon ceph-osd)" >&2
    exit 2
  }
done

here=$(mktemp -d "${TMPDIR:-/tmp}/radosgw.XXXXXX")
port=$(python3 -c 'import socket; s = socket.socket(); s.bind(("127.0.0.1", 0)); print(s.getsockname()[1])')
monitor="v2:127.0.0.1:$(python3 -c 'import socket; s = socket.socket(); s.bind(("127.0.0.1", 0)); print(s.getsockname()[1])')"
mkdir "$here/mon" "$here/osd"
# No authentication between the daemons, so their messages cannot be encrypted either (crc). One copy of each object.
cat >"$here/ceph.conf" <<CONF
[global]
fsid = $(cat /proc/sys/kernel/random/uuid)
mon host = $monitor
public addr = 127.0.0.1
auth cluster required = none
auth service required = none
auth client required = none
ms cluster mode = crc
ms service mode = crc
ms client mode = crc
ms mon cluster mode = crc
ms mon service mode = crc
ms mon client mode = crc
osd pool default size = 1
osd pool default min size = 1
osd pool default pg num = 8
osd pool default pg autoscale mode = off
osd crush chooseleaf type = 0
mon allow pool size one = true
mon data = $here/mon
mon data avail crit = 0
osd data = $here/osd
osd objectstore = memstore
memstore device bytes = 2147483648
rgw frontends = beast endpoint=127.0.0.1:$port
run dir = $here
keyring = /dev/null
log file = $here/\$name.log
admin socket = $here/\$name.asok
pid file = $here/\$name.pid
CONF
export CEPH_CONF=$here/ceph.conf

finish() {
  status=$?
  for pid in "$here"/*.pid; do [ -f "$pid" ] && kill -9 "$(cat "$pid")" 2>/dev/null; done
  if [ "$status" != 0 ] && [ -z "${started:-}" ]; then tail -n 20 "$here"/*.log >&2; fi
  rm -rf "$here"
  exit "$status"
}
trap finish EXIT
trap 'exit 130' INT TERM

quietly() { "$@" >"$here/last" 2>&1 || { cat "$here/last" >&2; return 1; }; }
quietly monmaptool --create --fsid "$(sed -n 's/^fsid = //p' "$CEPH_CONF")" --addv a "[$monitor]" "$here/monmap"
quietly ceph-mon -i a --mkfs --monmap "$here/monmap"
quietly ceph-mon -i a
uuid=$(cat /proc/sys/kernel/random/uuid)
quietly timeout 60 ceph osd new "$uuid"
quietly ceph-osd -i 0 --mkfs --osd-uuid "$uuid"
quietly ceph-osd -i 0
quietly timeout 120 radosgw -n client.rgw
export AWS_ACCESS_KEY_ID=test-key AWS_SECRET_ACCESS_KEY=test-secret AWS_REGION=us-east-1
quietly timeout 60 radosgw-admin user create --uid tests --display-name tests \
  --access-key "$AWS_ACCESS_KEY_ID" --secret "$AWS_SECRET_ACCESS_KEY"
export SERA_TEST_S3_ENDPOINT=http://127.0.0.1:$port SERA_TEST_S3_BUCKET=sera-tests
started=1
"$@"
