/** `bun run release` of the last commit: the same twice, signed, complete, and what `tollgate update` installs. */
import { afterAll, describe, expect, test } from 'bun:test'
import { cpSync, existsSync, mkdirSync, mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { makeSecretKey } from '../release/keys.ts'

const ROOT = join(import.meta.dir, '../..')
const folder = mkdtempSync(join(tmpdir(), 'tollgate-releases-'))
afterAll(() => rmSync(folder, { recursive: true }))

const secret = join(folder, 'minisign.key')
writeFileSync(secret, makeSecretKey())

function run(command: string[], cwd = folder): string {
  const { exitCode, stdout, stderr } = Bun.spawnSync(command, {
    ...{ cwd, stdin: 'ignore', stdout: 'pipe', stderr: 'pipe' },
    env: { ...process.env, RELEASE_KEY_FILE: secret },
  })
  if (exitCode !== 0) throw new Error(`${command.join(' ')} ended with ${exitCode}: ${stdout}${stderr}`)
  return stdout.toString()
}

const hasGit = existsSync(join(ROOT, '.git'))

describe.skipIf(!hasGit || process.platform !== 'linux')('a release', () => {
  const clone = (name: string) => {
    const path = join(folder, name)
    run(['git', 'clone', '--quiet', '--depth', '1', `file://${ROOT}`, path])
    run([process.execPath, 'install', '--frozen-lockfile'], path)
    const cache = join(ROOT, 'node_modules/.cache/bun-runtimes')
    mkdirSync(join(path, 'node_modules/.cache'), { recursive: true })
    if (existsSync(cache)) cpSync(cache, join(path, 'node_modules/.cache/bun-runtimes'), { recursive: true })
    return path
  }
  const release = (path: string, ...flags: string[]) => {
    run([process.execPath, 'run', 'release', ...flags], path)
    return join(path, 'dist/release')
  }
  const installed = join(folder, 'tollgate')
  const tell = () => JSON.parse(run([installed, 'version', '--json']))

  test('is the same from two folders, and tells where it is from', () => {
    const [one, two] = [clone('one'), clone('deeper/two')]
    const targets = ['--targets', `linux-${process.arch},linux-arm64-musl`]
    const outs = [release(one, ...targets), release(two, ...targets)] as const
    const [sums, again] = outs.map((out) => readFileSync(join(out, 'SHA256SUMS'), 'utf8'))
    expect(sums).toBe(String(again))
    run(['sha256sum', '--check', 'SHA256SUMS'], outs[0])
    if (Bun.which('minisign')) run(['minisign', '-Vm', 'SHA256SUMS', '-p', 'tollgate.pub'], outs[0])
    const index = JSON.parse(readFileSync(join(outs[0], 'latest.json'), 'utf8'))
    const target = `linux-${process.arch}`
    run(['tar', '-xzf', join(outs[0], index.files[target].name), '-C', folder])
    expect(tell()).toMatchObject({ version: index.version, commit: index.commit, schema: index.schema, target })
    expect(index.commit).toBe(run(['git', 'rev-parse', 'HEAD'], one).trim())
  }, 900_000)

  test('updates an earlier one, and only with its publisher’s signature', () => {
    const path = join(folder, 'one')
    const file = join(path, 'package.json')
    const { version: before } = tell()
    writeFileSync(file, readFileSync(file, 'utf8').replace(`"version": "${before}"`, '"version": "99.0.0"'))
    run(['git', '-c', 'user.name=test', '-c', 'user.email=test@example.com', 'commit', '--quiet', '-am', 'next'], path)
    const out = release(path, '--targets', `linux-${process.arch}`)
    const index = join(out, 'latest.json')
    const signature = readFileSync(`${index}.minisig`, 'utf8')
    writeFileSync(`${index}.minisig`, signature.replace('99.0.0', '99.0.1'))
    expect(() => run([installed, 'update', '--from', index])).toThrow("doesn't match")
    expect(tell().version).toBe(before)
    writeFileSync(`${index}.minisig`, signature)
    run([installed, 'update', '--from', index])
    expect(tell().version).toBe('99.0.0')
    expect(run([`${installed}.previous`, '--version'])).toBe(`${before}\n`)
  }, 900_000)
})

if (!hasGit) console.warn('Tests of releases are skipped: this is no Git repository.')
