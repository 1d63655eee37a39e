/** Packages of a release: for dpkg and Homebrew, and a script that installs it. */
import { createHash } from 'node:crypto'
import { gzipSync } from 'node:zlib'
import { type Entry, toAr, toTar } from './archive.ts'

interface DebOptions {
  version: string
  architecture: 'amd64' | 'arm64'
  program: Uint8Array
  licenses: string
  /** Time of all entries. */
  seconds: number
}

/** Removing the package ends the service that `tollgate service install` created for its program. */
const PRERM = `#!/bin/sh
set -e
unit=/etc/systemd/system/tollgate.service
if [ "$1" = remove ] && [ -d /run/systemd/system ] && grep -qs '^ExecStart=/usr/bin/tollgate ' "$unit"; then
  /usr/bin/tollgate service uninstall
fi
`

/** Only the program: `tollgate service install` sets up the service. */
export function toDeb({ version, architecture, program, licenses, seconds }: DebOptions): Buffer {
  const files: Entry[] = [
    { name: './usr/bin/tollgate', content: program, mode: 0o755 },
    { name: './usr/share/doc/tollgate/copyright', content: licenses },
  ]
  const folders = ['./', './usr/', './usr/bin/', './usr/share/', './usr/share/doc/', './usr/share/doc/tollgate/']
  const sums = files.map(({ name, content = '' }) => `${toMd5(content)}  ${name.slice(2)}\n`).join('')
  const control = `Package: tollgate
Version: ${version.replace('-', '~')}
Architecture: ${architecture}
Maintainer: The Tollgate authors <tollgate@localhost>
Installed-Size: ${Math.ceil((program.length + licenses.length) / 1_024)}
Depends: libc6 (>= 2.17)
Section: net
Priority: optional
Description: self-hosted LLM gateway
 One endpoint, one set of API keys, and one ledger for all language models
 of a team. To run it as a service: tollgate service install
`
  const pack = (entries: readonly Entry[]) => gzipSync(toTar(entries, seconds))
  return toAr(
    [
      { name: 'debian-binary', content: Buffer.from('2.0\n') },
      {
        name: 'control.tar.gz',
        content: pack([
          { name: './' },
          { name: './control', content: control },
          { name: './md5sums', content: sums },
          { name: './prerm', content: PRERM, mode: 0o755 },
        ]),
      },
      { name: 'data.tar.gz', content: pack([...folders.map((name) => ({ name })), ...files]) },
    ],
    seconds,
  )
}

const toMd5 = (content: Uint8Array | string) => createHash('md5').update(content).digest('hex')

interface Published {
  version: string
  /** Folder of this version's files. */
  url: string
  files: Readonly<Record<string, { name: string; sha256: string }>>
}

/** Homebrew's, for the targets that the release has. */
export function toFormula({ version, url, files }: Published): string {
  const base = url.replace(/\/$/, '')
  const block = (cpu: 'arm' | 'intel', target: string) => {
    const file = files[target]
    return file
      ? [`    on_${cpu} do`, `      url "${base}/${file.name}"`, `      sha256 "${file.sha256}"`, '    end']
      : []
  }
  const system = (name: 'macos' | 'linux', lines: string[]) =>
    lines.length > 0 ? [`  on_${name} do`, ...lines, '  end', ''] : []
  return `${[
    'class Tollgate < Formula',
    '  desc "Self-hosted LLM gateway: one endpoint, one set of API keys, one ledger"',
    `  homepage "${new URL(base).origin}"`,
    `  version "${version}"`,
    '  license "MIT"',
    '',
    ...system('macos', [...block('arm', 'darwin-arm64'), ...block('intel', 'darwin-x64')]),
    ...system('linux', [...block('arm', 'linux-arm64'), ...block('intel', 'linux-x64-baseline')]),
    '  def install',
    '    bin.install "tollgate"',
    '    doc.install "LICENSES.txt"',
    '  end',
    '',
    '  service do',
    '    run [opt_bin/"tollgate", "serve", "--data", var/"tollgate"]',
    '    keep_alive true',
    '  end',
    '',
    '  test do',
    '    assert_equal version.to_s, shell_output("#{bin}/tollgate --version").strip',
    '  end',
    'end',
  ].join('\n')}\n`
}

/** @param script text of install.sh. @param key a public key; '' if the release is unsigned. */
export const toInstaller = (script: string, { version, url }: Published, key: string): string =>
  script.replaceAll('@VERSION@', version).replaceAll('@URL@', url.replace(/\/$/, '')).replaceAll('@KEY@', key)
