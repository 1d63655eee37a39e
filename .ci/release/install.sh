#!/bin/sh
# Installs Tollgate @VERSION@ for this machine. It verifies the SHA-256 of the archive and, with minisign, the signature.
#   TOLLGATE_BIN   folder to install to (default /usr/local/bin)
#   TOLLGATE_KEY   minisign public key that must have signed the release (default: the publisher's)
#   TOLLGATE_URL   folder with the files of the release
set -eu

version='@VERSION@'
url="${TOLLGATE_URL:-@URL@}"
key="${TOLLGATE_KEY:-@KEY@}"
bin="${TOLLGATE_BIN:-/usr/local/bin}"
case "$bin" in
/*) ;;
*) bin="$PWD/$bin" ;;
esac

fail() {
  echo "error: $1 Nothing was installed." >&2
  exit 1
}

case "$url" in
https://* | file://*) ;;
*) fail "The address must begin with https:// (got '$url')." ;;
esac

case "$(uname -s)-$(uname -m)" in
Linux-x86_64) target=linux-x64 ;;
Linux-aarch64 | Linux-arm64) target=linux-arm64 ;;
Darwin-x86_64) target=darwin-x64 ;;
Darwin-arm64) target=darwin-arm64 ;;
*) fail "There is no release for $(uname -s) on $(uname -m)." ;;
esac
if [ "${target%%-*}" = linux ] && ls /lib/ld-musl-* >/dev/null 2>&1; then
  target="$target-musl"
elif [ "$target" = linux-x64 ] && ! grep -q avx2 /proc/cpuinfo; then
  target=linux-x64-baseline
fi
file="tollgate-$version-$target.tar.gz"

command -v curl >/dev/null || fail 'curl is not installed.'
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
trap 'exit 130' INT TERM
cd "$folder"

download() {
  curl -fsSL --proto '=https,file' --proto-redir '=https' -o "$1" "$url/$1" || fail "Can't download $url/$1."
}

download SHA256SUMS
if [ -z "$key" ]; then
  echo 'This release is not signed: only its checksum is verified.' >&2
elif command -v minisign >/dev/null; then
  download SHA256SUMS.minisig
  minisign -Vqm SHA256SUMS -P "$key" || fail 'The signature of SHA256SUMS is not valid.'
else
  echo 'minisign is not installed: only the checksum is verified.' >&2
fi

download "$file"
grep "  $file\$" SHA256SUMS >sum || fail "SHA256SUMS doesn't list $file."
if command -v sha256sum >/dev/null; then
  sha256sum -c sum >/dev/null || fail "Checksum mismatch for $file."
else
  shasum -a 256 -c sum >/dev/null || fail "Checksum mismatch for $file."
fi

tar -xzf "$file" tollgate
./tollgate --version >/dev/null || fail "This program doesn't run on this machine."
part="$bin/.tollgate-$$"
{ mkdir -p "$bin" && cp tollgate "$part" && chmod 755 "$part" && mv -f "$part" "$bin/tollgate"; } ||
  { rm -f "$part" && fail "Can't write to $bin. Run it with sudo, or set TOLLGATE_BIN."; }
echo "Installed Tollgate $version as $bin/tollgate. To start it: tollgate serve"
