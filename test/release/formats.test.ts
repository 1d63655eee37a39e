/** What a release consists of: signatures, archives, headers of executables, and the list of what is inside. */
import { afterAll, expect, test } from 'bun:test'
import { mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import Ajv from 'ajv'
import { toAr, toTar } from '../../.ci/release/archive.ts'
import { hasValidSignature, signAdHoc } from '../../.ci/release/codesign.ts'
import { type Component, listComponents, listLocked, toLicenses, toSbom } from '../../.ci/release/components.ts'
import { readExecutable } from '../../.ci/release/headers.ts'
import { toFormula } from '../../.ci/release/packages.ts'
import { requireIntegrity } from '../../.ci/release/runtimes.ts'
import { toSignature, toSigningKey } from '../../.ci/release/sign.ts'
import { type PublicKey, toPublicKey, verifySignature } from '../../src/cli/update/minisign.ts'
import { makeKey, makeSecretKey } from './keys.ts'

const folder = mkdtempSync(join(tmpdir(), 'tollgate-release-'))
afterAll(() => rmSync(folder, { recursive: true }))

const run = (...command: string[]) => {
  const { exitCode, stdout, stderr } = Bun.spawnSync(command, { cwd: folder })
  return { code: exitCode, text: `${stdout}${stderr}` }
}

const toKey = (text: string): PublicKey => {
  const key = toPublicKey(text)
  if (key === null) throw new Error(`no key: ${text}`)
  return key
}

test('a signature holds for its content, comment, and key only', () => {
  const [key, other] = [makeKey(), makeKey()]
  const content = Buffer.from('content')
  const text = toSignature(content, 'tollgate 1.2.3 latest.json', key)
  const keys = [toKey(other.publicKey), toKey(key.publicKey)]
  expect(verifySignature(content, text, keys)).toBe('tollgate 1.2.3 latest.json')
  const check =
    (bytes: Buffer, signature: string, known = keys) =>
    () =>
      verifySignature(bytes, signature, known)
  expect(check(Buffer.from('Content'), text)).toThrow("doesn't match")
  expect(check(content, text.replace('1.2.3', '1.2.4'))).toThrow("doesn't match")
  expect(check(content, text, [toKey(other.publicKey)])).toThrow('is by an unknown key')
  expect(check(content, text, [{ ...toKey(other.publicKey), id: toKey(key.publicKey).id }])).toThrow("doesn't match")
  const [first = '', own = '', ...rest] = text.split('\n')
  const legacy = Buffer.from(own, 'base64')
  legacy.write('Ed')
  expect(check(content, [first, legacy.toString('base64'), ...rest].join('\n'))).toThrow('has an outdated format')
  for (const broken of ['', 'x', text.slice(0, 100), text.replace('trusted comment: tollgate', 'tollgate')])
    expect(check(content, broken)).toThrow('is not a minisign signature')
  expect(check(content, text.split('\n').slice(0, 3).join('\n'))).toThrow("doesn't match")
})

test('a signing key with a password, or a damaged one, is refused', () => {
  const [comment = '', line = ''] = makeSecretKey().split('\n')
  const change = (at: number, text: string) => {
    const bytes = Buffer.from(line, 'base64')
    bytes.write(text, at, 'latin1')
    return `${comment}\n${bytes.toString('base64')}\n`
  }
  expect(() => toSigningKey(change(2, 'Sc'))).toThrow('minisign -G -W')
  expect(() => toSigningKey(change(100, 'damage'))).toThrow('damaged')
  expect(() => toSigningKey('x')).toThrow('not a minisign secret key')
})

const minisign = Bun.which('minisign')
test.skipIf(minisign === null)(
  `minisign accepts our signatures, and we accept its keys${minisign ? '' : ' (skipped: no minisign)'}`,
  () => {
    expect(run('minisign', '-G', '-W', '-p', 'key.pub', '-s', 'key.sec').code).toBe(0)
    const key = toSigningKey(readFileSync(join(folder, 'key.sec'), 'utf8'))
    expect(toKey(readFileSync(join(folder, 'key.pub'), 'utf8'))).toEqual(toKey(key.publicKey))
    writeFileSync(join(folder, 'SHA256SUMS'), 'sums\n')
    writeFileSync(join(folder, 'SHA256SUMS.minisig'), toSignature(Buffer.from('sums\n'), 'tollgate 1.2.3', key))
    const verified = run('minisign', '-Vm', 'SHA256SUMS', '-P', key.publicKey)
    expect(verified.text).toContain('Trusted comment: tollgate 1.2.3')
    expect(verified.code).toBe(0)
    writeFileSync(join(folder, 'SHA256SUMS'), 'Sums\n')
    expect(run('minisign', '-Vm', 'SHA256SUMS', '-P', key.publicKey).code).not.toBe(0)
    expect(run('minisign', '-Sm', 'SHA256SUMS', '-s', 'key.sec', '-t', 'by minisign').code).toBe(0)
    const signature = readFileSync(join(folder, 'SHA256SUMS.minisig'), 'utf8')
    expect(verifySignature(Buffer.from('Sums\n'), signature, [toKey(key.publicKey)])).toBe('by minisign')
  },
)

test('tar and ar read our archives, with modes, owners, and times', () => {
  const entries = [
    { name: 'bin/' },
    { name: 'bin/program', content: 'x'.repeat(513), mode: 0o755, owner: 65_532 },
    { name: 'empty' },
  ]
  writeFileSync(join(folder, 'a.tar'), toTar(entries, 86_400))
  const { text } = run('tar', '--utc', '--numeric-owner', '-tvf', 'a.tar')
  expect(text.replace(/ +/g, ' ').trim().split('\n')).toEqual([
    'drwxr-xr-x 0/0 0 1970-01-02 00:00 bin/',
    '-rwxr-xr-x 65532/65532 513 1970-01-02 00:00 bin/program',
    '-rw-r--r-- 0/0 0 1970-01-02 00:00 empty',
  ])
  expect(toTar(entries, 86_400)).toEqual(toTar(entries, 86_400))
  writeFileSync(
    join(folder, 'a.ar'),
    toAr(
      [
        { name: 'odd', content: Buffer.from('abc') },
        { name: 'b', content: Buffer.from('d') },
      ],
      0,
    ),
  )
  if (Bun.which('ar') === null) return
  expect(run('ar', 'p', 'a.ar', 'odd').text).toBe('abc')
  expect(run('ar', 'p', 'a.ar', 'b').text).toBe('d')
})

test('a Homebrew formula has what the release has', () => {
  const file = (target: string) => ({ name: `tollgate-1.2.3-${target}.tar.gz`, sha256: `hash of ${target}` })
  const files = Object.fromEntries(['darwin-arm64', 'linux-x64-baseline'].map((target) => [target, file(target)]))
  const formula = toFormula({ version: '1.2.3', url: 'https://example.com/1.2.3/', files })
  expect([...formula.matchAll(/on_\w+|(?<=url ").*(?=")|(?<=sha256 ").*(?=")/g)].map(String)).toEqual([
    ...['on_macos', 'on_arm', 'https://example.com/1.2.3/tollgate-1.2.3-darwin-arm64.tar.gz', 'hash of darwin-arm64'],
    ...['on_linux', 'on_intel', 'https://example.com/1.2.3/tollgate-1.2.3-linux-x64-baseline.tar.gz'],
    'hash of linux-x64-baseline',
  ])
  writeFileSync(join(folder, 'tollgate.rb'), formula)
  if (Bun.which('ruby')) expect(run('ruby', '-c', 'tollgate.rb').text).toBe('Syntax OK\n')
})

test('executables are recognized by their headers', () => {
  const own = readExecutable(readFileSync(process.execPath))
  expect(own).toMatchObject({ os: process.platform, arch: process.arch })
  if (process.platform === 'linux') expect(own?.loader).toMatch(/^\/lib.*\/ld-/)
  const elf = Buffer.alloc(64)
  elf.write('\x7fELF\x02', 'latin1')
  elf.writeUInt16LE(183, 18)
  expect(readExecutable(elf)).toEqual({ os: 'linux', arch: 'arm64', loader: '' })
  elf.writeUInt16LE(8, 18)
  expect(readExecutable(elf)).toBeNull()
  const macho = Buffer.alloc(64)
  macho.writeUInt32LE(0xfeedfacf, 0)
  macho.writeUInt32LE(0x0100000c, 4)
  expect(readExecutable(macho)).toEqual({ os: 'darwin', arch: 'arm64', loader: '' })
  const pe = Buffer.alloc(128)
  pe.write('MZ')
  pe.writeUInt32LE(64, 60)
  pe.write('PE\0\0', 64)
  pe.writeUInt16LE(0x8664, 68)
  expect(readExecutable(pe)).toEqual({ os: 'windows', arch: 'x64', loader: '' })
  pe.writeUInt32LE(4_000, 60)
  expect(readExecutable(pe)).toBeNull()
  expect(readExecutable(Buffer.from('#!/bin/sh\n'))).toBeNull()
})

test('a code signature for macOS covers every page', () => {
  const program = Buffer.alloc(10_000, 'code')
  program.writeUInt32LE(3, 16)
  const commands = [
    { command: 0x19, size: 72, name: '__TEXT', from: 0, bytes: 8_192 },
    { command: 0x19, size: 72, name: '__LINKEDIT', from: 8_192, bytes: 1_808 },
  ]
  let at = 32
  for (const { command, size, name, from, bytes } of commands) {
    program.writeUInt32LE(command, at)
    program.writeUInt32LE(size, at + 4)
    program.write(name.padEnd(16, '\0'), at + 8)
    program.writeBigUInt64LE(BigInt(from), at + 40)
    program.writeBigUInt64LE(BigInt(bytes), at + 48)
    at += size
  }
  for (const [index, word] of [0x1d, 16, 9_500, 500].entries()) program.writeUInt32LE(word, at + 4 * index)
  expect(hasValidSignature(program)).toBe(false)
  const signed = signAdHoc(program)
  expect(hasValidSignature(signed)).toBe(true)
  expect(signAdHoc(signed)).toEqual(signed)
  expect(Number(signed.readBigUInt64LE(32 + 72 + 48))).toBe(signed.length - 8_192)
  for (const place of [0, 4_095, 4_096, 9_499]) {
    const changed = Buffer.from(signed)
    changed.writeUInt8(changed.readUInt8(place) ^ 1, place)
    expect(hasValidSignature(changed)).toBe(false)
  }
})

test('a runtime that is not the pinned package is refused', () => {
  const integrity = `sha512-${new Bun.CryptoHasher('sha512').update('package').digest('base64')}`
  expect(() => requireIntegrity(Buffer.from('package'), integrity, '@oven/bun')).not.toThrow()
  expect(() => requireIntegrity(Buffer.from('Package'), integrity, '@oven/bun')).toThrow('is not the package')
})

test('of the lock file, exactly what the executable needs is listed, each in the nearest version', () => {
  const lock = {
    workspaces: { '': { dependencies: { a: '1', '@s/b': '1' }, devDependencies: { compiler: '1' } } },
    packages: {
      a: [
        'a@1.0.0',
        '',
        { dependencies: { c: '1' }, peerDependencies: { peer: '1', compiler: '1', o: '1' }, optionalPeers: ['o'] },
        'sha512-YQ==',
      ],
      'a/c': ['c@1.0.0', '', {}, 'sha512-Yw=='],
      '@s/b': ['@s/b@2.0.0', '', { dependencies: { c: '2' } }, 'sha512-Yg=='],
      c: ['c@2.0.0', '', {}, 'sha512-Yw=='],
      peer: ['peer@1.0.0', '', {}, 'sha512-cA=='],
      o: ['o@1.0.0', '', {}, 'sha512-bw=='],
      compiler: ['compiler@1.0.0', '', {}, 'sha512-YQ=='],
    },
  }
  const locked = listLocked(JSON.stringify(lock).replaceAll('}', ',}').replaceAll('{,}', '{}'))
  expect([...locked].map(([place, { name, version }]) => `${place} ${name}@${version}`).toSorted()).toEqual([
    '@s/b @s/b@2.0.0',
    'a a@1.0.0',
    'a/c c@1.0.0',
    'c c@2.0.0',
    'peer peer@1.0.0',
  ])
  expect(locked.get('a')?.needs).toEqual(['a/c', 'peer'])
})

const ROOT = join(import.meta.dir, '../..')
const bun: Component = {
  ...{ purl: 'pkg:github/oven-sh/bun@bun-v1', name: 'bun', version: '1', license: 'MIT AND LGPL-2.0-or-later' },
  ...{ licenseText: "Bun's licenses\n", sha512: null, needs: [] },
}

test('the SBOM is valid CycloneDX 1.6, and names every dependency', () => {
  const read = (name: string) =>
    JSON.parse(
      readFileSync(
        join(ROOT, `node_modules/@cyclonedx/cyclonedx-library/res/schema/${name}.SNAPSHOT.schema.json`),
        'utf8',
      ),
    )
  const ajv = new Ajv({ strict: false, validateFormats: false })
  for (const name of ['spdx', 'jsf-0.82'])
    ajv.addSchema(read(name), `http://cyclonedx.org/schema/${name}.SNAPSHOT.schema.json`)
  const validate = ajv.compile(read('bom-1.6'))
  const components = listComponents(ROOT, bun)
  const subject = { version: '1.2.3', commit: 'abc', time: new Date(0) }
  expect([validate(toSbom(components, subject)), validate.errors]).toEqual([true, null])
  expect(validate({ ...toSbom(components, subject), components: [{ name: 'x' }] })).toBe(false)
  expect(toSbom(components, subject)).toEqual(toSbom(components, subject))

  const { dependencies } = JSON.parse(readFileSync(join(ROOT, 'package.json'), 'utf8'))
  const purls = components.map(({ purl }) => purl)
  for (const [name, version] of Object.entries(dependencies))
    expect(purls).toContain(`pkg:npm/${name.replace('@', '%40')}@${version}`)
  expect(purls.filter((purl) => /typescript|@biome|playwright/.test(purl))).toEqual([])
  expect(components.flatMap(({ needs }) => needs).filter((need) => !purls.includes(need))).toEqual([])

  const licenses = toLicenses(ROOT, components)
  for (const text of ["Bun's licenses", 'Copyright (c) 2026', 'models.dev', 'Apache License'])
    expect(licenses).toContain(text)
  expect(licenses).toStartWith('MIT License')
})
