/**
 * `bun run release` of the last commit: reproducible, signed, and installed by its script, dpkg, `tollgate update`, or
 * as an image.
 */
import { afterAll, describe, expect, test } from 'bun:test'
import {
  appendFileSync,
  copyFileSync,
  cpSync,
  existsSync,
  mkdirSync,
  mkdtempSync,
  readdirSync,
  readFileSync,
  rmSync,
  writeFileSync,
} from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { makeSecretKey } from '../release/keys.ts'

const ROOT = join(import.meta.dir, '../..')
const folder = mkdtempSync(join(tmpdir(), 'tollgate-releases-'))
afterAll(() => rmSync(folder, { recursive: true }))

const secret = join(folder, 'minisign.key')
writeFileSync(secret, makeSecretKey())

function run(command: string[], cwd = folder, environment: Record<string, string> = {}): string {
  const { exitCode, stdout, stderr } = Bun.spawnSync(command, {
    ...{ cwd, stdin: 'ignore', stdout: 'pipe', stderr: 'pipe' },
    env: { ...process.env, RELEASE_KEY_FILE: secret, ...environment },
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

  test('is the same from two folders, and names its source', () => {
    const [one, two] = [clone('one'), clone('deeper/two')]
    const own = process.arch === 'x64' ? 'linux-x64,linux-x64-baseline' : 'linux-arm64'
    const targets = ['--targets', `${own},linux-arm64-musl`, '--url', 'https://example.com/releases']
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

  const out = join(folder, 'one/dist/release')
  const find = (pattern: RegExp) => join(out, readdirSync(out).find((name) => pattern.test(name)) ?? 'missing')

  test('is installed by its script, unless a file was changed', () => {
    const copy = join(folder, 'copy')
    mkdirSync(copy)
    const archives = readdirSync(out).filter((name) => name.endsWith('.tar.gz'))
    for (const name of ['SHA256SUMS', 'SHA256SUMS.minisig', ...archives])
      copyFileSync(join(out, name), join(copy, name))
    const bin = join(folder, 'bin')
    const install = () =>
      run(['sh', join(out, 'install.sh')], folder, { TOLLGATE_URL: `file://${copy}`, TOLLGATE_BIN: 'bin' })
    expect(install()).toContain('Installed Tollgate')
    expect(JSON.parse(run([join(bin, 'tollgate'), 'version', '--json'])).commit).toBe(tell().commit)
    rmSync(bin, { recursive: true })
    for (const name of archives) appendFileSync(join(copy, name), 'x')
    expect(install).toThrow('Checksum mismatch')
    const sums = archives.map((name) => run(['sha256sum', name], copy)).join('')
    writeFileSync(join(copy, 'SHA256SUMS'), sums)
    if (Bun.which('minisign')) expect(install).toThrow('signature of SHA256SUMS is not valid')
    expect(existsSync(bin)).toBe(false)
    expect(() => run(['sh', join(out, 'install.sh')], folder, { TOLLGATE_URL: 'http://example.com' })).toThrow(
      'https://',
    )
  })

  const dpkg = Bun.which('dpkg')
  test.skipIf(dpkg === null)(`is installed by dpkg${dpkg ? '' : ' (skipped: no dpkg)'}`, () => {
    const root = join(folder, 'root')
    mkdirSync(join(root, 'var/lib/dpkg/updates'), { recursive: true })
    mkdirSync(join(root, 'var/lib/dpkg/info'))
    writeFileSync(join(root, 'var/lib/dpkg/status'), '')
    const architecture = run(['dpkg', '--print-architecture']).trim()
    const deb = find(new RegExp(`_${architecture}\\.deb$`))
    expect(run(['dpkg-deb', '--field', deb, 'Package', 'Depends'])).toContain('Depends: libc6')
    run(['dpkg', `--root=${root}`, '--force-not-root', '--force-depends', '--log=/dev/null', '-i', deb])
    expect(run([join(root, 'usr/bin/tollgate'), '--version'])).toBe(`${tell().version}\n`)
    run(['md5sum', '-c', join(root, 'var/lib/dpkg/info/tollgate.md5sums')], root)
  })

  const whyNot = process.getuid?.() !== 0 ? 'not root' : Bun.which('unshare') === null ? 'no unshare' : null
  test.skipIf(whyNot !== null)(
    `runs as an image, without root and with a read-only root${whyNot ? ` (skipped: ${whyNot})` : ''}`,
    () => {
      const [layout, root] = [join(folder, 'layout'), join(folder, 'image')]
      mkdirSync(layout)
      mkdirSync(root)
      run(['tar', '-xf', find(/-oci-.*\.tar$/), '-C', layout])
      const read = (name: string) => JSON.parse(readFileSync(join(layout, name), 'utf8'))
      const blob = ({ digest }: { digest: string }) => `blobs/${digest.replace(':', '/')}`
      const [entry] = read('index.json').manifests
      const manifest = read(blob(entry))
      const { config } = read(blob(manifest.config))
      if (Bun.which('umoci'))
        run([
          'umoci',
          'unpack',
          '--image',
          `layout:${entry.annotations['org.opencontainers.image.ref.name']}`,
          'bundle',
        ])
      run(['tar', '-xzf', join(layout, blob(manifest.layers[0])), '-C', root])
      // As a container runtime does.
      const words = [...config.Entrypoint, ...config.Cmd, '--port', '0'].join(' ')
      const script = `set -e
mkdir -p proc dev
mount --bind . . && cd "$PWD"
mount -t proc proc proc && mount --bind /dev dev && mount -t tmpfs -o mode=700,uid=65532,gid=65532 data data
mount -o remount,ro,bind .
run() { env -i ${config.Env.join(' ')} ${Bun.which('chroot')} --userspec=${config.User} . "$@"; }
run ${words} 2>&1 &
for _ in $(seq 100); do if run ${config.Healthcheck.Test.slice(1).join(' ')}; then exit 0; fi; sleep 0.1; done
exit 1`
      const told = run(['unshare', '--mount', '--pid', '--fork', '--kill-child', 'sh', '-c', script], root)
      expect(told).toContain('ready')
      expect(config.User).toBe('65532:65532')
    },
  )

  test('updates an earlier one, and its running server, and only with its publisher’s signature', async () => {
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
    const data = ['--data', join(folder, 'data')]
    const server = Bun.spawn([installed, 'serve', '--port', '0', '--first-key', '--json', ...data], {
      stderr: 'ignore',
    })
    await server.stdout.getReader().read()
    run([installed, 'update', '--from', index])
    expect(tell().version).toBe('99.0.0')
    expect(run([`${installed}.previous`, '--version'])).toBe(`${before}\n`)
    const status = () => JSON.parse(run([installed, 'status', '--json', ...data])).status.version
    expect(status()).toBe(before)
    const { pid } = JSON.parse(run([installed, 'restart', '--json', ...data]))
    try {
      expect(status()).toBe('99.0.0')
      expect(await server.exited).toBe(0)
    } finally {
      process.kill(pid, 'SIGTERM')
    }
  }, 900_000)
})

if (!hasGit) console.warn('Tests of releases are skipped: this is no Git repository.')
