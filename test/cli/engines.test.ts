/** `tollgate engines install | list`: unpacking archives, keeping working builds, and selecting the engine. */
import { beforeEach, describe, expect, test } from 'bun:test'
import {
  chownSync,
  existsSync,
  mkdirSync,
  readdirSync,
  readFileSync,
  readlinkSync,
  rmSync,
  statSync,
  symlinkSync,
  writeFileSync,
} from 'node:fs'
import { join } from 'node:path'
import { makeTarGz, type Packed } from '../support/archives.ts'
import { forEachTest } from '../support/lifetime.ts'
import { RUN_LLAMA_SERVER } from '../support/llama-server.ts'
import { createBench } from './run.ts'

const bench = forEachTest(createBench)
beforeEach(() => {
  bench.environment.PATH = '/usr/bin:/bin'
})

const SERVER = (version: string): Packed => ({
  name: 'build/bin/llama-server',
  content: `#!/bin/sh
[ "$1" = --version ] && echo "version: ${version} (abc)" >&2 && exit 0
${RUN_LLAMA_SERVER}
`,
  mode: 0o100755,
})

function pack(name: string, bytes: Uint8Array) {
  writeFileSync(join(bench.folder, name), bytes)
  return ['--from', name, '--sha256', new Bun.CryptoHasher('sha256').update(bytes).digest('hex')]
}
const install = (...words: string[]) => bench.run('engines', 'install', ...words)
const list = async () =>
  JSON.parse((await bench.run('engines', 'list', '--json')).stdout) as {
    used: string | null
    engines: { version: string; is_current: boolean }[]
  }
const versions = async () =>
  (await list()).engines.map(({ version, is_current }) => `${version}${is_current ? ', in use' : ''}`).toSorted()
const runCurrent = () =>
  Bun.spawnSync([join(bench.folder, 'engines/current/llama-server'), '--version']).stderr.toString()

