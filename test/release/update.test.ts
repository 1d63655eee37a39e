/** `tollgate update`: from honest and hostile publishers, on a full disk, and killed; the program is always whole. */
import { beforeEach, expect, test } from 'bun:test'
import { existsSync, readdirSync, readFileSync, statSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { toSignature } from '../../.ci/release/sign.ts'
import { mountSmallDisk } from '../e2e/crash-trouble.ts'
import { makeCertificate } from '../support/certificate.ts'
import { createTestFolder, forEachTest } from '../support/lifetime.ts'
import { until } from '../support/until.ts'
import { makeKey } from './keys.ts'
import { install, key, toArchive, toProgram, toRelease, update } from './update-fixture.ts'

type Answer = string | Buffer | ((request: Request) => Response)

const folder = forEachTest(createTestFolder)
const server = forEachTest(() => {
  const served = { answers: {} as Record<string, Answer>, asked: [] as string[] }
  const listener = Bun.serve({
    ...{ port: 0, hostname: '127.0.0.1', development: false },
    fetch(request) {
      const name = new URL(request.url).pathname.slice(1)
      served.asked.push(name)
      const answer = served.answers[name]
      if (answer === undefined) return new Response(null, { status: 404 })
      return typeof answer === 'function' ? answer(request) : new Response(answer)
    },
  })
  return Object.assign(served, { url: `${listener.url}latest.json`, stop: () => listener.stop(true) })
})
let program = ''
beforeEach(() => {
  program = install(folder.path)
})

const from = () => ['--from', server.url]
const offer = (...release: Parameters<typeof toRelease>) => {
  server.answers = toRelease(...release)
}
const versionOf = (path: string) => JSON.parse(Bun.spawnSync([path]).stdout.toString()).version

/** Endless, or until the client has had enough. */
const flood = () => {
  const block = new Uint8Array(64 * 1024)
  return new Response(new ReadableStream({ pull: (to) => to.enqueue(block) }))
}

test('replaces the program with a newer release, and keeps the old one and its mode', async () => {
  offer('1.1.0')
  const out = await update(program, from())
  expect(out).toStartWith(`Updated ${program} from 1.0.0 to 1.1.0. The old version is ${program}.previous.\n`)
  expect(out).toContain('It migrates the database')
  expect(out).toEndWith('A running server stays on 1.0.0. To switch, stop it and start it.\n')
  expect([versionOf(program), versionOf(`${program}.previous`)]).toEqual(['1.1.0', '1.0.0'])
  expect([statSync(program).mode & 0o777, statSync(`${program}.previous`).mode & 0o777]).toEqual([0o751, 0o751])
  expect(readdirSync(folder.path).toSorted()).toEqual(['tollgate', 'tollgate.previous'])
  offer('1.2.0', { schema: '0001_one' })
  expect(await update(program, from())).toMatch(/\.previous\.\nA running server .*: tollgate restart\n$/)
  expect([versionOf(program), versionOf(`${program}.previous`)]).toEqual(['1.2.0', '1.1.0'])
})

test('a check downloads nothing but the index', async () => {
  offer('1.1.0')
  expect(await update(program, ['--check', ...from()])).toContain('Tollgate 1.1.0 is available; this is 1.0.0.\n')
  expect(JSON.parse(await update(program, ['--check', '--json', ...from()]))).toEqual({
    ...{ version: '1.0.0', latest: '1.1.0', latest_commit: 'abc', is_newer: true, migrates: true },
  })
  offer('1.0.0')
  expect(await update(program, from())).toBe('Tollgate 1.0.0 is up to date (latest release: 1.0.0).\n')
  expect(server.asked.filter((name) => name.endsWith('.gz'))).toEqual([])
})

test('takes a release from a folder', async () => {
  for (const [name, content] of Object.entries(toRelease('1.1.0'))) writeFileSync(join(folder.path, name), content)
  await update(program, ['--from', join(folder.path, 'latest.json')])
  expect(versionOf(program)).toBe('1.1.0')
})

test('follows a redirect to the same server', async () => {
  const release = toRelease('1.1.0')
  server.answers = { ...release, 'new.tar.gz': () => Response.redirect('/moved'), moved: release['new.tar.gz'] }
  await update(program, from())
  expect(versionOf(program)).toBe('1.1.0')
})

const other = makeKey()
const whole = toRelease('1.1.0')
const redirect = (to: string) => () => new Response(null, { status: 302, headers: { location: to } })

test.each<[what: string, answers: Record<string, Answer>, says: RegExp]>([
  ['no index', {}, /returned 404/],
  ['no signature', { ...whole, 'latest.json.minisig': redirect('/none') }, /returned 404/],
  [
    'a changed index',
    { ...whole, 'latest.json': whole['latest.json'].replace('1.1.0', '1.2.0') },
    /signature of .* doesn't match/,
  ],
  [
    'a stranger who signed it',
    { ...whole, 'latest.json.minisig': toSignature(Buffer.from(whole['latest.json']), 'tollgate', other) },
    /unknown key/,
  ],
  ['an older release', toRelease('0.9.9'), /older than this version/],
  ['a pre-release of this version', toRelease('1.0.0-rc.1'), /older than this version/],
  ['an endless index', { ...whole, 'latest.json': flood }, /too much/],
  ['an endless archive', { ...whole, 'new.tar.gz': flood }, /too much/],
  ['a shorter archive', { ...whole, 'new.tar.gz': whole['new.tar.gz'].subarray(1_000) }, /Checksum mismatch/],
  ['another archive', { ...whole, 'new.tar.gz': toArchive(toProgram('6.6.6')) }, /Checksum mismatch|too much/],
  ['a redirect without HTTPS', { ...whole, 'new.tar.gz': redirect('http://example.com/x') }, /without HTTPS/],
  ['a redirect to a file', { ...whole, 'new.tar.gz': redirect('file:///bin/sh') }, /without HTTPS/],
  ['a redirect to nowhere', { ...whole, 'new.tar.gz': () => new Response(null, { status: 302 }) }, /returned 302/],
  ['endless redirects', { ...whole, 'new.tar.gz': redirect('/new.tar.gz') }, /redirects more than/],
  ['a broken connection', { ...whole, 'new.tar.gz': cut }, /Can't read|Checksum mismatch/],
  ['signed text that is no index', toRelease('new'), /not a list/],
  [
    'a name outside of its folder',
    toRelease('1.1.0', { files: { x: { name: '../x', bytes: 1, sha256: 'a'.repeat(64) } } }),
    /not a list/,
  ],
  ['no file for this machine', toRelease('1.1.0', { files: {} }), /no file for linux-x64/],
  [
    'an archive of something else',
    toRelease('1.1.0', {}, toArchive(toProgram('1.1.0'), 'other')),
    /begin with a program/,
  ],
  ['a program of another version', toRelease('1.1.0', {}, toArchive(toProgram('1.0.9'))), /doesn't run/],
  ['a program that does not start', toRelease('1.1.0', {}, toArchive('\x7fELF')), /doesn't run|Can't replace/],
])('changes nothing with %s', async (_, answers, says) => {
  server.answers = answers
  await expect(update(program, from())).rejects.toThrow(says)
  expect(readFileSync(program, 'utf8')).toBe(toProgram('1.0.0'))
  expect(readdirSync(folder.path)).toEqual(['tollgate'])
})

function cut() {
  const start = (to: ReadableStreamDefaultController) => to.enqueue(new Uint8Array(1_000))
  return new Response(new ReadableStream({ start, pull: () => void server.stop() }))
}

test.each<[what: string, words: string[], self: Parameters<typeof update>[2], says: RegExp]>([
  ['an address without HTTPS', ['--from', 'http://example.com/latest.json'], {}, /begins with https/],
  ['no address', [], {}, /--from/],
  ['no key', ['--from', '/x'], { publisher: { url: null, keys: [] } }, /--key/],
  ['a wrong key', ['--from', '/x', '--key', 'abc'], {}, /minisign public key/],
])('%s is refused', async (_, words, self, says) => {
  await expect(update(program, words, self)).rejects.toThrow(says)
})

test('a checkout, and what a package manager installed, is not replaced', async () => {
  offer('1.1.0')
  await expect(update(null, from())).rejects.toThrow('This is a checkout')
  const cellar = join(folder.path, 'Cellar')
  await Bun.write(join(cellar, 'tollgate'), toProgram('1.0.0'))
  await expect(update(join(cellar, 'tollgate'), from())).rejects.toThrow('brew upgrade tollgate')
})

test('of two updates at once, the later one changes nothing, and the old program is kept', async () => {
  const { 'new.tar.gz': archive, ...rest } = toRelease('1.1.0')
  const [started, both] = [Promise.withResolvers<void>(), Promise.withResolvers<void>()]
  server.answers = {
    ...rest,
    'new.tar.gz': () => {
      started.resolve()
      const pull = async (to: ReadableStreamDefaultController) => {
        await both.promise
        to.enqueue(archive)
        to.close()
      }
      return new Response(new ReadableStream({ pull }))
    },
  }
  const late = update(program, from())
  await started.promise
  // This process has one process ID.
  const other = Bun.spawn([
    process.execPath,
    join(import.meta.dir, 'update-fixture.ts'),
    program,
    server.url,
    key.publicKey,
  ])
  offer('1.2.0')
  expect(await other.exited).toBe(0)
  both.resolve()
  await expect(late).rejects.toThrow('Another update has replaced')
  expect([versionOf(program), versionOf(`${program}.previous`)]).toEqual(['1.2.0', '1.0.0'])
  expect(readdirSync(folder.path).toSorted()).toEqual(['tollgate', 'tollgate.previous'])
})

test('killed in the middle of a download, it leaves the program, and the next one cleans up', async () => {
  const { 'new.tar.gz': archive, ...rest } = toRelease('1.1.0')
  let sent = false
  server.answers = {
    ...rest,
    'new.tar.gz': () =>
      new Response(
        new ReadableStream({
          start: (to) => to.enqueue(archive.subarray(0, archive.length / 2)),
          pull: () => {
            sent = true
            return new Promise(() => {})
          },
        }),
      ),
  }
  const script = join(import.meta.dir, 'update-fixture.ts')
  const child = Bun.spawn([process.execPath, script, program, server.url, key.publicKey], { stderr: 'inherit' })
  await until('half of a download', () => sent && readdirSync(folder.path).length > 1)
  child.kill('SIGKILL')
  await child.exited
  expect(readFileSync(program, 'utf8')).toBe(toProgram('1.0.0'))
  expect(readdirSync(folder.path)).toHaveLength(2)
  writeFileSync(join(folder.path, 'tollgate.update-notes'), '')
  offer('1.1.0')
  await update(program, from())
  expect(readdirSync(folder.path).toSorted()).toEqual(['tollgate', 'tollgate.previous', 'tollgate.update-notes'])
})

test('killed at any moment, it leaves a whole program and no other', async () => {
  for (const [name, content] of Object.entries(toRelease('1.1.0'))) writeFileSync(join(folder.path, name), content)
  const words = [join(import.meta.dir, 'update-fixture.ts'), program, join(folder.path, 'latest.json'), key.publicKey]
  const whole = [toProgram('1.0.0'), toProgram('1.1.0')]
  const first = performance.now()
  await Bun.spawn([process.execPath, ...words]).exited
  const tookMs = performance.now() - first
  const seen = new Set<string>()
  for (let round = 0; round < 20; round++) {
    install(folder.path)
    const child = Bun.spawn([process.execPath, ...words])
    await Bun.sleep((tookMs * round) / 20)
    child.kill('SIGKILL')
    await child.exited
    const found = readFileSync(program, 'utf8')
    expect(whole).toContain(found)
    expect(statSync(program).mode & 0o777).toBe(0o751)
    seen.add(found)
  }
  expect(seen).toContain(toProgram('1.0.0'))
})

test('takes a release by HTTPS, and follows no redirect to plain HTTP', async () => {
  const { cert, key: secret } = makeCertificate('DNS:localhost,IP:127.0.0.1')
  const certificate = join(folder.path, 'cert.pem')
  writeFileSync(certificate, cert)
  let location = `${server.url}/..`
  using secure = Bun.serve({
    ...{ port: 0, hostname: '127.0.0.1', development: false, tls: { cert, key: secret } },
    fetch: ({ url }) => {
      const name = new URL(url).pathname.slice(1)
      if (name === 'new.tar.gz')
        return new Response(null, { status: 302, headers: { location: `${location}/${name}` } })
      const answer = server.answers[name.replace('moved/', '')]
      return answer === undefined || typeof answer === 'function'
        ? new Response(null, { status: 404 })
        : new Response(answer)
    },
  })
  offer('1.1.0')
  const run = async () => {
    const child = Bun.spawn(
      [
        process.execPath,
        join(import.meta.dir, 'update-fixture.ts'),
        program,
        `${secure.url}latest.json`,
        key.publicKey,
      ],
      { env: { ...process.env, NODE_EXTRA_CA_CERTS: certificate }, stderr: 'pipe' },
    )
    const text = await child.stderr.text()
    await child.exited
    return text
  }
  expect(await run()).toContain('redirects to an address without HTTPS')
  expect(server.asked).toEqual([])
  location = '/moved'
  expect(await run()).toBe('')
  expect(versionOf(program)).toBe('1.1.0')
})

test('a full disk changes nothing', async () => {
  const disk = mountSmallDisk(join(folder.path, 'disk'), 1)
  if (typeof disk === 'string') return console.warn(`Skipped: ${disk}`)
  try {
    const onDisk = install(disk.folder)
    offer('1.1.0')
    await disk.fill()
    await expect(update(onDisk, from())).rejects.toThrow('The disk is full. Nothing was changed.')
    expect(versionOf(onDisk)).toBe('1.0.0')
    expect(existsSync(`${onDisk}.previous`)).toBe(false)
    disk.free()
    await update(onDisk, from())
    expect(versionOf(onDisk)).toBe('1.1.0')
  } finally {
    disk.unmount()
  }
})
