/** `bun run release`: builds, checks, and signs everything that a release publishes, in dist/release. See docs/internals/releases.md. */
import { createHash } from 'node:crypto'
import { existsSync, mkdirSync, readdirSync, readFileSync, rmSync, statSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { parseArgs } from 'node:util'
import { entries as migrations } from '../../drizzle/meta/_journal.json'
import { version } from '../../package.json'
import { toTarGz } from './archive.ts'
import { hasValidSignature, signAdHoc } from './codesign.ts'
import { type Component, listComponents, toLicenses, toSbom } from './components.ts'
import { readExecutable } from './headers.ts'
import { toImage } from './image.ts'
import { toDeb, toFormula, toInstaller } from './packages.ts'
import { BUN_VERSION, fetchRuntime, isTarget, must, TARGETS, type Target } from './runtimes.ts'
import { type SigningKey, toSignature, toSigningKey } from './sign.ts'

const ROOT = join(import.meta.dir, '../..')

const { values: flags } = parseArgs({
  options: {
    /** Separated by commas. */
    targets: { type: 'string', default: TARGETS.join(',') },
    out: { type: 'string', default: join(ROOT, 'dist/release') },
    /** Folder that the files of this version are published in. */
    url: { type: 'string', default: '' },
    /** Of latest.json, which `tollgate update` reads. */
    'update-url': { type: 'string', default: '' },
    unsigned: { type: 'boolean', default: false },
  },
})

const targets = flags.targets.split(',').map((name): Target => {
  if (isTarget(name)) return name
  throw new Error(`--targets: unknown target '${name}'. Targets: ${TARGETS.join(', ')}`)
})

/** From RELEASE_KEY, the text of a minisign secret key, or RELEASE_KEY_FILE, its path. */
function readKey(): SigningKey | null {
  const { RELEASE_KEY: text, RELEASE_KEY_FILE: path } = process.env
  // No program of the build gets it.
  delete process.env.RELEASE_KEY
  if (text) return toSigningKey(text)
  if (path) return toSigningKey(readFileSync(path, 'utf8'))
  if (flags.unsigned) return null
  throw new Error('Set RELEASE_KEY_FILE to a minisign secret key, or pass --unsigned.')
}

const key = readKey()
const git = (...args: string[]) => must(['git', '-C', ROOT, ...args])
const isDirty = (await git('status', '--porcelain', '--untracked-files=no')) !== ''
if (isDirty && key) throw new Error('Commit your changes first: a signed release names its commit.')
const commit = (await git('rev-parse', 'HEAD')) + (isDirty ? '-dirty' : '')
const seconds = Number(await git('log', '-1', '--format=%ct'))

const out = flags.out
rmSync(out, { recursive: true, force: true })
mkdirSync(out, { recursive: true })
const put = (name: string, content: string | Uint8Array) => writeFileSync(join(out, name), content)

await must([process.execPath, 'install', '--frozen-lockfile'], ROOT)
const bun: Component = {
  ...{ purl: `pkg:github/oven-sh/bun@bun-v${BUN_VERSION}`, name: 'bun', version: BUN_VERSION },
  ...{ license: 'MIT AND LGPL-2.0-or-later', sha512: null, needs: [] },
  licenseText: readFileSync(join(import.meta.dir, 'bun.LICENSE'), 'utf8'),
}
const components = listComponents(ROOT, bun)
const licenses = toLicenses(ROOT, components)
put('LICENSES.txt', licenses)
put(
  `tollgate-${version}.cdx.json`,
  `${JSON.stringify(toSbom(components, { version, commit, time: new Date(seconds * 1_000) }), null, 2)}\n`,
)

const stamps = {
  TOLLGATE_COMMIT: commit,
  TOLLGATE_PUBLIC_KEYS: [key?.publicKey, process.env.RELEASE_FURTHER_KEYS].filter(Boolean).join(' '),
  TOLLGATE_UPDATE_URL: flags['update-url'],
}

/** Returns the program's path. */
async function build(target: Target): Promise<string> {
  const runtime = await fetchRuntime(target)
  const folder = join(out, 'build', target)
  mkdirSync(folder, { recursive: true })
  const path = join(folder, `tollgate${target.startsWith('windows') ? '.exe' : ''}`)
  const metafile = join(folder, 'modules.json')
  const defines = Object.entries({ ...stamps, TOLLGATE_TARGET: target })
  await must(
    [
      ...[process.execPath, 'run', 'build', `--target=bun-${target}`, `--compile-executable-path=${runtime}`],
      ...[`--metafile=${metafile}`, `--outfile=${path}`],
      ...defines.map(([name, value]) => `--define=${name}=${JSON.stringify(value)}`),
    ],
    ROOT,
  )
  if (target === 'darwin-x64') writeFileSync(path, signAdHoc(readFileSync(path)))
  requireListed(Object.keys(JSON.parse(readFileSync(metafile, 'utf8')).inputs))
  return path
}

/** Every package that was built in must be in the SBOM. */
function requireListed(modules: readonly string[]): void {
  const names = new Set(modules.flatMap((path) => /.*node_modules\/((?:@[^/]+\/)?[^/]+)/.exec(path)?.[1] ?? []))
  const missing = [...names].filter((name) => !components.some((one) => one.name === name))
  if (names.size === 0 || missing.length > 0) throw new Error(`The SBOM lacks ${missing.join(', ') || 'all packages'}.`)
}

/** Its headers must be right for the target; a program for this machine must also work. */
async function check(target: Target, path: string): Promise<string> {
  const bytes = readFileSync(path)
  const found = readExecutable(bytes)
  const name = found && `${found.os}-${found.arch}${found.loader.includes('musl') ? '-musl' : ''}`
  if (name !== target.replace('-baseline', '')) throw new Error(`${path} is a program for ${name}, not for ${target}.`)
  if (found?.os === 'darwin' && !hasValidSignature(bytes)) throw new Error(`${path} has no valid code signature.`)
  if (found?.os !== process.platform || found.arch !== process.arch || !existsSync(found.loader))
    return 'by its headers'
  const told = JSON.parse(await must([path, 'version', '--json']))
  if (told.version !== version || told.commit !== commit || told.target !== target)
    throw new Error(`${path} says that it is ${JSON.stringify(told)}.`)
  await must([process.execPath, join(ROOT, '.ci/smoke.ts'), path])
  return 'by running it'
}

const toHash = (path: string) => createHash('sha256').update(readFileSync(path)).digest('hex')

const programs: Partial<Record<Target, string>> = {}
const files: Record<string, { name: string; bytes: number; sha256: string }> = {}
for (const target of targets) {
  const path = await build(target)
  const how = await check(target, path)
  programs[target] = path
  const name = `tollgate-${version}-${target}.tar.gz`
  const program = {
    name: path.endsWith('.exe') ? 'tollgate.exe' : 'tollgate',
    content: readFileSync(path),
    mode: 0o755,
  }
  put(name, toTarGz([program, { name: 'LICENSES.txt', content: licenses }], seconds))
  files[target] = { name, bytes: statSync(join(out, name)).size, sha256: toHash(join(out, name)) }
  console.log(`${target}: checked ${how}, ${(files[target].bytes / 2 ** 20).toFixed(1)} MiB, ${files[target].sha256}`)
}

// On x64, for any CPU.
const packaged = { amd64: programs['linux-x64-baseline'], arm64: programs['linux-arm64'] } as const
for (const architecture of ['amd64', 'arm64'] as const) {
  const path = packaged[architecture]
  if (path === undefined) continue
  const program = readFileSync(path)
  put(`tollgate_${version}_${architecture}.deb`, toDeb({ version, architecture, program, licenses, seconds }))
}
const program = process.platform === 'linux' ? packaged[process.arch === 'x64' ? 'amd64' : 'arm64'] : undefined
if (program === undefined || !Bun.which('dpkg-query'))
  console.warn('No image: that needs Debian, and its target linux-x64-baseline or linux-arm64.')
else put(`tollgate-${version}-oci-${process.arch}.tar`, await toImage({ program, version, commit, licenses, seconds }))
put('Dockerfile', readFileSync(join(import.meta.dir, 'Dockerfile')))
if (flags.url === '') console.warn('No Homebrew formula and no install.sh: they need --url.')
else {
  const published = { version, url: flags.url, files }
  put('tollgate.rb', toFormula(published))
  put(
    'install.sh',
    toInstaller(readFileSync(join(import.meta.dir, 'install.sh'), 'utf8'), published, key?.publicKey ?? ''),
  )
}
rmSync(join(out, 'build'), { recursive: true })

/** The changelog's part of this version, and the commits since the last tag. */
async function toNotes(): Promise<string> {
  const changelog = readFileSync(join(ROOT, 'CHANGELOG.md'), 'utf8').split(/^## /m)
  const part = changelog.find((one) => one.startsWith(version)) ?? changelog.find((one) => one.startsWith('Unreleased'))
  const last = await git('describe', '--tags', '--abbrev=0', 'HEAD^').catch(() => null)
  const commits =
    last === null ? '' : `\n## Commits since ${last}\n\n${await git('log', '--format=- %s', `${last}..HEAD`)}\n`
  return `# Tollgate ${version}\n\n${(part ?? '').replace(/^.*\n/, '').trim()}\n${commits}`
}
put('NOTES.md', await toNotes())

put('latest.json', `${JSON.stringify({ version, commit, schema: migrations.at(-1)?.tag, files }, null, 2)}\n`)
const published = readdirSync(out, { withFileTypes: true }).flatMap((entry) => (entry.isFile() ? entry.name : []))
put(
  'SHA256SUMS',
  published
    .toSorted()
    .map((name) => `${toHash(join(out, name))}  ${name}\n`)
    .join(''),
)
if (key) {
  for (const name of ['SHA256SUMS', 'latest.json'])
    put(`${name}.minisig`, toSignature(readFileSync(join(out, name)), `tollgate ${version} ${name}`, key))
  put('tollgate.pub', `untrusted comment: minisign public key of Tollgate releases\n${key.publicKey}\n`)
}
console.log(`${published.length} files in ${out}${key ? `, signed by ${key.publicKey}` : ', unsigned'}`)