describe('engines install', () => {
  test('unpacks, tests, and uses a build, and keeps the previous one', async () => {
    const first = pack('one.tar.gz', makeTarGz([SERVER('1')]))
    const { code, stdout } = await install(...first)
    expect([code, stdout]).toEqual([0, expect.stringContaining('llama-server 1 (abc)')])
    expect(runCurrent()).toContain('version: 1')
    await install(...pack('two.tgz', makeTarGz([SERVER('2')])))
    expect(runCurrent()).toContain('version: 2')
    expect(await versions()).toEqual(['1 (abc)', '2 (abc), in use'])
    expect((await install(...pack('three.tar.gz', makeTarGz([SERVER('3')])))).code).toBe(0)
    expect(await versions()).toEqual(['2 (abc)', '3 (abc), in use'])
    // A folder and a note for each, and the link.
    expect(readdirSync(join(bench.folder, 'engines'))).toHaveLength(5)
    await install(...pack('two.tgz', makeTarGz([SERVER('2')])))
    expect(await versions()).toEqual(['2 (abc), in use', '3 (abc)'])
    expect((await list()).used).toBe(join(bench.folder, 'engines/current/llama-server'))
  })

  test('unpacks again after changes, and runs no program that a note refers to', async () => {
    const words = pack('one.tar.gz', makeTarGz([SERVER('1')]))
    await install(...words)
    const engines = join(bench.folder, 'engines')
    const name = readdirSync(engines).find((each) => each.endsWith('.json')) ?? ''
    const touch = `#!/bin/sh\ntouch '${join(bench.folder, 'touched')}'\nexit 1\n`
    writeFileSync(join(engines, 'current/llama-server'), touch)
    writeFileSync(join(engines, 'current/libevil.so'), '')
    expect((await install(...words)).code).toBe(0)
    expect([runCurrent(), existsSync(join(engines, 'current/libevil.so'))]).toEqual(['version: 1 (abc)\n', false])
    writeFileSync(join(bench.folder, 'outside'), touch, { mode: 0o755 })
    const note = JSON.parse(readFileSync(join(engines, name), 'utf8'))
    writeFileSync(join(engines, '...json'), JSON.stringify(note))
    expect(await versions()).toEqual(['1 (abc), in use'])
    rmSync(join(engines, '...json'))
    for (const program of ['../../outside', join(bench.folder, 'outside')]) {
      writeFileSync(join(engines, name), JSON.stringify({ ...note, program }))
      expect((await list()).engines).toEqual([])
      expect((await install(...words)).code).toBe(0)
      expect(await versions()).toEqual(['1 (abc), in use'])
    }
    expect(existsSync(join(bench.folder, 'touched'))).toBe(false)
    expect(readdirSync(engines)).toHaveLength(3)
  })

  // Only root can change owners.
  test.if(process.getuid?.() === 0)("doesn't change the owner of a link's target", async () => {
    const others = join(bench.folder, 'others')
    for (const path of [others, join(bench.folder, 'engines')]) mkdirSync(path)
    writeFileSync(join(others, 'file'), '')
    symlinkSync(others, join(bench.folder, 'engines/folder'))
    symlinkSync(join(others, 'file'), join(bench.folder, 'engines/file'))
    chownSync(bench.folder, 1_000, 1_000)
    expect((await install(...pack('one.tar.gz', makeTarGz([SERVER('1')])))).code).toBe(0)
    expect(statSync(join(bench.folder, 'engines/current/llama-server')).uid).toBe(1_000)
    expect([statSync(others).uid, statSync(join(others, 'file')).uid]).toEqual([0, 0])
  })

  const BROKEN: Packed = {
    ...SERVER('2'),
    content: '#!/bin/sh\necho "libvulkan.so.1: cannot open shared object file" >&2; exit 127\n',
  }
  test.each<[what: string, entries: Packed[], sentence: string]>([
    ['has no server', [{ name: 'readme', content: 'x' }], "doesn't contain llama-server"],
    ['does not run here', [BROKEN], "doesn't run on this machine: libvulkan.so.1: cannot open"],
    ['is for another machine', [{ ...SERVER('2'), content: '\x7fELF' }], "doesn't run on this machine"],
    ['would write elsewhere', [SERVER('2'), { name: '../../evil', content: 'x' }], 'has an entry outside its folder'],
  ])('leaves what is in use where a build %s', async (_what, entries, sentence) => {
    await install(...pack('one.tar.gz', makeTarGz([SERVER('1')])))
    const before = readdirSync(join(bench.folder, 'engines'))
    const { code, stderr } = await install(...pack('two.tar.gz', makeTarGz(entries)))
    expect([code, stderr]).toEqual([1, expect.stringContaining(sentence)])
    expect(readdirSync(join(bench.folder, 'engines'))).toEqual(before)
    expect(runCurrent()).toContain('version: 1')
    expect(existsSync(join(bench.folder, 'evil'))).toBe(false)
  })

  test('does not wait for processes that a build leaves running after its version check', async () => {
    const leaving = `${SERVER('1').content?.replace('exit 0', '{ sleep 1000 & } && exit 0')}`
    const { code, stdout } = await install(...pack('one.tar.gz', makeTarGz([{ ...SERVER('1'), content: leaving }])))
    expect([code, stdout]).toEqual([0, expect.stringContaining('llama-server 1 (abc)')])
  })

  test('unpacks nothing from a file with another digest', async () => {
    const [from = '', name = ''] = pack('one.tar.gz', makeTarGz([SERVER('1')]))
    const wrong = await install(from, name, '--sha256', '0'.repeat(64))
    expect([wrong.code, wrong.stderr]).toEqual([1, expect.stringContaining('Checksum mismatch for ')])
    expect(existsSync(join(bench.folder, 'engines'))).toBe(false)
    expect((await install(from, name)).stderr).toContain("--sha256 must be the publisher's checksum")
    expect((await install(from, name, '--sha256', 'abc')).code).toBe(2)
    expect((await install('--from', 'none.tar.gz', '--sha256', '0'.repeat(64))).stderr).toContain('File not found: ')
  })

  test('needs a source, and says what to do', async () => {
    const { code, stderr } = await install()
    expect([code, stderr]).toEqual([2, expect.stringContaining('--from and --sha256 are required.')])
  })
})

test('engines list shows the engine in use, and says if there is none', async () => {
  expect((await bench.run('engines', 'list')).stderr).toContain('llama-server is not installed')
  await install(...pack('one.tar.gz', makeTarGz([SERVER('1')])))
  expect((await bench.run('engines', 'list')).stdout).toMatch(/one-[0-9a-f]{8} +1 \(abc\) .+ in use/)
  expect(readlinkSync(join(bench.folder, 'engines/current'))).toMatch(/^one-[0-9a-f]{8}\/build\/bin$/)
  expect(readFileSync(join(bench.folder, 'engines/current/llama-server'), 'utf8')).toContain('version: 1')
})
