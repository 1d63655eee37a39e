/** An OCI image without a base: the program, the C library of this machine, and nothing else. `podman load` takes it. */
import { createHash } from 'node:crypto'
import { readFileSync } from 'node:fs'
import { gzipSync } from 'node:zlib'
import { type Entry, toTar } from './archive.ts'
import { must } from './runtimes.ts'

/** Owner of the process and of /data. */
const USER = 65_532

const ARCHITECTURES: Readonly<Record<string, string>> = { x64: 'amd64', arm64: 'arm64' }

interface ImageOptions {
  /** Path of a program for this machine. */
  program: string
  version: string
  commit: string
  licenses: string
  seconds: number
}

/** An `oci-archive`: a tar of an OCI layout with one image. */
export async function toImage(options: ImageOptions): Promise<Buffer> {
  const { seconds, version, commit } = options
  const layer = toTar(await listFiles(options), seconds)
  const packed = gzipSync(layer)
  const blobs = new Map<string, Buffer>()
  const add = (mediaType: string, content: Buffer) => {
    const hash = toHash(content)
    blobs.set(hash, content)
    return { mediaType, digest: `sha256:${hash}`, size: content.length }
  }
  const addJson = (mediaType: string, document: object) => add(mediaType, Buffer.from(JSON.stringify(document)))
  const created = new Date(seconds * 1_000).toISOString()
  const labels = {
    'org.opencontainers.image.title': 'tollgate',
    'org.opencontainers.image.description': 'Self-hosted LLM gateway',
    'org.opencontainers.image.version': version,
    'org.opencontainers.image.revision': commit,
    'org.opencontainers.image.created': created,
    'org.opencontainers.image.licenses': 'MIT',
  }
  const config = addJson('application/vnd.oci.image.config.v1+json', {
    ...{ created, architecture: ARCHITECTURES[process.arch], os: 'linux' },
    config: {
      ...{ User: `${USER}:${USER}`, WorkingDir: '/data', Volumes: { '/data': {} }, ExposedPorts: { '4000/tcp': {} } },
      ...{ Env: ['PATH=/usr/bin', 'TOLLGATE_DATA=/data', 'HOME=/data'], StopSignal: 'SIGTERM', Labels: labels },
      ...{ Entrypoint: ['/usr/bin/tollgate'], Cmd: ['serve', '--host', '0.0.0.0'] },
      // An extension of OCI's format that Docker reads.
      Healthcheck: {
        ...{ Test: ['CMD', '/usr/bin/tollgate', 'status'], Retries: 3 },
        ...{ Interval: 30_000_000_000, Timeout: 10_000_000_000, StartPeriod: 60_000_000_000 },
      },
    },
    rootfs: { type: 'layers', diff_ids: [`sha256:${toHash(layer)}`] },
    history: [{ created, created_by: 'bun run release' }],
  })
  const mediaType = 'application/vnd.oci.image.manifest.v1+json'
  const manifest = addJson(mediaType, {
    ...{ schemaVersion: 2, mediaType, config },
    layers: [add('application/vnd.oci.image.layer.v1.tar+gzip', packed)],
    annotations: labels,
  })
  const index = {
    ...{ schemaVersion: 2, mediaType: 'application/vnd.oci.image.index.v1+json' },
    manifests: [
      {
        ...manifest,
        platform: { architecture: ARCHITECTURES[process.arch], os: 'linux' },
        annotations: { 'org.opencontainers.image.ref.name': `tollgate:${version}` },
      },
    ],
  }
  const layout: Entry[] = [
    { name: 'oci-layout', content: JSON.stringify({ imageLayoutVersion: '1.0.0' }) },
    { name: 'index.json', content: JSON.stringify(index) },
    { name: 'blobs/' },
    { name: 'blobs/sha256/' },
    ...[...blobs].map(([hash, content]) => ({ name: `blobs/sha256/${hash}`, content })),
  ]
  return toTar(layout, seconds)
}

const toHash = (content: Buffer) => createHash('sha256').update(content).digest('hex')

async function listFiles({ program, licenses }: ImageOptions): Promise<Entry[]> {
  const { libraries, notice } = await findLibraries(program)
  const files: Entry[] = [
    { name: 'etc/passwd', content: `tollgate:x:${USER}:${USER}::/data:/\n` },
    { name: 'etc/group', content: `tollgate:x:${USER}:\n` },
    { name: 'etc/nsswitch.conf', content: 'hosts: files dns\n' },
    ...libraries.map((path) => ({ name: path.slice(1), content: readFileSync(path), mode: 0o755 })),
    { name: 'usr/bin/tollgate', content: readFileSync(program), mode: 0o755 },
    { name: 'usr/share/doc/tollgate/LICENSES.txt', content: licenses },
    { name: 'usr/share/doc/libc6/copyright', content: notice },
  ]
  const folders = new Set(
    files.flatMap(({ name }) => [...name.matchAll(/\//g)].map(({ index }) => name.slice(0, index))),
  )
  return [
    ...[...folders].toSorted().map((name) => ({ name: `${name}/` })),
    { name: 'data/', mode: 0o700, owner: USER },
    { name: 'tmp/', mode: 0o1777 },
    ...files,
  ]
}

/** The loader and libraries that the program names: those of libc6, which may be passed on with its notice. */
async function findLibraries(program: string): Promise<{ libraries: string[]; notice: string }> {
  const listed = await must(['ldd', program])
  const libraries = [...listed.matchAll(/(?:=> |^\s*)(\/\S+) \(/gm)].map(([, path = '']) => path)
  const strangers = libraries.filter((path) => !/\/(ld-linux-[\w-]+|lib(c|m|dl|pthread|rt))\.so\.\d$/.test(path))
  if (libraries.length === 0 || strangers.length > 0) throw new Error(`Not of libc6: ${strangers.join(', ')}`)
  const version = await must(['dpkg-query', '-W', `-f=\${source:Package} \${source:Version}`, 'libc6'])
  const copyright = readFileSync('/usr/share/doc/libc6/copyright', 'utf8')
  const [, system = 'Debian'] = /^NAME="?([^"\n]+)/m.exec(readFileSync('/etc/os-release', 'utf8')) ?? []
  const source = `The C library is the libc6 of ${system}, unchanged. Its source: apt-get source ${version.replace(' ', '=')}\n\n`
  return { libraries: libraries.toSorted(), notice: source + copyright }
}
