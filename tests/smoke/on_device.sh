#!/bin/sh
# What is to be seen on a machine with a GPU: the whole suite on the conformance wheel, its numerics with
# twenty seeds, and what the published wheel's tiers say there.
#
#   tests/smoke/on_device.sh CONFORMANCE_WHEEL PUBLISHED_WHEEL OUT
#
# Needs situ-release and torch in the environment of `python3` (or of $PYTHON). OUT gets evidence and JUnit
# files. Exit status: 0 when every step ended as expected.
set -u
conformance=$1 published=$2 out=$3
python=${PYTHON:-python3}
mkdir -p "$out"
bad=0

step() {
  name=$1 wanted=$2
  shift 2
  began=$(date +%s)
  timeout "${LIMIT:-560}" "$python" -m situ_release gpu-smoke "$@" \
    --evidence "$out/$name.json" --junit "$out/$name.xml" >"$out/$name.log" 2>&1
  code=$?
  tail -n "${LINES_SHOWN:-40}" "$out/$name.log"
  echo "$name: exit $code (expected $wanted) after $(($(date +%s) - began)) s"
  echo
  [ "$code" = "$wanted" ] || bad=1
}

for name in ${STEPS:-load suite seeds published refused}; do
  case $name in
    load) step load 0 "$conformance" --tier load ;;
    suite) step suite 0 "$conformance" ;;
    seeds) step seeds 0 "$conformance" --tier numerics --short --seeds 20 ;;
    published) step published 0 "$published" --tier load ;;
    refused) step refused 4 "$published" --tier load --tier cubins --tier numerics ;;
  esac
done
exit $bad
